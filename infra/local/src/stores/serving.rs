//! Serving a router on loopback until told to stop: what the storage services have in common.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StoresError;

/// Tells servers to stop. Dropping it tells them too, so that nothing outlives its owner.
#[derive(Debug)]
pub(crate) struct StopSignal(watch::Sender<bool>);

impl StopSignal {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the signal is given or its owner is gone.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut signal = self.0.subscribe();
        async move {
            // An error says that the owner is gone, which means the same.
            let _ = signal.wait_for(|stop| *stop).await;
        }
    }
}

/// Listens on a port of 127.0.0.1; 0 lets the system choose.
pub(crate) async fn listen(port: u16) -> Result<(TcpListener, String), StoresError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let failed = |source| StoresError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let endpoint = format!("http://{}", listener.local_addr().map_err(failed)?);
    Ok((listener, endpoint))
}

/// Serves the router until the signal, then lets running requests end.
pub(crate) fn serve(listener: TcpListener, router: Router, stop: &StopSignal) -> JoinHandle<()> {
    let listener = listener.tap_io(|stream| {
        // Without this, an answer of two small packets can wait 40 ms for an acknowledgement.
        if let Err(fault) = stream.set_nodelay(true) {
            tracing::debug!(error = &fault as &dyn std::error::Error, "no TCP_NODELAY");
        }
    });
    let stopped = stop.stopped();
    tokio::spawn(async move {
        if let Err(fault) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
            tracing::error!(error = &fault as &dyn std::error::Error, "a storage service ended");
        }
    })
}
