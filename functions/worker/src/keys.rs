//! Keys for tools and for model servers, from where the deployment keeps them.
//!
//! On AWS that is Secrets Manager and Parameter Store. On one's own machine it is a file of the data folder
//! (`LONGHAUL_SECRETS_FILE`), which has the same fence: a tenant's keys stand under the tenant's name, and the
//! deployment's own under none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_agent::model_keys::ModelKeys;
use longhaul_agent::{SecretText, Secrets};
use longhaul_aws::credentials::RoleCredentials;
use longhaul_aws::secrets::{AwsSecrets, SecretError, SecretPlace};
use longhaul_definition::SecretRef;
use longhaul_llm::converse::Credentials;
use longhaul_llm::{AwsCredentialSource, AwsCredentials, ModelError, ModelErrorKind, Secret};
use serde::Deserialize;

/// Bytes of the file of keys: a person writes it.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The keys of this deployment.
#[derive(Debug)]
pub(crate) struct Keys {
    shelf: Shelf,
    role: Option<Arc<Role>>,
}

/// Where they lie.
#[derive(Debug)]
enum Shelf {
    Aws(AwsSecrets),
    File(SecretsFile),
}

/// A file of keys: `{"tenants": {"acme": {"ssm:tickets-key": "…"}}, "deployment": {"ssm:model-key": "…"}}`. It is read
/// at each use, so that a new key needs no new start.
#[derive(Debug)]
struct SecretsFile(PathBuf);

/// What stands in it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Content {
    tenants: BTreeMap<String, BTreeMap<String, String>>,
    deployment: BTreeMap<String, String>,
}

impl SecretsFile {
    fn read(&self, asked: &str) -> Result<Content, SecretError> {
        let file = self.0.display();
        // The file's own text stays out of the words.
        let unfit = |why: String| SecretError::Unfit { asked: asked.to_owned(), said: format!("{file} {why}") };
        match std::fs::metadata(&self.0) {
            Ok(found) if found.len() > FILE_BYTES_MAX => {
                return Err(unfit(format!("is larger than {FILE_BYTES_MAX} bytes")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Content::default()),
            Err(error) => return Err(unfit(format!("cannot be read: {error}"))),
        }
        let text = std::fs::read(&self.0).map_err(|error| unfit(format!("cannot be read: {error}")))?;
        serde_json::from_slice(&text).map_err(|error| {
            let at = format!("line {}, column {}", error.line(), error.column());
            unfit(format!("is no file of keys ({at}); write {{\"tenants\": {{\"NAME\": {{\"ssm:KEY\": \"…\"}}}}}}"))
        })
    }

    fn of_tenant(&self, tenant: &TenantId, place: &SecretPlace) -> Result<String, SecretError> {
        // The same names are refused as on AWS.
        place.of_tenant("longhaul", tenant)?;
        let asked = place.to_string();
        let content = self.read(&asked)?;
        let key = content.tenants.get(tenant.as_str()).and_then(|keys| keys.get(&asked));
        key.cloned()
            .ok_or_else(|| SecretError::Missing { asked: format!("{asked} of {tenant} in {}", self.0.display()) })
    }

    fn of_deployment(&self, place: &SecretPlace) -> Result<String, SecretError> {
        let asked = place.to_string();
        let key = self.read(&asked)?.deployment.get(&asked).cloned();
        key.ok_or_else(|| SecretError::Missing { asked: format!("{asked} of the deployment in {}", self.0.display()) })
    }
}

impl Keys {
    /// Keys out of AWS, and the process's role.
    pub(crate) fn of_aws(secrets: AwsSecrets, role: Arc<RoleCredentials>) -> Self {
        Self { shelf: Shelf::Aws(secrets), role: Some(Arc::new(Role(role))) }
    }

    /// Keys out of a file; a process that has them from there has no role of AWS either.
    pub(crate) fn of_file(file: PathBuf) -> Self {
        Self { shelf: Shelf::File(SecretsFile(file)), role: None }
    }

    async fn of_tenant(&self, tenant: &TenantId, name: &SecretRef) -> Result<String, SecretError> {
        let text = name.to_string();
        let place: SecretPlace =
            text.parse().map_err(|_| SecretError::Name { asked: text.clone(), why: "is none that is known here" })?;
        match &self.shelf {
            Shelf::Aws(secrets) => Ok(secrets.of_tenant(tenant, &place).await?.reveal().to_owned()),
            Shelf::File(file) => file.of_tenant(tenant, &place),
        }
    }

    async fn of_deployment(&self, text: &str) -> Result<String, SecretError> {
        let place: SecretPlace = text.parse().map_err(|_| SecretError::Name {
            asked: text.to_owned(),
            why: "is neither a name nor an ARN of a secret",
        })?;
        match &self.shelf {
            Shelf::Aws(secrets) => Ok(secrets.read(&place).await?.reveal().to_owned()),
            Shelf::File(file) => file.of_deployment(&place),
        }
    }
}

impl Secrets for Keys {
    fn secret<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a SecretRef,
    ) -> LocalBoxFuture<'a, Result<SecretText, StepError>> {
        async move {
            let key = self.of_tenant(tenant, name).await;
            key.map(SecretText::new).map_err(|error| StepError::new(class_of(&error), error.to_string()))
        }
        .boxed_local()
    }
}

impl ModelKeys for Keys {
    fn key<'a>(&'a self, place: &'a str) -> LocalBoxFuture<'a, Result<Secret, ModelError>> {
        async move {
            match self.of_deployment(place).await {
                // A line's end at the end of a file or a secret is nobody's key.
                Ok(key) => Ok(Secret::new(key.trim_end_matches(['\r', '\n']))),
                Err(error) => Err(ModelError::new(kind_of(&error), error.to_string())),
            }
        }
        .boxed_local()
    }

    fn role(&self) -> Option<Arc<dyn AwsCredentialSource>> {
        self.role.clone().map(|role| role as Arc<dyn AwsCredentialSource>)
    }
}

fn class_of(error: &SecretError) -> ErrorClass {
    match error {
        SecretError::NoShelf { .. }
        | SecretError::Name { .. }
        | SecretError::Missing { .. }
        | SecretError::Denied { .. }
        | SecretError::Unfit { .. } => ErrorClass::Auth,
        SecretError::Unavailable { throttled: true, .. } => ErrorClass::RateLimited,
        SecretError::Unavailable { throttled: false, .. } => ErrorClass::Transient,
    }
}

fn kind_of(error: &SecretError) -> ModelErrorKind {
    match error {
        SecretError::Unavailable { throttled: true, .. } => ModelErrorKind::RateLimited { retry_after: None },
        SecretError::Unavailable { throttled: false, .. } => ModelErrorKind::Transient,
        SecretError::NoShelf { .. }
        | SecretError::Name { .. }
        | SecretError::Missing { .. }
        | SecretError::Denied { .. }
        | SecretError::Unfit { .. } => ModelErrorKind::Auth,
    }
}

/// The role of the function, in the words of the model providers.
#[derive(Debug)]
struct Role(Arc<RoleCredentials>);

impl AwsCredentialSource for Role {
    fn credentials(&self) -> Credentials<'_> {
        Box::pin(async {
            let found = self.0.get().await?;
            Ok(AwsCredentials {
                access_key_id: found.access_key_id().to_owned(),
                secret_access_key: Secret::new(found.secret_access_key()),
                session_token: found.session_token().map(Secret::new),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    /// A tenant's definition has the tenant's own keys and nobody else's, in a file as on AWS.
    #[tokio::test]
    async fn a_file_has_the_same_fence() {
        let folder = std::env::temp_dir().join(format!("longhaul-keys-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("secrets.json");
        let keys = Keys::of_file(file.clone());
        let ask = async |tenant: &str, name: &str| {
            let found = keys.of_tenant(&tenant.parse().unwrap(), &name.parse().unwrap()).await;
            found.map_err(|error| error.to_string())
        };
        assert!(ask("acme", "ssm:tickets").await.unwrap_err().contains("secrets.json"), "no file, no key");
        let text = r#"{"tenants": {"acme": {"ssm:tickets": "of-acme"}, "other": {"ssm:tickets": "of-other"}},
            "deployment": {"ssm:/model": "of-us\n"}}"#;
        std::fs::write(&file, text).unwrap();
        assert_eq!(ask("acme", "ssm:tickets").await.unwrap(), "of-acme");
        assert_eq!(ask("other", "ssm:tickets").await.unwrap(), "of-other");
        for (tenant, name) in [("third", "ssm:tickets"), ("acme", "ssm:/model"), ("acme", "secretsmanager:tickets")] {
            assert!(ask(tenant, name).await.unwrap_err().contains(name), "{tenant} {name}");
        }
        assert_eq!(keys.key("ssm:/model").await.unwrap(), Secret::new("of-us"));
        assert!(keys.key("ssm:/tickets").await.is_err());
        std::fs::write(&file, r#"{"tenants": {"acme": {"ssm:tickets": sk-secret}}}"#).unwrap();
        let error = ask("acme", "ssm:tickets").await.unwrap_err();
        assert!(error.contains("line 1") && !error.contains("sk-secret"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
