//! API Gateway as the embedded stack runs it: the HTTP API in front of the api function and the WebSocket API in front
//! of the websocket function.
//!
//! Both turn what comes over the wire into the event that API Gateway would send, invoke the function and turn its
//! answer back, with the limits and the error answers of the real gateways: what works here works there, and what
//! would be refused there is refused here.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use axum::Router;
use axum::http::{HeaderMap, HeaderName};
use axum::serve::ListenerExt as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

mod http;
mod websocket;

pub use http::{BODY_MAX_BYTES, HttpGateway, HttpGatewayConfig, INTEGRATION_TIMEOUT};
pub use websocket::{
    CONNECTION_MAX_AGE, FRAME_MAX_BYTES, IDLE_TIMEOUT, MESSAGE_MAX_BYTES, WebSocketGateway, WebSocketGatewayConfig,
};

/// Opens a port on 127.0.0.1 (0: a free one) for a gateway that starts later: who knows the number may tell it to others
/// meanwhile, and nobody else gets it.
///
/// # Errors
/// When another process has it.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

/// A server on 127.0.0.1 that ends when it is dropped.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    stop: CancellationToken,
}

impl Server {
    /// Serves whoever comes to the listener.
    fn start(what: &'static str, listener: TcpListener, router: Router) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = listener.tap_io(move |stream| {
            // Small answers must not wait for the acknowledgement of the one before.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, what, "could not switch off Nagle's algorithm");
            }
        });
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            let service = router.into_make_service_with_connect_info::<SocketAddr>();
            tokio::select! {
                result = axum::serve(listener, service).into_future() => {
                    if let Err(error) = result {
                        tracing::error!(%error, what, "a server ended");
                    }
                }
                () = stopped.cancelled() => {}
            }
        });
        Ok(Self { address, stop })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A request or connection id of the form that API Gateway uses: 15 characters and an equals sign.
///
/// It is made of 88 random bits; a connection id must not be guessed, since who knows it may post to the connection.
fn gateway_id() -> String {
    let random = *Uuid::new_v4().as_bytes();
    // Bytes 6 and 8 of such a UUID hold fixed bits; what is taken here leaves them out.
    let [a, b, c, d, e, f, _, h, _, j, k, l, m, ..] = random;
    URL_SAFE.encode([a, b, c, d, e, f, h, j, k, l, m])
}

/// Whether a text has the form of [`gateway_id`].
fn is_gateway_id(text: &str) -> bool {
    URL_SAFE.decode(text).is_ok_and(|bytes| bytes.len() == 11)
}

/// A moment as API Gateway shows it: `12/Mar/2020:19:03:58 +0000`.
fn gateway_time(at: SystemTime) -> String {
    moment(at).strftime("%d/%b/%Y:%H:%M:%S +0000").to_string()
}

/// Milliseconds since the epoch.
fn epoch_ms(at: SystemTime) -> i64 {
    moment(at).as_millisecond()
}

/// The moment as a timestamp; a clock outside all calendars counts as the epoch.
fn moment(at: SystemTime) -> Timestamp {
    Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A header as text; bytes that are no UTF-8 are replaced, since events are JSON.
fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_read_like_those_of_the_gateway() {
        let at = UNIX_EPOCH + Duration::from_millis(1_584_039_838_390);
        assert_eq!(gateway_time(at), "12/Mar/2020:19:03:58 +0000");
        assert_eq!(epoch_ms(at), 1_584_039_838_390);
    }

    #[test]
    fn ids_have_the_form_of_the_gateway() {
        let id = gateway_id();
        assert_eq!((id.len(), id.chars().last()), (16, Some('=')));
        assert!(is_gateway_id(&id));
        assert_ne!(id, gateway_id());
        for wrong in ["", "abc", "../..", "L0SM9cOFvHcCIhw", "L0SM9cOFvHcCIhw==", "L0SM9cOFvHcCIh/="] {
            assert!(!is_gateway_id(wrong), "{wrong:?}");
        }
    }
}
