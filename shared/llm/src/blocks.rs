//! A message as a row of blocks, which is how every format but Chat Completions writes it.
//!
//! A neutral message keeps texts and tool calls apart and knows nothing of thoughts, citations or a provider's own
//! tools. Where the row is more than texts followed by calls, its order and all that is unknown here is kept in the
//! message's [`Vendor`], so that the same provider gets back exactly what it sent. Text and calls stand in the neutral
//! message alone: what an agent changes there goes out changed.

use serde_json::{Map, Value, json};

use crate::message::{Message, Part, Role, ToolCall, Vendor};

/// Where the row is kept among the vendor's fields.
const ROW: &str = "blocks";

/// One block of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// Visible text.
    Text {
        /// The text.
        text: String,
        /// The block's other fields.
        rest: Map<String, Value>,
    },
    /// A call of one of the caller's tools.
    Call {
        /// The call.
        call: ToolCall,
        /// The block's other fields.
        rest: Map<String, Value>,
    },
    /// Anything else, as it came.
    Other(Value),
}

/// The assistant's message that a row of blocks makes up.
pub(crate) fn into_message(blocks: Vec<Block>, origin: &str) -> Message {
    let plain = is_plain(&blocks);
    let mut message = Message::assistant("");
    message.content.clear();
    let mut vendor = Vendor { origin: origin.to_owned(), ..Vendor::default() };
    let mut row = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text, rest } => {
                row.push(json!({"text": rest}));
                message.content.push(Part::Text { text });
            }
            Block::Call { call, rest } => {
                row.push(json!({"call": call.id}));
                if !rest.is_empty() {
                    vendor.tool_calls.insert(call.id.clone(), rest);
                }
                message.tool_calls.push(call);
            }
            Block::Other(raw) => row.push(json!({"other": raw})),
        }
    }
    if !plain {
        vendor.message.insert(ROW.to_owned(), Value::Array(row));
    }
    message.vendor = (!vendor.is_empty()).then_some(vendor);
    message
}

/// Whether the row is texts, then calls, with nothing that the neutral message could not say.
fn is_plain(blocks: &[Block]) -> bool {
    let mut calls_begun = false;
    blocks.iter().all(|block| match block {
        Block::Text { rest, .. } => rest.is_empty() && !calls_begun,
        Block::Call { .. } => {
            calls_begun = true;
            true
        }
        Block::Other(_) => false,
    })
}

/// The row of blocks of a message for the endpoint `origin`. What came from elsewhere stays out.
pub(crate) fn of_message(message: &Message, origin: &str) -> Vec<Block> {
    let vendor = message.vendor.as_ref().filter(|vendor| vendor.origin == origin);
    let mut texts = message.content.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        // A picture in an assistant's message, or a block of another format: no provider takes them back.
        Part::Image { .. } | Part::Raw { .. } => None,
    });
    let mut calls: Vec<&ToolCall> = message.tool_calls.iter().collect();
    let rest_of = |id: &str| vendor.and_then(|vendor| vendor.tool_calls.get(id)).cloned().unwrap_or_default();
    let mut blocks = Vec::new();
    let row = vendor.and_then(|vendor| vendor.message.get(ROW)).and_then(Value::as_array);
    for entry in row.into_iter().flatten() {
        if let Some(rest) = entry.get("text") {
            let rest = rest.as_object().cloned().unwrap_or_default();
            blocks.extend(texts.next().map(|text| Block::Text { text, rest }));
        } else if let Some(id) = entry.get("call").and_then(Value::as_str) {
            if let Some(at) = calls.iter().position(|call| call.id == id) {
                blocks.push(Block::Call { call: calls.remove(at).clone(), rest: rest_of(id) });
            }
        } else if let Some(raw) = entry.get("other") {
            blocks.push(Block::Other(raw.clone()));
        }
    }
    blocks.extend(texts.map(|text| Block::Text { text, rest: Map::new() }));
    blocks.extend(calls.into_iter().map(|call| Block::Call { call: call.clone(), rest: rest_of(&call.id) }));
    blocks
}

/// A conversation in turns: who speaks changes from one to the next, as formats without a role for tools ask for.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// One message of the model.
    Assistant(&'a Message),
    /// Everything that was said to it in between: results of tools first, in the order of the messages.
    User(Vec<&'a Message>),
}

/// The instructions, and the turns below them. An instruction in mid-conversation keeps its place, as something said.
pub(crate) fn turns(messages: &[Message]) -> (Vec<&Message>, Vec<Turn<'_>>) {
    let instructions: Vec<&Message> = messages.iter().take_while(|it| it.role == Role::System).collect();
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages.iter().skip(instructions.len()) {
        match (message.role, turns.last_mut()) {
            (Role::Assistant, _) => turns.push(Turn::Assistant(message)),
            (Role::System | Role::User | Role::Tool, Some(Turn::User(said))) => said.push(message),
            (Role::System | Role::User | Role::Tool, Some(Turn::Assistant(_)) | None) => {
                turns.push(Turn::User(vec![message]));
            }
        }
    }
    for turn in &mut turns {
        if let Turn::User(said) = turn {
            // Providers want every result directly behind its call, before anything else. The sort is stable.
            said.sort_by_key(|message| message.role != Role::Tool);
        }
    }
    (instructions, turns)
}

/// Turns as a format writes them. One that came out empty is left out, and what then stands side by side becomes one.
pub(crate) fn alternating(turns: impl IntoIterator<Item = (&'static str, Vec<Value>)>) -> Vec<Value> {
    let mut merged: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for (role, content) in turns.into_iter().filter(|(_, content)| !content.is_empty()) {
        match merged.last_mut() {
            Some((last, said)) if *last == role => said.extend(content),
            Some(_) | None => merged.push((role, content)),
        }
    }
    merged.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// A call's id in the letters that every provider takes. Other servers make up ids with dots and colons.
pub(crate) fn wire_id(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect()
}

/// What a tool's message says, when it says nothing: providers refuse empty results.
pub(crate) fn spoken_result(message: &Message) -> String {
    let text = message.text();
    match (text.trim().is_empty(), message.is_error) {
        (false, _) => text,
        (true, true) => "The tool failed and gave no reason.".to_owned(),
        (true, false) => "The tool gave no output.".to_owned(),
    }
}

/// The type and the base64 data of a `data:` address.
pub(crate) fn inline_data(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((kind.strip_suffix(";base64")?, data))
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::message::Arguments;

    fn text(text: &str, rest: Value) -> Block {
        Block::Text { text: text.to_owned(), rest: rest.as_object().unwrap().clone() }
    }

    fn call(id: &str, rest: Value) -> Block {
        let object = json!({"a": 1}).as_object().unwrap().clone();
        let call = ToolCall { id: id.to_owned(), name: "t".to_owned(), arguments: Arguments::Object { object } };
        Block::Call { call, rest: rest.as_object().unwrap().clone() }
    }

    #[test]
    fn a_row_survives_the_neutral_message() {
        let thought = || Block::Other(json!({"type": "thinking", "thinking": "hm", "signature": "s=="}));
        let rows = [
            (true, vec![]),
            (true, vec![text("a", json!({})), text("b", json!({})), call("1", json!({})), call("2", json!({}))]),
            (false, vec![thought(), text("a", json!({})), call("1", json!({}))]),
            (false, vec![call("1", json!({})), text("after", json!({}))]),
            (
                false,
                vec![text("a", json!({"citations": [1]})), thought(), call("1", json!({"caller": "x"})), thought()],
            ),
        ];
        for (plain, row) in rows {
            let message = into_message(row.clone(), "here");
            let stored: Message = serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap();
            assert_eq!(of_message(&stored, "here"), row);
            assert_eq!(stored.vendor.is_none(), plain, "{row:?}");
            // Elsewhere only what can be said neutrally arrives.
            let elsewhere = of_message(&stored, "there");
            assert!(elsewhere.iter().all(|block| match block {
                Block::Text { rest, .. } | Block::Call { rest, .. } => rest.is_empty(),
                Block::Other(_) => false,
            }));
        }
    }

    #[test]
    fn what_an_agent_changes_goes_out_changed() {
        let row = vec![Block::Other(json!(1)), text("a", json!({"x": 1})), call("1", json!({})), call("2", json!({}))];
        let mut message = into_message(row, "here");
        message.content = vec![Part::Text { text: "A".to_owned() }, Part::Text { text: "more".to_owned() }];
        message.tool_calls.remove(0);
        let expected =
            vec![Block::Other(json!(1)), text("A", json!({"x": 1})), call("2", json!({})), text("more", json!({}))];
        assert_eq!(of_message(&message, "here"), expected);
    }
}
