//! A ticket server: knows idempotency keys, and can be slow or unwilling.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What it does with a request, beside taking it in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Opens the ticket and never answers.
    Silent,
    /// Refuses with this status and opens nothing.
    Refuses(u16),
}

#[derive(Default)]
struct Desk {
    manners: Mutex<VecDeque<Manner>>,
    /// Tickets by their key: id and what was sent.
    tickets: Mutex<BTreeMap<String, (String, Value)>>,
    /// The key of every request.
    requests: Mutex<Vec<String>>,
    silent: Notify,
}

/// The running server.
pub(crate) struct Tickets {
    pub(crate) url: String,
    desk: Arc<Desk>,
    serving: JoinHandle<()>,
}

impl Drop for Tickets {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Tickets {
    /// A server that does this with its first requests, and behaves after that.
    pub(crate) async fn start(manners: &[Manner]) -> Self {
        let desk = Arc::new(Desk { manners: Mutex::new(manners.iter().copied().collect()), ..Desk::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/tickets", listener.local_addr().unwrap());
        let of_server = Arc::clone(&desk);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&of_server)));
            }
        });
        Self { url, desk, serving }
    }

    /// Comes when a request has been taken in that is never answered.
    pub(crate) async fn is_silent(&self) {
        self.desk.silent.notified().await;
    }

    /// What was sent, by key.
    pub(crate) fn opened(&self) -> BTreeMap<String, (String, Value)> {
        self.desk.tickets.lock().unwrap().clone()
    }

    /// The keys of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.desk.requests.lock().unwrap().clone()
    }
}

/// One request a connection, which is all that HTTP asks.
async fn serve(stream: TcpStream, desk: Arc<Desk>) {
    let mut stream = BufReader::new(stream);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => key = value.to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => assert!(line.starts_with("POST /tickets "), "{line}"),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    desk.requests.lock().unwrap().push(key.clone());
    let manner = desk.manners.lock().unwrap().pop_front();
    let (status, answer) = match manner {
        Some(Manner::Refuses(status)) => (status, json!({ "error": "not now" })),
        Some(Manner::Silent) | None => {
            let mut tickets = desk.tickets.lock().unwrap();
            let next = format!("T-{}", tickets.len() + 1);
            let sent = serde_json::from_slice(&body).unwrap();
            (201, json!({ "id": tickets.entry(key).or_insert((next, sent)).0 }))
        }
    };
    if let Some(Manner::Silent) = manner {
        desk.silent.notify_one();
        std::future::pending::<()>().await;
    }
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nretry-after: 0\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    // The client may have gone.
    let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
}
