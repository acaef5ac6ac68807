//! Fake LLM endpoint: POST /v1/chat/completions answers a fixed ~1 KB completion after D ms.
//! Hand-rolled HTTP/1.1 on a single-threaded tokio runtime (this box has 2 cores; the server must
//! not steal one). usage: fakellm PORT DELAY_MS [PAD_BYTES] [LOG_PATH]
//!   header  x-delay-ms: N   overrides D for that request
//!   header  x-mark: TEXT    appends "<unix_us> TEXT\n" to LOG_PATH (used to prove no step re-ran);
//!                           without it idempotency-key does
//!   PUT /delay/MS           D from now on
//!   GET /count              number of completions served so far
//!   DELETE /count           resets it
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

static COUNT: AtomicU64 = AtomicU64::new(0);
/// Milliseconds before an answer, for requests that do not say.
static DELAY: AtomicU64 = AtomicU64::new(0);
static LOG: Mutex<Option<std::fs::File>> = Mutex::new(None);

/// The answer: the same length every time, other text every time (pseudo-random hex words), so that neither one
/// answer nor a history of answers compresses away in a store.
#[derive(Clone, Copy)]
struct Body { pad: usize }
impl Body {
    fn fill(&self, seed: u64, o: &mut Vec<u8>) {
        o.extend_from_slice(b"{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"fake-1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
        let mut x = 0x9E3779B97F4A7C15u64.wrapping_mul(seed | 1) ^ seed;
        let mut n = 0;
        while n < self.pad {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            for i in 0..6 {
                o.push(b"0123456789abcdef"[(x >> (4 * i)) as usize & 15]);
            }
            o.push(b' ');
            n += 7;
        }
        o.extend_from_slice(b"\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":200,\"total_tokens\":320},\"system_fingerprint\":\"fp_bench\"}");
    }
}

fn find(h: &[u8], n: &[u8]) -> Option<usize> {
    h.windows(n.len()).position(|w| w == n)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").skip(1).find_map(|l| {
        let (k, v) = l.split_once(':')?;
        k.eq_ignore_ascii_case(name).then(|| v.trim())
    })
}

async fn serve(mut s: TcpStream, body: Body) -> std::io::Result<()> {
    s.set_nodelay(true)?;
    let mut buf: Vec<u8> = Vec::with_capacity(8192);
    let mut out: Vec<u8> = Vec::with_capacity(4096);
    let mut ans: Vec<u8> = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(p) = find(&buf, b"\r\n\r\n") {
                break p + 4;
            }
            if s.read_buf(&mut buf).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buf[..end]).into_owned();
        let chunked = header(&head, "transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let mut total = end + header(&head, "content-length").and_then(|v| v.parse::<usize>().ok()).unwrap_or(0);
        if chunked {
            total = loop {
                if let Some(p) = find(&buf[end..], b"0\r\n\r\n") {
                    break end + p + 5;
                }
                if s.read_buf(&mut buf).await? == 0 {
                    return Ok(());
                }
            };
        }
        while buf.len() < total {
            if s.read_buf(&mut buf).await? == 0 {
                return Ok(());
            }
        }
        buf.drain(..total);
        out.clear();
        if head.starts_with("POST") {
            let d = header(&head, "x-delay-ms").and_then(|v| v.parse().ok()).unwrap_or_else(|| DELAY.load(Ordering::Relaxed));
            if let Some(m) = header(&head, "x-mark").or_else(|| header(&head, "idempotency-key")) {
                if let Some(f) = LOG.lock().unwrap().as_mut() {
                    let us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
                    let _ = f.write_all(format!("{us} {m}\n").as_bytes());
                }
            }
            if d > 0 {
                tokio::time::sleep(Duration::from_millis(d)).await;
            }
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            ans.clear();
            body.fill(n + 1, &mut ans);
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
            out.extend_from_slice(format!("content-length: {}\r\n\r\n", ans.len()).as_bytes());
            out.extend_from_slice(&ans);
        } else {
            if head.starts_with("DELETE") {
                COUNT.store(0, Ordering::Relaxed);
            }
            if let Some(ms) = head.strip_prefix("PUT /delay/").and_then(|rest| rest.split(' ').next()?.parse().ok()) {
                DELAY.store(ms, Ordering::Relaxed);
            }
            let n = COUNT.load(Ordering::Relaxed).to_string();
            out.extend_from_slice(format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{}", n.len(), n).as_bytes());
        }
        s.write_all(&out).await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let port: u16 = a.get(1).and_then(|v| v.parse().ok()).unwrap_or(18080);
    let delay: u64 = a.get(2).and_then(|v| v.parse().ok()).unwrap_or(0);
    DELAY.store(delay, Ordering::Relaxed);
    let pad: usize = a.get(3).and_then(|v| v.parse().ok()).unwrap_or(700);
    if let Some(p) = a.get(4) {
        *LOG.lock().unwrap() = Some(std::fs::OpenOptions::new().create(true).append(true).open(p).unwrap());
    }
    let body = Body { pad };
    let l = TcpListener::bind(("127.0.0.1", port)).await.expect("bind");
    let mut b = Vec::new();
    body.fill(1, &mut b);
    eprintln!("fakellm 127.0.0.1:{port} delay {delay} ms body {} bytes", b.len());
    loop {
        if let Ok((s, _)) = l.accept().await {
            tokio::spawn(async move {
                let _ = serve(s, body).await;
            });
        }
    }
}
