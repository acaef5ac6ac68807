//! Who uses a session: it is closed at its server with the last job here that may use it.

use std::time::Duration;

use longhaul::StepError;
use longhaul::engine::TenantId;
use longhaul_definition::{McpTool, Tool};
use reqwest::StatusCode;
use reqwest::header::HeaderValue;

use super::super::http::Caller;
use super::super::reach;
use super::{Server, Session, Sessions, Whose, whose};

/// Time for telling a server that a session is over.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// A job's use of its servers' sessions, from the beginning of its run here to its end.
pub(crate) struct Visit {
    sessions: Sessions,
    servers: Vec<Whose>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut users = self.sessions.users.borrow_mut();
        for whose in &self.servers {
            if let Some(count) = users.get_mut(whose) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    users.remove(whose);
                }
            }
        }
    }
}

impl Visit {
    /// The job has its result or its failure: tells the servers whose sessions no other job here uses that theirs are
    /// over (`DELETE`, which a server may refuse). One that is not told forgets by itself.
    pub(crate) async fn end(self, caller: &Caller<'_>, tools: &[Tool]) {
        for definition in tools.iter().filter_map(of_server) {
            let whose = whose(caller.tenant, definition);
            let only_mine = self.sessions.users.borrow().get(&whose).is_none_or(|count| *count <= 1);
            let closed = if only_mine { self.sessions.open.borrow_mut().remove(&whose) } else { None };
            let Some(Session { id: Some(id), version }) = closed else { continue };
            let told = tokio::time::timeout(CLOSE_TIME, async {
                let server = Server::new(caller, definition, None).await?;
                server.close(&id, &version).await
            });
            match told.await {
                Ok(Ok(status)) => tracing::debug!(server = %definition.name, %status, "the MCP session is closed"),
                Ok(Err(error)) => tracing::info!(server = %definition.name, %error, "the MCP session was not closed"),
                Err(_) => tracing::info!(server = %definition.name, "the MCP session was not closed in time"),
            }
        }
    }
}

impl Sessions {
    /// A job begins that may use the sessions of these tools.
    pub(crate) fn visit(&self, tenant: &TenantId, tools: &[Tool]) -> Visit {
        let servers: Vec<Whose> = tools.iter().filter_map(of_server).map(|server| whose(tenant, server)).collect();
        let mut users = self.users.borrow_mut();
        for whose in &servers {
            let count = users.entry(whose.clone()).or_default();
            *count = count.saturating_add(1);
        }
        drop(users);
        Visit { sessions: self.clone(), servers }
    }
}

impl Server<'_> {
    /// Ends a session.
    async fn close(&self, id: &str, version: &str) -> Result<StatusCode, StepError> {
        let mut headers = self.headers.clone();
        for (name, text) in [("mcp-session-id", id), ("mcp-protocol-version", version)] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
        let request = self.caller.reach.client().delete(self.definition.url.as_str()).headers(headers);
        Ok(request.send().await.map_err(reach::no_answer)?.status())
    }
}

fn of_server(tool: &Tool) -> Option<&McpTool> {
    match tool {
        Tool::Mcp(server) => Some(server),
        Tool::Http(_)
        | Tool::Lambda(_)
        | Tool::AskPerson(_)
        | Tool::RunAgent(_)
        | Tool::Documents(_)
        | Tool::Search(_) => None,
    }
}
