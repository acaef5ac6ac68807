//! Which model answers: a real one where a key or an address is set, the stand-in otherwise.

/// What the worker is told about its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// The base URL of a Chat Completions server.
    pub url: String,
    /// The model's name.
    pub model: String,
    /// The key, where one is needed.
    pub key: Option<String>,
}

/// Providers with a Chat Completions endpoint, by the variable in which people keep their key.
const PROVIDERS: [(&str, &str, &str); 2] = [
    ("OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5-mini"),
    ("ANTHROPIC_API_KEY", "https://api.anthropic.com/v1", "claude-sonnet-4-5"),
];

impl ModelChoice {
    /// Reads the choice from the environment; none: nothing is set and the stand-in answers.
    ///
    /// `LONGHAUL_MODEL_URL` (any compatible server: Ollama, vLLM, LiteLLM, Bedrock's endpoint) goes before the
    /// providers' own keys; `LONGHAUL_MODEL` names the model for all of them.
    #[must_use]
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let named = set("LONGHAUL_MODEL");
        if let Some(url) = set("LONGHAUL_MODEL_URL") {
            return Some(Self {
                url,
                model: named.unwrap_or_else(|| "default".to_owned()),
                key: set("LONGHAUL_MODEL_KEY"),
            });
        }
        PROVIDERS.into_iter().find_map(|(variable, url, model)| {
            let key = set(variable)?;
            let model = named.clone().unwrap_or_else(|| model.to_owned());
            Some(Self { url: url.to_owned(), model, key: Some(key) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_goes_before_keys_and_nothing_means_the_stand_in() {
        type Set = &'static [(&'static str, &'static str)];
        let rows: [(Set, Option<(&str, &str)>); 5] = [
            (&[], None),
            (&[("OPENAI_API_KEY", "")], None),
            (&[("OPENAI_API_KEY", "k")], Some(("https://api.openai.com/v1", "gpt-5-mini"))),
            (&[("ANTHROPIC_API_KEY", "k"), ("LONGHAUL_MODEL", "m")], Some(("https://api.anthropic.com/v1", "m"))),
            (
                &[
                    ("OPENAI_API_KEY", "k"),
                    ("LONGHAUL_MODEL_URL", "http://127.0.0.1:11434/v1"),
                    ("LONGHAUL_MODEL", "q"),
                ],
                Some(("http://127.0.0.1:11434/v1", "q")),
            ),
        ];
        for (set, expected) in rows {
            let lookup = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let found = ModelChoice::from_lookup(lookup);
            assert_eq!(found.as_ref().map(|choice| (choice.url.as_str(), choice.model.as_str())), expected, "{set:?}");
        }
    }
}
