//! What a function says about the items of its batch (`ReportBatchItemFailures`), read by Lambda's rules.

use serde_json::Value;

/// What came of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// These items failed, by their positions in the batch; none of them means success.
    Items(Vec<usize>),
    /// The report cannot be understood, so every item counts as failed.
    Whole(Malformed),
}

/// What is wrong with a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the answer is no JSON")]
    Json,
    #[error("the answer is no object")]
    Answer,
    #[error("batchItemFailures is no list")]
    List,
    #[error("an item of batchItemFailures has no itemIdentifier that is text")]
    Identifier,
    #[error("an itemIdentifier is empty")]
    Empty,
    #[error("an itemIdentifier names no item of the batch")]
    Unknown,
}

/// Reads the answer to a batch of items with these identifiers.
///
/// Success is said by `null`, by an object without the list, and by an empty or null list. Everything that is not
/// understood fails the batch: repeating work is safe, and losing it is not.
pub(super) fn judge(answer: &[u8], identifiers: &[&str]) -> Verdict {
    match read(answer, identifiers) {
        Ok(items) => Verdict::Items(items),
        Err(malformed) => Verdict::Whole(malformed),
    }
}

fn read(answer: &[u8], identifiers: &[&str]) -> Result<Vec<usize>, Malformed> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| Malformed::Json)?;
    let report = match &answer {
        Value::Null => return Ok(Vec::new()),
        Value::Object(report) => report,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return Err(Malformed::Answer),
    };
    let list = match report.get("batchItemFailures") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => return Err(Malformed::List),
    };
    let position = |item: &Value| {
        let identifier = item.get("itemIdentifier").and_then(Value::as_str).ok_or(Malformed::Identifier)?;
        if identifier.is_empty() {
            return Err(Malformed::Empty);
        }
        identifiers.iter().position(|known| *known == identifier).ok_or(Malformed::Unknown)
    };
    let mut failed: Vec<usize> = list.iter().map(position).collect::<Result<_, _>>()?;
    failed.sort_unstable();
    failed.dedup();
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: &Verdict) {
        assert_eq!(&judge(answer.as_bytes(), &["a", "b", "c"]), expected, "{answer}");
    }

    #[test]
    fn reports_are_read_by_lambdas_rules() {
        for success in
            ["null", "{}", r#"{"batchItemFailures":[]}"#, r#"{"batchItemFailures":null}"#, r#"{"statusCode":200}"#]
        {
            check(success, &Verdict::Items(vec![]));
        }
        for (items, answer) in [
            (vec![1], r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#),
            (vec![0, 2], r#"{"batchItemFailures":[{"itemIdentifier":"c"},{"itemIdentifier":"a"}]}"#),
            (vec![1], r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"b","more":1}]}"#),
        ] {
            check(answer, &Verdict::Items(items));
        }
        for (malformed, answer) in [
            (Malformed::Json, ""),
            (Malformed::Json, "{"),
            (Malformed::Answer, r#""done""#),
            (Malformed::Answer, "[]"),
            (Malformed::Answer, "1"),
            (Malformed::List, r#"{"batchItemFailures":"b"}"#),
            (Malformed::List, r#"{"batchItemFailures":{"itemIdentifier":"b"}}"#),
            (Malformed::Identifier, r#"{"batchItemFailures":["b"]}"#),
            (Malformed::Identifier, r#"{"batchItemFailures":[null]}"#),
            (Malformed::Identifier, r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#),
            (Malformed::Identifier, r#"{"batchItemFailures":[{"itemIdentifier":7}]}"#),
            (Malformed::Identifier, r#"{"batchItemFailures":[{"messageId":"b"}]}"#),
            (Malformed::Empty, r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#),
            (Malformed::Unknown, r#"{"batchItemFailures":[{"itemIdentifier":"d"}]}"#),
            (Malformed::Unknown, r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":" b"}]}"#),
        ] {
            check(answer, &Verdict::Whole(malformed));
        }
    }
}
