//! What definitions run with: models, keys, functions, the way to servers, documents. Made once per process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use longhaul_definition::ModelChoice;
use longhaul_llm::{
    Access, Background, Carrier, Completion, Delta, Endpoint, Fallback, Model, ModelError, ModelRequest, Named, Prices,
    Provider, ResponseId, Wire,
};

use super::background::InBackground;
use crate::blocking::HeavyWork;
use crate::model_keys::{KeySource, LateKey};
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

    /// The first model of a definition where its answers are to be made in the background; none where they are not.
    ///
    /// # Errors
    /// When they should be and cannot: what a person must be told.
    fn open_in_background(&self, _choices: &[ModelChoice]) -> Result<Option<Rc<dyn InBackground>>, String> {
        Ok(None)
    }
}

/// How a provider lets the deployment in.
#[derive(Debug, Clone)]
pub enum Entry {
    /// With what is known already.
    Known(Access),
    /// With a key that is read when it is needed, from this place.
    Kept {
        /// The place, as the deployment's settings name it.
        place: String,
    },
    /// By the role of the process.
    Role,
}

/// A provider of a deployment.
#[derive(Debug, Clone)]
struct Known {
    endpoint: Endpoint,
    entry: Entry,
    background: bool,
}

/// The providers of a deployment's settings.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    known: BTreeMap<String, Known>,
    keys: KeySource,
    /// None: HTTP.
    carrier: Option<Arc<dyn Carrier>>,
}

impl Providers {
    /// Adds a provider. A definition may name another model of it, a limit and a temperature.
    pub fn add(&mut self, name: impl Into<String>, endpoint: Endpoint, access: Access) {
        self.add_entry(name, endpoint, Entry::Known(access));
    }

    /// Adds a provider that lets the deployment in by other means than a key that is known already.
    pub fn add_entry(&mut self, name: impl Into<String>, endpoint: Endpoint, entry: Entry) {
        self.known.insert(name.into(), Known { endpoint, entry, background: false });
    }

    /// Has a provider's models run in the background where a definition does not say otherwise.
    pub fn run_in_background(&mut self, name: &str) {
        if let Some(known) = self.known.get_mut(name) {
            known.background = true;
        }
    }

    /// These providers with their requests carried by somebody else than HTTP.
    #[must_use]
    pub fn carried_by(mut self, carrier: Arc<dyn Carrier>) -> Self {
        self.carrier = Some(carrier);
        self
    }

    /// Where keys come from that are read when they are needed.
    pub fn set_keys(&mut self, keys: KeySource) {
        self.keys = keys;
    }

    /// The places of keys that are read when they are needed.
    pub fn key_places(&self) -> impl Iterator<Item = &str> {
        self.known.values().filter_map(|known| match &known.entry {
            Entry::Kept { place } => Some(place.as_str()),
            Entry::Known(_) | Entry::Role => None,
        })
    }

    /// The provider of a choice, and the endpoint as the choice would have it.
    fn endpoint_of(&self, choice: &ModelChoice) -> Result<(&Known, Endpoint), String> {
        let known = self.known.get(&choice.provider).ok_or_else(|| {
            let known: Vec<&str> = self.known.keys().map(String::as_str).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
            format!("the deployment has no model provider {:?}; {known}", choice.provider)
        })?;
        let mut endpoint = known.endpoint.clone();
        if let Some(model) = &choice.model {
            // Another model has another price.
            endpoint.name = None;
            endpoint.model.clone_from(model);
        }
        endpoint.output_tokens_max = choice.output_tokens_max.or(endpoint.output_tokens_max);
        Ok((known, endpoint))
    }

    fn tuned(&self, choice: &ModelChoice) -> Result<Tuned, String> {
        let (known, endpoint) = self.endpoint_of(choice)?;
        let name = endpoint.name().to_owned();
        let provider = self
            .open_one(known, endpoint)
            .map_err(|error| format!("the model provider {:?} cannot be used: {}", choice.provider, error.message()))?;
        Ok(Tuned { name, provider, temperature: choice.temperature })
    }

    fn open_one(&self, known: &Known, endpoint: Endpoint) -> Result<Opening, ModelError> {
        let carried = |provider: Provider| match &self.carrier {
            Some(carrier) => provider.carried_by(Arc::clone(carrier)),
            None => provider,
        };
        Ok(match &known.entry {
            Entry::Known(access) => Opening::Open(Box::new(carried(endpoint.open(access.clone())?))),
            // Carried by somebody else, no key is asked for.
            Entry::Kept { .. } | Entry::Role if self.carrier.is_some() => {
                Opening::Open(Box::new(carried(endpoint.open(Access::Open)?)))
            }
            Entry::Kept { place } => Opening::Late(Rc::new(LateKey::new(endpoint, place.clone(), self.keys.clone())?)),
            Entry::Role => Opening::Open(Box::new(endpoint.open(Access::Aws(self.keys.role()?))?)),
        })
    }
}

/// A provider that is open, or opens when it has its key.
#[derive(Debug, Clone)]
enum Opening {
    Open(Box<Provider>),
    Late(Rc<LateKey>),
}

impl Opening {
    /// The provider with the key of the moment.
    async fn provider(&self) -> Result<Cow<'_, Provider>, ModelError> {
        match self {
            Self::Open(provider) => Ok(Cow::Borrowed(provider)),
            Self::Late(late) => late.provider().await.map(Cow::Owned),
        }
    }
}

impl Models for Providers {
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String> {
        let tuned = choices.iter().map(|choice| self.tuned(choice)).collect::<Result<Vec<_>, _>>()?;
        let names = tuned.iter().map(|model| model.name().to_owned()).collect();
        let mut in_order = tuned.into_iter();
        let first = in_order.next().ok_or("the definition names no model")?;
        Ok(Opened { model: Rc::new(Fallback::new(first, in_order.collect())), names })
    }

    fn open_in_background(&self, choices: &[ModelChoice]) -> Result<Option<Rc<dyn InBackground>>, String> {
        let Some(choice) = choices.first() else { return Ok(None) };
        let (known, endpoint) = self.endpoint_of(choice)?;
        if !choice.background.unwrap_or(known.background) {
            return Ok(None);
        }
        if endpoint.wire != Wire::Responses {
            return Err(format!(
                "the model provider {:?} cannot answer in the background: only the wire `responses` can",
                choice.provider
            ));
        }
        Ok(Some(Rc::new(self.tuned(choice)?)))
    }
}

impl Tuned {
    /// The request at the temperature that the definition asks for.
    fn fitted<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        match self.temperature {
            None => Cow::Borrowed(request),
            Some(_) => Cow::Owned(ModelRequest { temperature: self.temperature, ..request.clone() }),
        }
    }
}

impl InBackground for Tuned {
    fn model_name(&self) -> &str {
        &self.name
    }

    fn start<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<(ResponseId, Background), ModelError>> {
        Box::pin(async move { self.provider.provider().await?.start(&self.fitted(request)).await })
    }

    fn poll<'a>(
        &'a self,
        id: &'a ResponseId,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>> {
        Box::pin(async move { self.provider.provider().await?.poll(id, &self.fitted(request)).await })
    }

    fn cancel<'a>(
        &'a self,
        id: &'a ResponseId,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>> {
        Box::pin(async move { self.provider.provider().await?.cancel(id, request).await })
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
    name: String,
    provider: Opening,
    temperature: Option<f64>,
}

impl Named for Tuned {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Model for Tuned {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            let provider = self.provider.provider().await?;
            provider.complete(&self.fitted(request), on_delta).await
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
        let mut providers = settings.providers.clone();
        providers.set_keys(settings.keys.clone());
        let models = Rc::new(providers);
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
