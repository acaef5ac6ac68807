//! A token issuer: a real HTTP server on the loopback that publishes keys and counts how often they are read, and keys
//! to sign with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A key with its id and algorithm.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(crate) id: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) encoding: EncodingKey,
}

impl SigningKey {
    pub(crate) fn new(id: &str, algorithm: Algorithm) -> Self {
        let encoding = match algorithm {
            Algorithm::RS256 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
                let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
                // The library wants the inner PKCS #1 key, which is what stands behind the 26 bytes of PKCS #8 head.
                EncodingKey::from_rsa_der(&der.as_ref()[26..])
            }
            Algorithm::ES256 => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
                EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref())
            }
            Algorithm::EdDSA => {
                EncodingKey::from_ed_der(Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap().as_ref())
            }
            other => panic!("no test key for {other:?}"),
        };
        Self { id: id.into(), algorithm, encoding }
    }

    pub(crate) fn sign(&self, claims: &Map<String, Value>) -> String {
        let header = Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.encoding).unwrap()
    }
}

/// The public half of keys, as an issuer publishes it.
pub(crate) fn key_set(keys: &[SigningKey]) -> Value {
    let keys: Vec<Jwk> = keys
        .iter()
        .map(|key| {
            let mut jwk = Jwk::from_encoding_key(&key.encoding, key.algorithm).unwrap();
            jwk.common.key_id = Some(key.id.clone());
            jwk
        })
        .collect();
    json!({ "keys": keys })
}

/// The server.
pub(crate) struct Issuer {
    address: std::net::SocketAddr,
    reads: Arc<AtomicUsize>,
    answer: Arc<Mutex<(u16, String)>>,
    serving: JoinHandle<()>,
}

impl Issuer {
    pub(crate) async fn start(keys: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(Mutex::new((200, keys.to_string())));
        let serving = tokio::spawn(serve(listener, Arc::clone(&reads), Arc::clone(&answer)));
        Self { address, reads, answer, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn answer(&self, status: u16, body: Value) {
        *self.answer.lock().unwrap() = (status, body.to_string());
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, reads: Arc<AtomicUsize>, answer: Arc<Mutex<(u16, String)>>) {
    while let Ok((mut socket, _)) = listener.accept().await {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut piece = [0_u8; 1_024];
            match socket.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(count) => request.extend_from_slice(&piece[..count]),
            }
        }
        reads.fetch_add(1, Ordering::SeqCst);
        let (status, body) = answer.lock().unwrap().clone();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nlocation: /elsewhere\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let _ = socket.write_all(head.as_bytes()).await;
        let _ = socket.write_all(body.as_bytes()).await;
        let _ = socket.shutdown().await;
    }
}
