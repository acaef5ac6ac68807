//! The smallest instance of a JSON Schema, its texts taken from the input: the answer under a schema of a name that the
//! stand-in does not know.

use serde_json::{Map, Number, Value};

/// Deeper schemas end in `null`: a schema may refer to itself.
const DEPTH_MAX: usize = 32;

/// Most elements made for `minItems`.
const ITEMS_MAX: u64 = 64;

/// Fills schemas with words.
pub(super) struct Filler<'a> {
    root: &'a Value,
    /// What the input says, in one sentence.
    text: &'a str,
}

impl<'a> Filler<'a> {
    pub(super) fn new(root: &'a Value, text: &'a str) -> Self {
        Self { root, text }
    }

    /// An instance of the whole schema.
    pub(super) fn instance(&self) -> Value {
        self.fill(self.root, 0)
    }

    fn fill(&self, schema: &Value, depth: usize) -> Value {
        let Some(fields) = schema.as_object().filter(|_| depth < DEPTH_MAX) else {
            return Value::Null;
        };
        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or(Value::Null, |target| self.fill(target, depth + 1));
        }
        if let Some(value) = fields.get("const").or_else(|| fields.get("default")) {
            return value.clone();
        }
        if let Some(value) = fields.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
            return value.clone();
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(first) = fields.get(name).and_then(Value::as_array).and_then(|options| options.first()) {
                return self.fill(first, depth + 1);
            }
        }
        if let Some(parts) = fields.get("allOf").and_then(Value::as_array) {
            return self.fill(&merged(fields, parts), depth + 1);
        }
        match kind(fields) {
            "object" => self.object(fields, depth),
            "array" => self.array(fields, depth),
            "integer" | "number" => number(fields),
            "boolean" => Value::Bool(false),
            "string" => Value::String(self.string(fields)),
            _ => Value::Null,
        }
    }

    fn object(&self, fields: &Map<String, Value>, depth: usize) -> Value {
        let properties = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let filled = names.map(|name| {
            let schema = properties.and_then(|properties| properties.get(name));
            let value =
                schema.map_or_else(|| Value::String(self.text.to_owned()), |schema| self.fill(schema, depth + 1));
            (name.to_owned(), value)
        });
        Value::Object(filled.collect())
    }

    fn array(&self, fields: &Map<String, Value>, depth: usize) -> Value {
        let count = fields.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(ITEMS_MAX);
        let distinct = fields.get("uniqueItems") == Some(&Value::Bool(true));
        let items = (0..count).map(|number| {
            let item = fields.get("items").map_or(Value::Null, |items| self.fill(items, depth + 1));
            match item {
                Value::String(text) if distinct && number > 0 => Value::String(format!("{text} ({})", number + 1)),
                Value::Number(_) if distinct => Value::from(number),
                item => item,
            }
        });
        Value::Array(items.collect())
    }

    fn string(&self, fields: &Map<String, Value>) -> String {
        let limit = |name: &str| fields.get(name).and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let text = match fields.get("format").and_then(Value::as_str) {
            Some("date-time") => "1970-01-01T00:00:00Z",
            Some("date") => "1970-01-01",
            Some("time") => "00:00:00Z",
            Some("email") => "nobody@example.com",
            Some("uri") => "https://example.com/",
            Some("uuid") => "00000000-0000-0000-0000-000000000000",
            Some(_) | None => self.text,
        };
        let mut text: String = text.chars().take(limit("maxLength").unwrap_or(usize::MAX)).collect();
        let missing = limit("minLength").unwrap_or(0).saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('.', missing));
        text
    }
}

/// The schema's type; guessed from its keywords where it names none.
fn kind(fields: &Map<String, Value>) -> &str {
    let named = match fields.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.first().and_then(Value::as_str),
        Some(_) | None => None,
    };
    named.unwrap_or_else(|| {
        if fields.contains_key("properties") || fields.contains_key("required") {
            "object"
        } else if fields.contains_key("items") {
            "array"
        } else {
            "string"
        }
    })
}

/// One schema of all parts: later fields win, properties and required names add up.
fn merged(fields: &Map<String, Value>, parts: &[Value]) -> Value {
    let mut whole: Map<String, Value> =
        fields.iter().filter(|(name, _)| *name != "allOf").map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in parts.iter().filter_map(Value::as_object).flatten() {
        match (whole.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.clone()),
            _ => {
                whole.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(whole)
}

/// The number nearest to zero that the limits allow.
fn number(fields: &Map<String, Value>) -> Value {
    let limit = |name: &str| fields.get(name).and_then(Value::as_f64);
    let least =
        limit("minimum").or_else(|| limit("exclusiveMinimum").map(|limit| limit.floor() + 1.0)).unwrap_or(f64::MIN);
    let most =
        limit("maximum").or_else(|| limit("exclusiveMaximum").map(|limit| limit.ceil() - 1.0)).unwrap_or(f64::MAX);
    let mut value = 0_f64.max(least).min(most);
    if let Some(step) = limit("multipleOf").filter(|step| *step > 0.0) {
        value = (value / step).ceil() * step;
    }
    if kind(fields) == "integer" {
        return Value::from(value.ceil() as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
