//! The HTTP tool: a request made from a template and the model's arguments.
//!
//! The model chooses arguments, never the server: an argument fills one segment of the path, one value of the query, one
//! header or a place in the body, and one that would be more is refused.

use std::time::Duration;

use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_definition::{Auth, HttpTool, Piece, Template, headers};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Map, Value};

use super::outcome::{Outcome, body_as_text, class_of};
use super::reach::{Answer, Ask, Reach};
use super::secrets::Secrets;

/// Bytes of one argument in an address: servers refuse more than 8 KB of it altogether.
const URL_ARGUMENT_BYTES_MAX: usize = 1_024;

/// The header of W3C trace context.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// What a server is asked on behalf of whom.
pub(crate) struct Caller<'a> {
    pub(crate) reach: &'a Reach,
    pub(crate) secrets: &'a dyn Secrets,
    pub(crate) tenant: &'a TenantId,
    /// W3C trace context of the job.
    pub(crate) traceparent: &'a str,
}

/// Calls the server of a tool.
pub(crate) async fn call(
    caller: &Caller<'_>,
    tool: &HttpTool,
    arguments: &Map<String, Value>,
    key: Option<&str>,
) -> Result<Outcome, StepError> {
    let mut ask = match ask(tool, arguments) {
        Ok(ask) => ask,
        // The model can choose other arguments.
        Err(fault) => return Ok(Outcome::bad(format!("the call was not made: {fault}"))),
    };
    if let Some(auth) = &tool.auth {
        let (name, value) = secret_header(caller, auth).await?;
        ask.own_headers.insert(name, value);
    }
    if let Some(key) = key {
        ask.own_headers.insert("idempotency-key", header_value("the idempotency key", key)?);
    }
    // An author who sends one of their own knows why.
    if !ask.headers.contains_key(TRACEPARENT) {
        ask.own_headers.insert(TRACEPARENT, header_value("the trace context", caller.traceparent)?);
    }
    let answer = caller.reach.fetch(ask).await?;
    answered(answer)
}

fn answered(answer: Answer) -> Result<Outcome, StepError> {
    let text = body_as_text(answer.content_type.as_deref(), &answer.body, answer.cut);
    let status = answer.status;
    if let Some(class) = class_of(status) {
        let shown: String = text.chars().take(600).collect();
        let shown = if shown.trim().is_empty() { "without a further word".to_owned() } else { shown };
        let message = format!("the server answered {status}: {shown}");
        return Err(StepError::new(class, message).retry_after(answer.retry_after));
    }
    Ok(match (status.is_success(), text.is_empty()) {
        (true, false) => Outcome::good(text),
        (true, true) => Outcome::good(format!("[{status}, an empty answer]")),
        (false, _) => Outcome::bad(format!("the server answered {status}: {text}")),
    })
}

/// The header that carries a key.
pub(crate) async fn secret_header(caller: &Caller<'_>, auth: &Auth) -> Result<(HeaderName, HeaderValue), StepError> {
    let secret = caller.secrets.secret(caller.tenant, &auth.secret).await?;
    let name = header_name(&auth.header)?;
    let text = format!("{}{}", auth.prefix, secret.reveal().trim_end_matches('\n'));
    let mut value = header_value(&format!("the secret {}", auth.secret), &text)?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn header_name(name: &str) -> Result<HeaderName, StepError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| StepError::new(ErrorClass::Invalid, format!("{name:?} is no header's name")))
}

/// A header's value; the text itself stays out of the error.
fn header_value(what: &str, text: &str) -> Result<HeaderValue, StepError> {
    let fault = headers::value_fault(text);
    let value = HeaderValue::from_str(text).ok().filter(|_| fault.is_none());
    value.ok_or_else(|| {
        let fault = fault.unwrap_or("cannot stand in a header");
        StepError::new(ErrorClass::Invalid, format!("{what} {fault}"))
    })
}

/// The headers of a definition with their holes filled.
pub(crate) fn plain_headers<'a>(
    headers: impl IntoIterator<Item = (&'a String, &'a String)>,
    arguments: &Map<String, Value>,
) -> Result<HeaderMap, String> {
    let mut filled = HeaderMap::new();
    for (name, text) in headers {
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let value = template.filled(|hole| Ok::<_, String>(text_of(arguments.get(hole))))?;
        let name = header_name(name).map_err(|error| error.failure.message)?;
        let value = header_value(&format!("what is meant for the header {name}"), &value)
            .map_err(|error| error.failure.message)?;
        filled.insert(name, value);
    }
    Ok(filled)
}

/// The request of a call, without keys.
///
/// # Errors
/// What the model must be told about its arguments.
fn ask(tool: &HttpTool, arguments: &Map<String, Value>) -> Result<Ask, String> {
    let url = address(&tool.url, arguments)?;
    let mut headers = plain_headers(&tool.headers, arguments)?;
    let body = body(tool, arguments)?;
    if body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let method = Method::from_bytes(tool.method.as_str().as_bytes()).map_err(|error| error.to_string())?;
    Ok(Ask {
        method,
        url,
        headers,
        own_headers: HeaderMap::new(),
        body,
        bytes_max: tool.size_max_bytes,
        time_limit: Duration::from_secs(tool.timeout_seconds),
    })
}

/// An argument as text; an absent one is empty.
fn text_of(argument: Option<&Value>) -> String {
    match argument {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The address with its holes filled: one segment or one value each.
fn address(template: &str, arguments: &Map<String, Value>) -> Result<Url, String> {
    let template = Template::parse(template).map_err(|error| error.to_string())?;
    let mut filled = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Hole(name) => {
                let value = text_of(arguments.get(name));
                let in_query = filled.contains('?');
                filled.push_str(&url_part(name, &value, in_query)?);
            }
        }
    }
    Url::parse(&filled).map_err(|error| format!("the address cannot be made: {error}"))
}

/// An argument as a part of an address. In a path whatever could mean another path is refused: servers and proxies
/// differ in how often they decode, and an encoded `..` is still one to some.
fn url_part(name: &str, value: &str, in_query: bool) -> Result<String, String> {
    let refused = |why: &str| Err(format!("the argument `{name}` {why}"));
    if value.len() > URL_ARGUMENT_BYTES_MAX {
        return refused("is too long for an address");
    }
    if value.chars().any(char::is_control) {
        return refused("holds a control character");
    }
    if !in_query {
        if value.is_empty() || value.chars().all(|c| c == '.' || c.is_whitespace()) {
            return refused("is empty or made of dots, which is no part of a path");
        }
        if value.contains(['/', '\\', '%', '#', '?', ';']) {
            return refused("holds one of / \\ % # ? ; which would make it more than one part of a path");
        }
    }
    Ok(encoded(value))
}

/// Percent-encoding of everything but the unreserved characters (RFC 3986, section 2.3).
fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The body of a call. Without a template: the arguments that stand in neither address nor headers.
fn body(tool: &HttpTool, arguments: &Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
    let body = match &tool.body {
        Some(template) => filled(template, arguments)?,
        None if tool.method.is_safe() => return Ok(None),
        None => {
            let used: Vec<String> = std::iter::once(&tool.url)
                .chain(tool.headers.values())
                .filter_map(|text| Template::parse(text).ok())
                .flat_map(|template| template.holes().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            let rest = arguments.iter().filter(|(name, _)| !used.contains(name));
            Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
    };
    serde_json::to_vec(&body).map(Some).map_err(|error| error.to_string())
}

/// A body with its holes filled. A text that is nothing but one hole becomes the argument itself.
fn filled(template: &Value, arguments: &Map<String, Value>) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) => {
            let template = Template::parse(text).map_err(|error| error.to_string())?;
            match template.only_hole() {
                Some(name) => arguments.get(name).cloned().unwrap_or_default(),
                None => Value::String(template.filled(|hole| Ok::<_, String>(text_of(arguments.get(hole))))?),
            }
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| filled(item, arguments)).collect::<Result<_, String>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), filled(value, arguments)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

#[cfg(test)]
mod tests;
