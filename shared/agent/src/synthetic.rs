//! `agent-10`: steps without a purpose of their own, for measurements and for rehearsing what can go wrong.
//!
//! Each step asks the model once and records so many bytes of what it says, so that a crash in any place, and a step run
//! twice, can be seen in the model server's own count of requests. It can be told to fail for good at one step and to be
//! mended by an edit of its input: that is how dead letters and their replay are shown.

use longhaul::{Ctx, ErrorClass, Failure, StepError, Usage};
use serde::{Deserialize, Serialize};

use crate::Tools;
use crate::model::{Asking, Reserved};

/// Steps of one job, as in the agent's card.
const STEPS_MAX: u32 = 1_000;

/// Bytes of a step's result, as in the agent's card: beyond inlining, compression and claim check of a journal entry.
const BYTES_MAX: u32 = 1024 * 1024;

/// Tokens held back for a step: a short question and a short answer.
const RESERVED: Reserved = Reserved { prompt_tokens: 100, answer_tokens: 100 };

const SYSTEM: &str = "You take part in a rehearsal. Answer in one short sentence.";

/// What `agent-10` is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// How many steps, one after the other.
    #[serde(default = "steps")]
    pub steps: u32,
    /// Bytes of each step's result.
    #[serde(default = "bytes")]
    pub bytes: u32,
    /// The step, from 1, that fails for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_at: Option<u32>,
    /// Whether that step has been mended.
    #[serde(default)]
    pub mended: bool,
}

const fn steps() -> u32 {
    10
}

const fn bytes() -> u32 {
    1024
}

/// What `agent-10` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Steps that were run.
    pub steps: u32,
    /// Bytes that they recorded together.
    pub bytes: u64,
}

/// A step's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    text: String,
    usage: Usage,
}

/// The agent.
///
/// # Errors
/// Where it is told to fail, and when the model gives no answer.
pub(crate) async fn agent_10(ctx: &mut Ctx, tools: &Tools, input: Input) -> longhaul::Result<Output> {
    if !(1..=STEPS_MAX).contains(&input.steps) || input.bytes > BYTES_MAX {
        let message = format!("steps must be 1 to {STEPS_MAX} and bytes at most {BYTES_MAX}");
        return Err(longhaul::Error::Terminal(Failure::new(ErrorClass::Invalid, message)));
    }
    let size = usize::try_from(input.bytes).unwrap_or(usize::MAX);
    let mut written = 0_u64;
    for number in 1..=input.steps {
        let live = ctx.live();
        let recorded = ctx
            .effect(&format!("step {number}"), async |key| {
                if input.fail_at == Some(number) && !input.mended {
                    let message = format!("step {number} was told to fail; set `mended` in the input and replay");
                    return Err(StepError::new(ErrorClass::Invalid, message));
                }
                let question = format!("This is step {number} of {} of a rehearsal.", input.steps);
                let answer = tools.model.say(&Asking::of(&live, &key), SYSTEM, &question).await?;
                Ok(Recorded { text: sized(&answer.value, size), usage: answer.usage })
            })
            .retry(tools.model.retry())
            .time_limit(tools.model.step_time_limit())
            .metered(RESERVED.tokens(), |recorded| recorded.usage)
            .priced(tools.model.at_most(&live, RESERVED))
            .await?;
        written = written.saturating_add(u64::try_from(recorded.text.len()).unwrap_or(u64::MAX));
    }
    Ok(Output { steps: input.steps, bytes: written })
}

/// The text repeated and cut to exactly so many bytes; dots where a character does not fit or there is no text.
fn sized(text: &str, bytes: usize) -> String {
    let mut sized = String::with_capacity(bytes);
    let mut chars = text.chars().cycle();
    while sized.len() < bytes {
        match chars.next() {
            Some(c) if sized.len() + c.len_utf8() <= bytes => sized.push(c),
            Some(_) | None => sized.push('.'),
        }
    }
    sized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_its_size() {
        for (text, bytes, expected) in
            [("", 0, ""), ("", 3, "..."), ("abc", 2, "ab"), ("ab", 5, "ababa"), ("é", 3, "é."), ("x", 0, "")]
        {
            assert_eq!(sized(text, bytes), expected, "{text} {bytes}");
        }
    }
}
