//! Tools of MCP servers, over streamable HTTP.
//!
//! The wire is the official crate's. Sessions are kept here, per process and tenant, and every exchange happens inside
//! the step that needs it: nothing runs on when an invocation ends. A session that the server has forgotten (404) is made
//! anew, once, and the call is sent again; a call that met a dead session was not carried out, so this repeats nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_definition::McpTool;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientJsonRpcMessage, ClientNotification, ClientRequest, Implementation,
    InitializeRequestParams, InitializedNotification, JsonRpcMessage, JsonRpcNotification, JsonRpcRequest,
    JsonRpcVersion2_0, NumberOrString, PaginatedRequestParams, Request, RequestOptionalParam, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::http::{Caller, TRACEPARENT, plain_headers, secret_header};
use super::outcome::{Outcome, class_of};

mod visits;

/// Pages of a list of tools: more are a server that never ends.
const PAGES_MAX: usize = 20;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(rename = "inputSchema")]
    pub(crate) input_schema: Value,
}

/// An open session.
#[derive(Debug, Clone)]
struct Session {
    /// What the server calls it; some servers keep none.
    id: Option<Arc<str>>,
    /// The version of the protocol that it speaks.
    version: String,
}

/// Whose session with which server: it is never shared between tenants, nor between keys.
type Whose = (TenantId, String, Option<String>);

/// The sessions of this process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sessions {
    open: Rc<RefCell<BTreeMap<Whose, Session>>>,
    /// How many jobs that are being driven here may use each.
    users: Rc<RefCell<BTreeMap<Whose, usize>>>,
}

fn whose(tenant: &TenantId, definition: &McpTool) -> Whose {
    let secret = definition.auth.as_ref().map(|auth| auth.secret.to_string());
    (tenant.clone(), definition.url.clone(), secret)
}

/// Why an exchange gave no result.
enum Fault {
    /// The server has forgotten the session.
    Forgotten,
    /// The server says that the request is wrong: the model should know.
    Refused(String),
    /// Anything else.
    Other(StepError),
}

impl From<StepError> for Fault {
    fn from(error: StepError) -> Self {
        Self::Other(error)
    }
}

type Failed = StreamableHttpError<reqwest::Error>;

/// One server with the marks of whoever calls it.
struct Server<'a> {
    caller: &'a Caller<'a>,
    definition: &'a McpTool,
    headers: HeaderMap,
}

impl Sessions {
    /// The granted tools as the server describes them.
    pub(crate) async fn list(&self, caller: &Caller<'_>, definition: &McpTool) -> Result<Vec<Described>, StepError> {
        let server = Server::new(caller, definition, None).await?;
        let limit = Duration::from_secs(definition.timeout_seconds);
        let listed = within(limit, self.in_session(&server, async |session| server.list(session).await)).await?;
        let described = listed.map_err(|refused| StepError::new(ErrorClass::Invalid, refused))?;
        let granted: Vec<Described> =
            described.into_iter().filter(|tool| definition.tools.contains(&tool.name)).collect();
        match definition.tools.iter().find(|name| granted.iter().all(|tool| tool.name != **name)) {
            Some(missing) => {
                let message = format!("the MCP server {} has no tool {missing:?}", definition.name);
                Err(StepError::new(ErrorClass::Invalid, message))
            }
            None => Ok(granted),
        }
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        caller: &Caller<'_>,
        definition: &McpTool,
        tool: &str,
        arguments: &Map<String, Value>,
        key: Option<&str>,
    ) -> Result<Outcome, StepError> {
        let server = Server::new(caller, definition, key).await?;
        let limit = Duration::from_secs(definition.timeout_seconds);
        let called =
            within(limit, self.in_session(&server, async |session| server.call(session, tool, arguments).await));
        Ok(called.await?.unwrap_or_else(|refused| Outcome::bad(format!("the server refused the call: {refused}"))))
    }

    /// Does something in a session: the one that is open, or a new one. In place of one that the server has forgotten a
    /// new one is made, once; what is forgotten twice in a row is not made a third time.
    async fn in_session<T>(
        &self,
        server: &Server<'_>,
        exchange: impl AsyncFn(&Session) -> Result<T, Fault>,
    ) -> Result<Result<T, String>, StepError> {
        let whose = server.whose();
        let mut session = self.open.borrow().get(&whose).cloned();
        for _ in 0..2 {
            let current = match session.take() {
                Some(session) => session,
                None => server.initialize().await?,
            };
            self.open.borrow_mut().insert(whose.clone(), current.clone());
            match exchange(&current).await {
                Ok(value) => return Ok(Ok(value)),
                Err(Fault::Refused(refused)) => return Ok(Err(refused)),
                Err(Fault::Other(error)) => return Err(error),
                Err(Fault::Forgotten) => {
                    tracing::info!(server = %server.definition.name, "the MCP session is gone; a new one is made");
                    self.open.borrow_mut().remove(&whose);
                }
            }
        }
        Ok(Err("the server forgets each session at once".to_owned()))
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, StepError>>) -> Result<T, StepError> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => {
            let message = format!("the MCP server did not answer within {} s", limit.as_secs());
            Err(StepError::new(ErrorClass::Timeout, message))
        }
    }
}

impl<'a> Server<'a> {
    async fn new(caller: &'a Caller<'a>, definition: &'a McpTool, key: Option<&str>) -> Result<Self, StepError> {
        let invalid = |message: String| StepError::new(ErrorClass::Invalid, message);
        let url = Url::parse(&definition.url).map_err(|error| invalid(error.to_string()))?;
        caller.reach.judge(&url)?;
        let mut headers = HeaderMap::new();
        for (name, text) in &definition.headers {
            // Braces mean nothing here: there are no arguments to fill in.
            let text = text.replace('{', "{{").replace('}', "}}");
            headers.extend(plain_headers([(name, &text)], &Map::new()).map_err(invalid)?);
        }
        if let Some(auth) = &definition.auth {
            let (name, value) = secret_header(caller, auth).await?;
            headers.insert(name, value);
        }
        if let Ok(traceparent) = HeaderValue::from_str(caller.traceparent)
            && !headers.contains_key(TRACEPARENT)
        {
            headers.insert(TRACEPARENT, traceparent);
        }
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert("idempotency-key", key);
        }
        Ok(Self { caller, definition, headers })
    }

    fn whose(&self) -> Whose {
        whose(self.caller.tenant, self.definition)
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<&Session>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_json_response_size = self.definition.size_max_bytes;
        limits.max_sse_event_size = self.definition.size_max_bytes;
        let mut headers = self.headers.clone();
        if let Some(version) = session.and_then(|session| HeaderValue::from_str(&session.version).ok()) {
            headers.insert("mcp-protocol-version", version);
        }
        let named = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let id = session.and_then(|session| session.id.clone());
        let client = self.caller.reach.client();
        let url: Arc<str> = self.definition.url.as_str().into();
        client.post_message_with_response_limits(url, message, id, None, named, limits).await.map_err(fault)
    }

    /// Sends a request and gives its result: the one with the request's own id, whatever else comes before it.
    async fn request(
        &self,
        request: ClientRequest,
        session: Option<&Session>,
    ) -> Result<(Value, Option<String>), Fault> {
        let id = NumberOrString::Number(1);
        let message = JsonRpcMessage::Request(JsonRpcRequest::new(id.clone(), request));
        let mut events = match self.post(message, session).await? {
            StreamableHttpPostResponse::Json(message, session) => {
                let result = result_of(message, &id).unwrap_or_else(|| Err(odd("an answer to something else")));
                return Ok((result?, session));
            }
            StreamableHttpPostResponse::Sse(events, session) => (events, session),
            _ => return Err(odd("no answer to a request")),
        };
        while let Some(event) = events.0.next().await {
            let event = event.map_err(|error| fault(StreamableHttpError::Sse(error)))?;
            let data = event.data.unwrap_or_default();
            if data.trim().is_empty() {
                continue;
            }
            // Requests of the server and notes on progress may come first, also ones of a kind unknown here.
            let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(&data) else { continue };
            if let Some(result) = result_of(message, &id) {
                return Ok((result?, events.1));
            }
        }
        Err(Fault::Other(StepError::new(ErrorClass::Truncated, "the MCP server's stream ended without a result")))
    }

    async fn initialize(&self) -> Result<Session, StepError> {
        let client = Implementation::new("longhaul", env!("CARGO_PKG_VERSION"));
        let params = InitializeRequestParams::new(ClientCapabilities::default(), client);
        let request = ClientRequest::InitializeRequest(Request::new(params));
        let opened = self.request(request, None).await.map_err(no_session)?;
        let (result, id) = opened;
        let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let session = Session { id: id.map(Into::into), version };
        let told = ClientNotification::InitializedNotification(InitializedNotification::default());
        let message =
            JsonRpcMessage::Notification(JsonRpcNotification { jsonrpc: JsonRpcVersion2_0, notification: told });
        self.post(message, Some(&session)).await.map_err(no_session)?;
        Ok(session)
    }

    async fn list(&self, session: &Session) -> Result<Vec<Described>, Fault> {
        let (mut described, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(RequestOptionalParam::with_param(params));
            let (result, _) = self.request(request, Some(session)).await?;
            let tools = result.get("tools").cloned().unwrap_or_default();
            let page: Vec<Described> =
                serde_json::from_value(tools).map_err(|_| odd("a list of tools that cannot be read"))?;
            described.extend(page);
            cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok(described)
    }

    async fn call(&self, session: &Session, tool: &str, arguments: &Map<String, Value>) -> Result<Outcome, Fault> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
        let request = ClientRequest::CallToolRequest(Request::new(params));
        let (result, _) = self.request(request, Some(session)).await?;
        let blocks = result.get("content").and_then(Value::as_array);
        let mut texts: Vec<String> = blocks.into_iter().flatten().map(text_of_block).collect();
        if texts.is_empty()
            && let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null())
        {
            texts.push(structured.to_string());
        }
        let text = if texts.is_empty() { "[an empty answer]".to_owned() } else { texts.join("\n") };
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
        Ok(Outcome { text, is_error })
    }
}

/// A block of a result as text; what is no text is described.
fn text_of_block(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some("resource") => {
            let text = block.get("resource").and_then(|resource| resource.get("text")).and_then(Value::as_str);
            text.map_or_else(|| "[a resource that is no text]".to_owned(), str::to_owned)
        }
        Some("resource_link") => format!("[a link: {}]", field("uri").unwrap_or_default()),
        Some(kind) => format!("[{kind} that is no text, {}]", field("mimeType").unwrap_or("of an unknown kind")),
        None => String::new(),
    }
}

/// The result in a message, if it answers the request with this id.
fn result_of(message: ServerJsonRpcMessage, id: &NumberOrString) -> Option<Result<Value, Fault>> {
    match message {
        JsonRpcMessage::Response(response) if response.id == *id => {
            Some(serde_json::to_value(response.result).map_err(|_| odd("a result that cannot be read")))
        }
        JsonRpcMessage::Error(error) => Some(Err(Fault::Refused(error.error.message.to_string()))),
        JsonRpcMessage::Response(_) | JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn odd(what: &str) -> Fault {
    Fault::Other(StepError::new(ErrorClass::Schema, format!("the MCP server sent {what}")))
}

fn no_session(fault: Fault) -> StepError {
    match fault {
        // A request without a session cannot have lost it: the address is wrong, or something stands in between.
        Fault::Forgotten => StepError::new(ErrorClass::Invalid, "no MCP server answers at this address (404)"),
        Fault::Refused(refused) => {
            StepError::new(ErrorClass::Invalid, format!("the MCP server opens no session: {refused}"))
        }
        Fault::Other(error) => error,
    }
}

/// A failed exchange in the one taxonomy.
fn fault(failed: Failed) -> Fault {
    let (class, message) = match &failed {
        StreamableHttpError::SessionExpired => return Fault::Forgotten,
        StreamableHttpError::Client(_) => {
            let StreamableHttpError::Client(error) = failed else { return odd("nothing") };
            return Fault::Other(match error.status().and_then(class_of) {
                Some(class) => StepError::because(class, "the MCP server refused the request", &error.without_url()),
                None => super::reach::no_answer(error),
            });
        }
        StreamableHttpError::HttpStatus(status) => {
            let class = StatusCode::from_u16(status.status).ok().and_then(class_of);
            (class.unwrap_or(ErrorClass::Invalid), "the MCP server refused the request")
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            (ErrorClass::Auth, "the MCP server wants a key, or another one")
        }
        StreamableHttpError::Sse(_) | StreamableHttpError::Io(_) | StreamableHttpError::UnexpectedEndOfStream => {
            (ErrorClass::Truncated, "the MCP server's answer broke off")
        }
        StreamableHttpError::ResponseBodyTooLarge { .. } => {
            (ErrorClass::Invalid, "the MCP server's answer is larger than `size_max_bytes`")
        }
        _ => (ErrorClass::Invalid, "the MCP server sent what is no MCP"),
    };
    Fault::Other(StepError::because(class, message, &failed))
}
