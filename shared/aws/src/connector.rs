//! The one HTTP client under all SDK clients.
//!
//! Loading the system's root certificates and building a TLS stack costs a cold start several milliseconds. A function
//! of the embedded stack never speaks TLS, so the encrypted connector is built at the first `https` request only.

use std::sync::{Arc, OnceLock};

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// A client whose connector is made once, for the settings of the first request; all our SDK clients share them.
#[derive(Debug, Default, Clone)]
pub(crate) struct SharedConnections {
    connector: Arc<OnceLock<SharedHttpConnector>>,
}

impl HttpClient for SharedConnections {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        self.connector(settings)
    }
}

impl SharedConnections {
    /// The connector itself, for calls that no SDK makes.
    pub(crate) fn connector(&self, settings: &HttpConnectorSettings) -> SharedHttpConnector {
        self.connector
            .get_or_init(|| {
                SharedHttpConnector::new(ByScheme {
                    settings: settings.clone(),
                    plain: OnceLock::new(),
                    encrypted: OnceLock::new(),
                })
            })
            .clone()
    }
}

#[derive(Debug)]
struct ByScheme {
    settings: HttpConnectorSettings,
    plain: OnceLock<Connector>,
    encrypted: OnceLock<Connector>,
}

impl HttpConnector for ByScheme {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let builder = || Connector::builder().connector_settings(self.settings.clone());
        if request.uri().starts_with("http://") {
            self.plain.get_or_init(|| builder().build_http()).call(request)
        } else {
            let tls = Provider::Rustls(CryptoMode::AwsLc);
            self.encrypted.get_or_init(|| builder().tls_provider(tls).build()).call(request)
        }
    }
}
