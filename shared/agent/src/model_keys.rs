//! Keys of model servers that are read when they are needed, and the credentials of the process's role.
//!
//! A key that stands in a function's environment is seen by whoever may look at the function, and changes with a
//! deployment alone. One that is read at run time is known to the role that reads it, and a new one is taken up while the
//! process runs.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use longhaul_llm::{
    Access, AwsCredentialSource, Completion, Delta, Endpoint, Model, ModelError, ModelErrorKind, ModelRequest,
    Provider, Secret,
};

/// Where the deployment's own keys come from.
pub trait ModelKeys {
    /// The key at a place that the deployment's settings name. Implementations keep what they have for a short time.
    ///
    /// # Errors
    /// [`ModelErrorKind::Auth`] when there is none; a class that is tried again when it cannot be looked up now.
    fn key<'a>(&'a self, place: &'a str) -> LocalBoxFuture<'a, Result<Secret, ModelError>>;

    /// The credentials of the process's role; none where it has none.
    fn role(&self) -> Option<Arc<dyn AwsCredentialSource>>;
}

/// A source of keys, if the process has one.
#[derive(Clone, Default)]
pub struct KeySource(Option<Rc<dyn ModelKeys>>);

impl KeySource {
    /// This source.
    #[must_use]
    pub fn new(keys: Rc<dyn ModelKeys>) -> Self {
        Self(Some(keys))
    }

    pub(crate) fn role(&self) -> Result<Arc<dyn AwsCredentialSource>, ModelError> {
        self.0.as_ref().and_then(|keys| keys.role()).ok_or_else(|| {
            let message = "this process has no AWS role to sign with; name a Bedrock API key by `key_variable`";
            ModelError::new(ModelErrorKind::Invalid, message)
        })
    }

    async fn key(&self, place: &str) -> Result<Secret, ModelError> {
        match &self.0 {
            Some(keys) => keys.key(place).await,
            None => {
                let message = format!("the key at {place} cannot be read: this process has no way to secrets");
                Err(ModelError::new(ModelErrorKind::Auth, message))
            }
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "KeySource" } else { "KeySource(none)" })
    }
}

/// A provider whose key is read before each call: it is opened anew when the key has changed.
pub(crate) struct LateKey {
    endpoint: Endpoint,
    place: String,
    keys: KeySource,
    open: RefCell<Option<(Secret, Provider)>>,
}

impl fmt::Debug for LateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateKey").field("endpoint", &self.endpoint).field("place", &self.place).finish_non_exhaustive()
    }
}

impl LateKey {
    /// The model of an endpoint, by the key at a place.
    ///
    /// # Errors
    /// What is wrong with the endpoint, whatever its key.
    pub(crate) fn new(endpoint: Endpoint, place: String, keys: KeySource) -> Result<Self, ModelError> {
        endpoint.clone().open(Access::Open)?;
        Ok(Self { endpoint, place, keys, open: RefCell::default() })
    }

    /// The provider with the key of the moment.
    pub(crate) async fn provider(&self) -> Result<Provider, ModelError> {
        let key = self.keys.key(&self.place).await?;
        if let Some((known, provider)) = &*self.open.borrow()
            && *known == key
        {
            return Ok(provider.clone());
        }
        let provider = self.endpoint.clone().open(Access::Key(key.clone()))?;
        self.open.replace(Some((key, provider.clone())));
        Ok(provider)
    }
}

impl Model for LateKey {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            let key = self.keys.key(&self.place).await?;
            // Whoever asks names the model, which may be another one than the settings': a provider insists on its own.
            let named = Some(&request.model).filter(|model| !model.is_empty());
            let model = named.unwrap_or(&self.endpoint.model).clone();
            let provider = Endpoint { model, ..self.endpoint.clone() }.open(Access::Key(key))?;
            provider.complete(request, on_delta).await
        })
    }
}
