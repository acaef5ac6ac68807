//! Calls of the API.

use std::time::Duration;

use futures::StreamExt;
use longhaul_engine::JobId;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use longhaul_wire::agents::{AgentList, AgentView};
use longhaul_wire::deliveries::{DeliveryList, DeliveryView};
use longhaul_wire::erasures::{EraseRequest, ErasureList, ErasureView};
use longhaul_wire::events::EventList;
use longhaul_wire::export::{EntryPart, Export};
use longhaul_wire::jobs::{DeadLetterList, ForkView, JobList, TakenIn};
use longhaul_wire::journal::{EntryView, JournalView};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::{
    CancelRequest, ForkRequest, ReplayRequest, SignalRequest, SubmitRequest, TenantSettings,
};
use longhaul_wire::schedules::{ScheduleList, ScheduleView};
use longhaul_wire::{JobView, limits};

use super::CliError;
use super::asking::Streamed;
use super::deployment::Tokens;

/// How long one call may take: an API call answers within 30 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);

/// How long a question for events waits for its answer.
const EVENTS_WAIT_SECONDS: u64 = 20;
/// How long a stream may be silent: it says every 15 s that it is still there.
const SILENCE: Duration = Duration::from_secs(45);

/// What came of asking for a stream of events.
pub(super) enum Opened {
    /// The data of its events.
    Stream(Streamed),
    /// There is nothing more to come.
    Nothing,
    /// Not here, but at this address, if at any.
    Elsewhere(Option<String>),
    /// Not now.
    Busy,
}

/// A client of one deployment, acting for one tenant.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    /// For answers that go on: bounded by silence, not as a whole.
    streaming: reqwest::Client,
    url: String,
    tokens: Tokens,
}

impl Client {
    pub(super) fn new(url: &str, tokens: Tokens) -> Self {
        let streaming = reqwest::Client::builder().read_timeout(SILENCE).build().unwrap_or_default();
        Self { http: reqwest::Client::new(), streaming, url: url.to_owned(), tokens }
    }

    /// The address of its API.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Where its tokens come from, for the live connection.
    pub(super) fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    pub(super) async fn submit(&self, request: &SubmitRequest, key: Option<&str>) -> Result<JobView, CliError> {
        let call = self.request(Method::POST, "/v1/jobs").json(request);
        let call = match key {
            Some(key) => call.header("idempotency-key", key),
            None => call,
        };
        self.send("POST", "/v1/jobs", call).await
    }

    pub(super) async fn job(&self, id: &str) -> Result<JobView, CliError> {
        self.get(&format!("/v1/jobs/{}", segment(id)), &[]).await
    }

    /// A job's whole journal.
    pub(super) async fn journal(&self, id: &str) -> Result<Vec<EntryView>, CliError> {
        let path = format!("/v1/jobs/{}/journal", segment(id));
        let mut entries = Vec::new();
        let mut after = 0_u64;
        loop {
            let page: JournalView = self.get(&path, &[("after", &after.to_string())]).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = next,
                None => return Ok(entries),
            }
        }
    }

    /// The events of a job behind a position; without any, those of the next moments.
    pub(super) async fn events(&self, job: JobId, after: u64) -> Result<EventList, CliError> {
        let wait = EVENTS_WAIT_SECONDS.to_string();
        self.get(&format!("/v1/jobs/{job}/events"), &[("after", &after.to_string()), ("wait", &wait)]).await
    }

    /// The events of a job behind a position, as far as they are there.
    pub(super) async fn events_at_hand(&self, job: JobId, after: u64) -> Result<EventList, CliError> {
        self.get(&format!("/v1/jobs/{job}/events"), &[("after", &after.to_string())]).await
    }

    /// Asks an address of this deployment for a job's events as a stream.
    pub(super) async fn open_events(&self, at: &str, job: JobId, after: u64) -> Result<Opened, CliError> {
        let url = format!("{}/v1/jobs/{job}/events", at.trim_end_matches('/'));
        let token = self.tokens.get().await?;
        let call = self.streaming.get(&url).bearer_auth(token).header("accept", "text/event-stream");
        let call = if after > 0 { call.header("last-event-id", after) } else { call };
        let answer =
            call.send().await.map_err(|source| CliError::Unreachable { method: "GET", url: url.clone(), source })?;
        let is_stream = answer
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("text/event-stream"));
        Ok(match answer.status() {
            StatusCode::NO_CONTENT => Opened::Nothing,
            StatusCode::OK if is_stream => {
                // A connection that breaks ends the stream, as its own end does: the position says where to go on.
                let events = sse_stream::SseByteStream::new(answer.bytes_stream().boxed());
                let whole = events.take_while(|event| std::future::ready(event.is_ok()));
                Opened::Stream(whole.filter_map(async |event| event.ok()?.data).boxed())
            }
            StatusCode::NOT_ACCEPTABLE => {
                let problem = answer.json::<ProblemBody>().await.ok();
                let named = problem.and_then(|problem| problem.extras.get("streams")?.as_str().map(str::to_owned));
                // Tokens go there.
                Opened::Elsewhere(named.and_then(|named| super::deployment::base("streams", &named).ok()))
            }
            // The question that follows says what is wrong, if anything is.
            _ => Opened::Busy,
        })
    }

    /// A job as a whole file, entries larger than an answer included.
    pub(super) async fn export(&self, id: &str) -> Result<Export, CliError> {
        let path = format!("/v1/jobs/{}/export", segment(id));
        let mut export: Export = self.get(&path, &[]).await?;
        while let Some(next) = export.next {
            let part: Export = self.get(&path, &[("after", &next.to_string())]).await?;
            export.journal.extend(part.journal);
            export.next = part.next;
        }
        for view in export.journal.iter_mut().filter(|view| view.truncated) {
            view.entry = serde_json::from_str(&self.entry(id, view.seq.0).await?)?;
            view.truncated = false;
        }
        Ok(export)
    }

    /// A whole entry as JSON.
    async fn entry(&self, id: &str, position: u64) -> Result<String, CliError> {
        let path = format!("/v1/jobs/{}/journal/{position}", segment(id));
        let (mut text, mut offset) = (String::new(), 0_u64);
        loop {
            let part: EntryPart = self.get(&path, &[("offset", &offset.to_string())]).await?;
            text.push_str(&part.text);
            match part.next {
                Some(next) => offset = next,
                None => return Ok(text),
            }
        }
    }

    pub(super) async fn fork(&self, id: &str, request: &ForkRequest, key: Option<&str>) -> Result<ForkView, CliError> {
        let path = format!("/v1/jobs/{}/fork", segment(id));
        let call = self.request(Method::POST, &path).json(request);
        let call = match key {
            Some(key) => call.header("idempotency-key", key),
            None => call,
        };
        self.send("POST", &path, call).await
    }

    pub(super) async fn tenant_settings(&self) -> Result<TenantSettings, CliError> {
        self.get("/v1/tenant/settings", &[]).await
    }

    pub(super) async fn put_tenant_settings(&self, settings: &TenantSettings) -> Result<TenantSettings, CliError> {
        let path = "/v1/tenant/settings";
        let call = self.request(Method::PUT, path).json(settings);
        self.send("PUT", path, call).await
    }

    pub(super) async fn schedules(&self) -> Result<ScheduleList, CliError> {
        self.get("/v1/schedules", &[]).await
    }

    pub(super) async fn schedule(&self, name: &str) -> Result<ScheduleView, CliError> {
        self.get(&format!("/v1/schedules/{}", segment(name)), &[]).await
    }

    /// What a schedule's owner asked for, to be changed in a part and put again.
    pub(super) async fn schedule_request(&self, name: &str) -> Result<Map<String, Value>, CliError> {
        #[derive(Deserialize)]
        struct Shown {
            schedule: Map<String, Value>,
        }
        let shown: Shown = self.get(&format!("/v1/schedules/{}", segment(name)), &[]).await?;
        Ok(shown.schedule)
    }

    pub(super) async fn put_schedule(&self, name: &str, schedule: &impl Serialize) -> Result<ScheduleView, CliError> {
        let path = format!("/v1/schedules/{}", segment(name));
        let call = self.request(Method::PUT, &path).json(schedule);
        self.send("PUT", &path, call).await
    }

    /// Removes a schedule; none where it could not be read.
    pub(super) async fn delete_schedule(&self, name: &str) -> Result<Option<ScheduleView>, CliError> {
        let path = format!("/v1/schedules/{}", segment(name));
        let call = self.request(Method::DELETE, &path);
        self.send("DELETE", &path, call).await
    }

    pub(super) async fn erase_tenant(&self, tenant: &str) -> Result<ErasureView, CliError> {
        self.post("/v1/tenant/erasures", &EraseRequest { tenant: tenant.to_owned() }).await
    }

    pub(super) async fn erasure(&self, id: &str) -> Result<ErasureView, CliError> {
        self.get(&format!("/v1/tenant/erasures/{}", segment(id)), &[]).await
    }

    pub(super) async fn erasures(&self) -> Result<ErasureList, CliError> {
        self.get("/v1/tenant/erasures", &[]).await
    }

    /// The newest jobs that a filter admits, page after page; `next` tells whether there are more.
    pub(super) async fn jobs(&self, filter: &[(&str, &str)], jobs_max: usize) -> Result<JobList, CliError> {
        let mut list = JobList { jobs: Vec::new(), next: None };
        loop {
            let wanted = jobs_max.saturating_sub(list.jobs.len()).min(limits::JOBS_PAGE_MAX).to_string();
            let mut query = filter.to_vec();
            query.push(("limit", &wanted));
            if let Some(next) = &list.next {
                query.push(("cursor", next));
            }
            let page: JobList = self.get("/v1/jobs", &query).await?;
            list.jobs.extend(page.jobs);
            list.next = page.next;
            if list.next.is_none() || list.jobs.len() >= jobs_max {
                return Ok(list);
            }
        }
    }

    /// A page of dead letters, as long as pages are.
    pub(super) async fn dead_letters(&self, cursor: Option<&str>) -> Result<DeadLetterList, CliError> {
        let query: Vec<(&str, &str)> =
            [("limit", "50")].into_iter().chain(cursor.map(|next| ("cursor", next))).collect();
        self.get("/v1/dead-letters", &query).await
    }

    pub(super) async fn agents(&self) -> Result<AgentList, CliError> {
        self.get("/v1/agents", &[]).await
    }

    pub(super) async fn agent(&self, agent: &str) -> Result<AgentView, CliError> {
        self.get(&format!("/v1/agents/{}", segment(agent)), &[]).await
    }

    /// Saves a definition; the version, and whether it is a new one.
    pub(super) async fn put_agent(&self, name: &str, definition: &Value) -> Result<(AgentView, bool), CliError> {
        let path = format!("/v1/agents/{}", segment(name));
        let call = self.request(Method::PUT, &path).json(definition);
        let (status, view) = self.answered("PUT", &path, call).await?;
        Ok((view, status == StatusCode::CREATED))
    }

    pub(super) async fn cancel(&self, id: &str, request: &CancelRequest) -> Result<TakenIn, CliError> {
        self.post(&format!("/v1/jobs/{}/cancel", segment(id)), request).await
    }

    pub(super) async fn signal(&self, id: &str, name: &str, request: &SignalRequest) -> Result<TakenIn, CliError> {
        self.post(&format!("/v1/jobs/{}/signals/{}", segment(id), segment(name)), request).await
    }

    pub(super) async fn replay(&self, id: &str, request: &ReplayRequest) -> Result<TakenIn, CliError> {
        self.post(&format!("/v1/jobs/{}/replay", segment(id)), request).await
    }

    /// All deliveries of a job's events to its webhook that are kept, page after page.
    pub(super) async fn deliveries(&self, id: &str) -> Result<DeliveryList, CliError> {
        let path = format!("/v1/jobs/{}/deliveries", segment(id));
        let mut list = DeliveryList { deliveries: Vec::new(), next: None };
        let mut after = 0_u64;
        loop {
            let page: DeliveryList = self.get(&path, &[("after", &after.to_string())]).await?;
            list.deliveries.extend(page.deliveries);
            match page.next {
                Some(next) => after = next,
                None => return Ok(list),
            }
        }
    }

    /// Delivers an event to a job's webhook once more.
    pub(super) async fn resend(&self, id: &str, delivery: &str) -> Result<DeliveryView, CliError> {
        let path = format!("/v1/jobs/{}/deliveries/{}/resend", segment(id), segment(delivery));
        self.send("POST", &path, self.request(Method::POST, &path)).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, CliError> {
        let mut url = path.to_owned();
        if !query.is_empty() {
            let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            url = format!("{path}?{query}");
        }
        let call = self.request(Method::GET, &url);
        self.send("GET", path, call).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CliError> {
        let call = self.request(Method::POST, path).json(body);
        self.send("POST", path, call).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).timeout(CALL_TIMEOUT)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        call: RequestBuilder,
    ) -> Result<T, CliError> {
        self.answered(method, path, call).await.map(|(_, answer)| answer)
    }

    /// The answer with its status.
    async fn answered<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        call: RequestBuilder,
    ) -> Result<(StatusCode, T), CliError> {
        let url = format!("{}{path}", self.url);
        let unreachable = |source| CliError::Unreachable { method, url: url.clone(), source };
        let token = self.tokens.get().await?;
        let again = call.try_clone();
        let mut answer = call.bearer_auth(&token).send().await.map_err(unreachable)?;
        // A token may be refused before it expires: the issuer has taken it back, or a clock is wrong.
        if answer.status() == StatusCode::UNAUTHORIZED
            && let Some(again) = again
            && let Some(other) = self.tokens.other_than(&token).await?
        {
            answer = again.bearer_auth(other).send().await.map_err(unreachable)?;
        }
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        let strange = || CliError::Strange { method, url: url.clone(), status: status.as_u16() };
        // Who may be answered without a body asks for an `Option`.
        let body: &[u8] = if status == StatusCode::NO_CONTENT { b"null" } else { &body };
        if status.is_success() {
            return serde_json::from_slice(body).map(|answer| (status, answer)).map_err(|_| strange());
        }
        match serde_json::from_slice::<ProblemBody>(body) {
            Ok(problem) if status != StatusCode::OK => {
                Err(CliError::Refused { method, url, problem: Box::new(problem) })
            }
            Ok(_) | Err(_) => Err(strange()),
        }
    }
}

/// A path segment: what a person types may hold anything.
fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
