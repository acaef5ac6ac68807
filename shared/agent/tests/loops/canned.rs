//! Whole jobs over answers as they come over a wire: the bytes of model servers' answers, one for each request.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use longhaul::Registry;
use longhaul::store::JobRef;
use longhaul_agent::defined::equipment::{Equipment, Providers};
use longhaul_agent::{HeavyWork, Paths, Reach, SystemLookup};
use longhaul_definition::Policy;
use longhaul_llm::{Access, Carried, Carrier, CarrierError, Endpoint, Prices, Secret, Wire};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use reqwest::{Client, Request, Response};
use serde_json::Value;

use crate::room::{Hall, InHall, add_with};

/// An answer as it comes over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Canned {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Canned {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, ..Self::ok(body) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Gives canned answers in order; whoever asks for more is refused.
#[derive(Debug, Default)]
pub(crate) struct Cans {
    left: Mutex<VecDeque<Canned>>,
    asked: Mutex<Vec<(String, Value)>>,
}

impl Cans {
    pub(crate) fn new(answers: impl IntoIterator<Item = Canned>) -> Arc<Self> {
        Arc::new(Self { left: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() })
    }

    /// The bodies of all requests.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// The addresses of all requests.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(url, _)| url.clone()).collect()
    }

    pub(crate) fn left(&self) -> usize {
        self.left.lock().unwrap().len()
    }
}

impl Carrier for Cans {
    fn carry<'a>(&'a self, _client: &'a Client, request: Request) -> Carried<'a> {
        async move {
            let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
            // Strictly: what is sent must be JSON to any reader.
            let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
            self.asked.lock().unwrap().push((request.url().to_string(), body));
            tokio::time::sleep(Duration::from_millis(500)).await;
            let canned = self.left.lock().unwrap().pop_front();
            let canned =
                canned.ok_or_else(|| CarrierError::Refused("one request more than was expected".to_owned()))?;
            let mut response = axum::http::Response::builder().status(canned.status);
            for (name, value) in &canned.headers {
                response = response.header(name, value);
            }
            Ok(Response::from(response.body(canned.body).unwrap()))
        }
        .boxed()
    }
}

pub(crate) fn endpoint(wire: Wire) -> Endpoint {
    let base = match wire {
        Wire::Converse => "http://model.example",
        Wire::Chat | Wire::Responses | Wire::Messages => "http://model.example/v1",
    };
    Endpoint { base_url: Some(base.to_owned()), region: Some("eu-central-1".to_owned()), ..Endpoint::new(wire, "m") }
}

/// A definition run to its end in virtual time, over canned answers.
pub(crate) struct Played {
    pub(crate) workshop: Workshop,
    pub(crate) job: JobRef,
    pub(crate) took: Duration,
}

/// Runs a definition over canned answers; each invocation lasts so long at most.
pub(crate) async fn play(
    definition: &Value,
    wire: Wire,
    cans: &Arc<Cans>,
    hall: &Rc<Hall>,
    invocation: Duration,
) -> Played {
    let carrier: Arc<dyn Carrier> = Arc::<Cans>::clone(cans);
    let mut providers = Providers::default();
    providers.add("default", endpoint(wire), Access::Key(Secret::new("made-up-key-0123456789")));
    let reach = Reach::new(Policy::default(), Arc::new(SystemLookup)).unwrap().carried_by(Arc::clone(&carrier));
    let prices =
        r#"{"read_on": "2026-11-29", "models": [{"names": ["m"], "rates": {"input": "10.00", "output": "50.00"}}]}"#;
    let equipment = Equipment::new(Rc::new(providers.carried_by(carrier)), reach, Paths::default())
        .with_functions(Rc::new(InHall(Rc::clone(hall))))
        .with_heavy_work(HeavyWork::Here)
        .with_prices(Prices::none().overlaid(prices).unwrap());
    let mut registry = Registry::default();
    add_with(&mut registry, "agent", definition, equipment);
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    workshop.invocation = invocation;
    let (job, took) = workshop
        .run(1, async {
            let order = workshop.order("agent", serde_json::json!("go"));
            let begun = order.submitted_at;
            let job = workshop.submit(order).await;
            let ended = workshop.ended(&job).await;
            (job, begun.until(ended.progress.updated_at))
        })
        .await;
    Played { workshop, job, took }
}
