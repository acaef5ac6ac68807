//! What definitions run with: models, keys, functions, the way to servers, documents. Made once per process.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longhaul_definition::ModelChoice;
use longhaul_llm::{
    Access, Carrier, Completion, Delta, Endpoint, Fallback, Model, ModelError, ModelRequest, Named, Prices, Provider,
};

use crate::blocking::HeavyWork;
use crate::paths::Paths;
use crate::settings::{DEFAULT_PROVIDER, Settings};
use crate::shelf::Shelf;
use crate::tools::lambda::{Functions, NoFunctions};
use crate::tools::library::Library;
use crate::tools::mcp::Sessions;
use crate::tools::reach::{Reach, SystemLookup};
use crate::tools::secrets::{NoSecrets, Secrets};

/// Models in the order of a definition, ready to be asked.
#[derive(Clone)]
pub struct Opened {
    /// Asks them in order.
    pub model: Rc<dyn Model>,
    /// The names that their prices go by, in order.
    pub names: Vec<String>,
}

/// Finds models by the names of the deployment's providers.
pub trait Models {
    /// The models of a definition.
    ///
    /// # Errors
    /// When a provider is not known or cannot be used: what a person must be told.
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String>;
}

/// The providers of a deployment's settings.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    known: BTreeMap<String, (Endpoint, Access)>,
    /// None: HTTP.
    carrier: Option<Arc<dyn Carrier>>,
}

impl Providers {
    /// Adds a provider. A definition may name another model of it, a limit and a temperature.
    pub fn add(&mut self, name: impl Into<String>, endpoint: Endpoint, access: Access) {
        self.known.insert(name.into(), (endpoint, access));
    }

    /// These providers with their requests carried by somebody else than HTTP.
    #[must_use]
    pub fn carried_by(mut self, carrier: Arc<dyn Carrier>) -> Self {
        self.carrier = Some(carrier);
        self
    }
}

impl Models for Providers {
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String> {
        let mut tuned = Vec::new();
        for choice in choices {
            let (endpoint, access) = self.known.get(&choice.provider).ok_or_else(|| {
                let known = self.known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("the deployment has no model provider {:?}; it has: {known}", choice.provider)
            })?;
            let mut endpoint = endpoint.clone();
            if let Some(model) = &choice.model {
                // Another model has another price.
                endpoint.name = None;
                endpoint.model.clone_from(model);
            }
            endpoint.output_tokens_max = choice.output_tokens_max.or(endpoint.output_tokens_max);
            let provider = endpoint.open(access.clone()).map_err(|error: ModelError| {
                format!("the model provider {:?} cannot be used: {}", choice.provider, error.message())
            })?;
            let provider = match &self.carrier {
                Some(carrier) => provider.carried_by(Arc::clone(carrier)),
                None => provider,
            };
            tuned.push(Tuned { provider, temperature: choice.temperature });
        }
        let names = tuned.iter().map(|model| model.name().to_owned()).collect();
        let mut in_order = tuned.into_iter();
        let first = in_order.next().ok_or("the definition names no model")?;
        Ok(Opened { model: Rc::new(Fallback::new(first, in_order.collect())), names })
    }
}

/// Whatever a definition names, the model that the settings name first answers.
struct OneModel(Providers);

impl Models for OneModel {
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String> {
        let first = choices.first().ok_or("the definition names no model")?;
        let choice = ModelChoice { provider: DEFAULT_PROVIDER.to_owned(), model: None, ..first.clone() };
        self.0.open(&[choice])
    }
}

/// A model at the temperature that a definition asks for.
#[derive(Debug, Clone)]
struct Tuned {
    provider: Provider,
    temperature: Option<f64>,
}

impl Named for Tuned {
    fn name(&self) -> &str {
        self.provider.name()
    }
}

impl Model for Tuned {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            match self.temperature {
                None => self.provider.complete(request, on_delta).await,
                Some(_) => {
                    let tuned = ModelRequest { temperature: self.temperature, ..request.clone() };
                    self.provider.complete(&tuned, on_delta).await
                }
            }
        })
    }
}

/// Everything that definitions run with.
pub struct Equipment {
    pub(super) models: Rc<dyn Models>,
    pub(super) prices: Prices,
    pub(super) model_time_limit: Duration,
    pub(super) reach: Reach,
    pub(super) secrets: Rc<dyn Secrets>,
    pub(super) functions: Rc<dyn Functions>,
    pub(super) library: Library,
    pub(super) sessions: Sessions,
}

/// Why nothing can be equipped.
#[derive(Debug, thiserror::Error)]
pub enum EquipmentError {
    /// The client of the tools.
    #[error("no HTTP client can be built for tools")]
    Client(#[from] reqwest::Error),
}

impl Equipment {
    /// What a deployment's settings give: its providers at its prices, and a way to where its tools may go.
    ///
    /// # Errors
    /// When no client can be built.
    pub fn of(settings: &Settings) -> Result<Self, EquipmentError> {
        let reach = Reach::new(settings.policy.clone(), Arc::new(SystemLookup))?;
        let models = Rc::new(settings.providers.clone());
        Ok(Self::new(models, reach, settings.paths.clone())
            .with_prices(settings.prices.clone())
            .with_model_time_limit(settings.model_time_limit))
    }

    /// Models and a way to servers; neither keys nor functions nor prices.
    pub fn new(models: Rc<dyn Models>, reach: Reach, paths: Paths) -> Self {
        Self {
            models,
            prices: Prices::none(),
            model_time_limit: Duration::from_secs(crate::settings::MODEL_TIME_LIMIT_DEFAULT_SECONDS),
            reach,
            secrets: Rc::new(NoSecrets),
            functions: Rc::new(NoFunctions),
            library: Library { paths, shelf: Shelf::default(), heavy: HeavyWork::Apart },
            sessions: Sessions::default(),
        }
    }

    /// The model of the settings for whatever a definition names.
    #[must_use]
    pub fn with_one_model(mut self, settings: &Settings) -> Self {
        self.models = Rc::new(OneModel(settings.providers.clone()));
        self
    }

    /// What models cost.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// How long one model call may take.
    #[must_use]
    pub fn with_model_time_limit(mut self, limit: Duration) -> Self {
        self.model_time_limit = limit;
        self
    }

    /// Where keys come from.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Rc<dyn Secrets>) -> Self {
        self.secrets = secrets;
        self
    }

    /// How functions are called.
    #[must_use]
    pub fn with_functions(mut self, functions: Rc<dyn Functions>) -> Self {
        self.functions = functions;
        self
    }

    /// Where heavy work is done.
    #[must_use]
    pub fn with_heavy_work(mut self, heavy: HeavyWork) -> Self {
        self.library.heavy = heavy;
        self
    }
}
