//! The agents, and the check of inputs against their schemas.

use std::sync::OnceLock;

use jsonschema::Validator;
use jsonschema::error::{ValidationError, ValidationErrorKind};
use longhaul_wire::problem::Violation;
use longhaul_wire::requests::pointer_at;
use longhaul_wire::text::shortened;
use longhaul_wire::{AgentCard, Problem, agents, limits};
use serde_json::Value;

/// Characters of what is said about one fault of an input.
const DETAIL_LENGTH_MAX: usize = 200;

/// The agents that jobs can be submitted for.
#[derive(Debug)]
pub(crate) struct Agents {
    cards: Vec<AgentCard>,
    /// A schema is compiled when its agent is first asked for: a cold start pays for none that it does not use.
    validators: Vec<OnceLock<Option<Validator>>>,
}

impl Agents {
    pub(crate) fn new(cards: Vec<AgentCard>) -> Self {
        let validators = cards.iter().map(|_| OnceLock::new()).collect();
        Self { cards, validators }
    }

    pub(crate) fn cards(&self) -> &[AgentCard] {
        &self.cards
    }

    /// Finds what a caller calls `name` or `name@version`.
    pub(crate) fn find(&self, text: &str) -> Result<&AgentCard, Problem> {
        agents::find(&self.cards, text)
    }

    /// Holds an input, which stands at `field` of the request, to an agent's schema.
    pub(crate) fn check_input(&self, card: &AgentCard, input: &Value, field: &str) -> Result<(), Problem> {
        let agent = card.reference();
        let shipped = self.cards.iter().zip(&self.validators).find(|(shipped, _)| shipped.reference() == agent);
        let of_its_own = OnceLock::new();
        let validator = shipped.map_or(&of_its_own, |(_, validator)| validator);
        let validator = validator.get_or_init(|| match jsonschema::validator_for(&card.input_schema) {
            Ok(validator) => Some(validator),
            Err(error) => {
                tracing::error!(agent = %agent, error = %error, "the agent's input schema is no JSON Schema");
                None
            }
        });
        let validator = validator.as_ref().ok_or(Problem::Internal)?;
        let violations: Vec<Violation> =
            validator.iter_errors(input).take(limits::VIOLATIONS_MAX).map(|error| violation(&error, field)).collect();
        if violations.is_empty() { Ok(()) } else { Err(Problem::InvalidInput { agent: agent.to_string(), violations }) }
    }
}

fn violation(error: &ValidationError<'_>, field: &str) -> Violation {
    let at = format!("{field}{}", error.instance_path());
    // A field that is missing is named itself, not what it is missing in.
    let field = match error.kind() {
        ValidationErrorKind::Required { property: Value::String(property) } => pointer_at(&at, property),
        _ => at,
    };
    // Values stay out of it: they may be secrets or a megabyte.
    Violation { field, detail: shortened(&error.masked_with("it").to_string(), DETAIL_LENGTH_MAX) }
}
