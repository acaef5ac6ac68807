//! What a definition under test runs with: its model, its functions, its keys.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_agent::defined::equipment::{Models, Opened};
use longhaul_agent::{Functions, Invoked, SecretText, Secrets};
use longhaul_definition::{ModelChoice, SecretRef};
use serde_json::Value;

use crate::script::Script;

/// How long a function takes.
const TAKES: Duration = Duration::from_millis(200);

/// A script in the place of every model.
pub(crate) struct Scripted(pub(crate) Rc<Script>);

impl Models for Scripted {
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String> {
        let name = choices.first().and_then(|choice| choice.model.clone()).unwrap_or_else(|| "scripted".to_owned());
        Ok(Opened { model: Rc::<Script>::clone(&self.0), names: vec![name] })
    }
}

/// What a function does with its event.
pub(crate) type Function = dyn Fn(&Value) -> Result<Value, StepError>;

/// Functions of the test's own, by name.
#[derive(Default)]
pub(crate) struct OwnFunctions(pub(crate) BTreeMap<String, Rc<Function>>);

impl Functions for OwnFunctions {
    fn invoke<'a>(
        &'a self,
        _tenant: &'a TenantId,
        function: &'a str,
        event: Value,
        _time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>> {
        async move {
            let Some(act) = self.0.get(function) else {
                let message = format!("the trial has no function {function}");
                return Err(StepError::new(ErrorClass::Invalid, message));
            };
            // It acts at once and answers later: a worker that dies in between does not know.
            let answer = act(&event);
            tokio::time::sleep(TAKES).await;
            answer.map(Invoked::Answered)
        }
        .boxed_local()
    }
}

/// Keys of the test's own, by the names that definitions give.
#[derive(Default)]
pub(crate) struct OwnSecrets(pub(crate) BTreeMap<String, String>);

impl Secrets for OwnSecrets {
    fn secret<'a>(
        &'a self,
        _tenant: &'a TenantId,
        name: &'a SecretRef,
    ) -> LocalBoxFuture<'a, Result<SecretText, StepError>> {
        let found = self.0.get(&name.to_string()).map(SecretText::new);
        let message = format!("the trial has no secret {name}");
        async move { found.ok_or_else(|| StepError::new(ErrorClass::Auth, message)) }.boxed_local()
    }
}
