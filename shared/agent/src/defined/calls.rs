//! The tool calls of one answer: which are carried out, and how.
//!
//! What the model cannot have meant, may not have or has had too often is answered and never executed. The others run in
//! branches side by side, each call a step of its own under its own key, so that one that fails or waits for a person
//! takes nothing from the others; their results go back together, in the order of the calls.

use longhaul::{Ctx, EffectKey, Error, ErrorClass, Failure, StepError};
use longhaul_definition::{Effect, OnInterrupted, Tool};
use longhaul_llm::{Arguments, ToolCall};
use serde_json::{Map, Value, json};

use super::approval::{Word, approve, ask};
use super::grants::{Behind, Grant};
use super::outputs::{Handle, READ_MORE};
use super::repeats::Verdict;
use super::{Defined, Running};
use crate::tools::http::{self, Caller};
use crate::tools::lambda;
use crate::tools::outcome::Outcome;
use longhaul::engine::AgentRef;

/// Calls of one answer that are carried out: a model that asks for more at once has lost its way.
const CALLS_MAX: usize = 32;

/// A call that is carried out.
pub(super) struct Due<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) handle: Handle,
    pub(super) grant: &'a Grant<'a>,
}

/// What becomes of a call.
enum Plan<'a> {
    /// It is answered without being carried out.
    Answer(Outcome),
    /// It shows a part of an earlier result.
    Shown(Handle, String),
    /// It runs.
    Run(Due<'a>),
}

/// A result with where the whole of it is kept.
pub(super) struct Result {
    pub(super) outcome: Outcome,
    /// The earlier result that this is a part of; none for a result of its own.
    pub(super) part_of: Option<Handle>,
}

impl Running<'_> {
    /// Carries out the calls of an answer.
    pub(super) async fn carry_out(&mut self, ctx: &mut Ctx, calls: &[ToolCall]) -> longhaul::Result<Vec<Result>> {
        self.repeats.next_turn();
        let repeats_max = self.agent.definition.limits.repeats_max;
        let mut repeated = Vec::new();
        for call in calls {
            let verdict = self.repeats.count(call, repeats_max);
            if verdict == Verdict::End {
                let shown = json!({ "limit": "repeats_max", "of": repeats_max, "tool": call.name });
                ctx.emit("limit reached", shown).await?;
                let message = format!(
                    "the model called {} with the same arguments again and again, also after it was told",
                    call.name
                );
                return Err(Error::Terminal(Failure::new(ErrorClass::LoopDetected, message)));
            }
            repeated.push(verdict == Verdict::Refuse);
        }
        let plans = calls.iter().zip(repeated).enumerate();
        let plans = plans.map(|(index, (call, repeated))| self.plan(index, call, repeated, calls.len()));
        let (mut results, mut due) = (Vec::new(), Vec::new());
        for plan in plans {
            results.push(match plan {
                Plan::Answer(outcome) => Some(Result { outcome, part_of: None }),
                Plan::Shown(handle, piece) => Some(Result { outcome: Outcome::good(piece), part_of: Some(handle) }),
                Plan::Run(call) => {
                    due.push(call);
                    None
                }
            });
        }
        if due.is_empty() {
            return Ok(results.into_iter().flatten().collect());
        }
        let agent = self.agent;
        let ran = ctx.fan_out("tools", &due, async |ctx, due| execute(ctx, agent, due).await).await?;
        let mut ran = ran.into_iter();
        let own = |outcome| Result { outcome, part_of: None };
        Ok(results.into_iter().filter_map(|result| result.or_else(|| ran.next().map(own))).collect())
    }

    fn plan<'p>(&'p self, index: usize, call: &'p ToolCall, repeated: bool, calls: usize) -> Plan<'p> {
        let bad = |text: String| Plan::Answer(Outcome::bad(text));
        if repeated {
            return bad(format!(
                "This very call was made {} times in a row and was not made again. Its result will not change: do \
                 something else, or give your answer.",
                self.agent.definition.limits.repeats_max
            ));
        }
        if index >= CALLS_MAX {
            return bad(format!("not made: {calls} calls at once are too many; make at most {CALLS_MAX}"));
        }
        let arguments = match &call.arguments {
            Arguments::Object { object } => object,
            Arguments::Malformed { reason, .. } => {
                return bad(format!("not made: the arguments are no JSON object: {reason}"));
            }
        };
        let bytes_max = self.result_bytes(calls);
        if call.name == READ_MORE && !self.conversation.outputs.is_empty() {
            return match self.conversation.outputs.read_more(arguments, bytes_max) {
                Ok((handle, piece)) => Plan::Shown(handle, piece),
                Err(told) => bad(told),
            };
        }
        let Some(grant) = self.grants.get(&call.name) else {
            return bad(format!("there is no tool of that name here; the tools are: {}", self.grants.names()));
        };
        if let Err(wrong) = grant.check(arguments) {
            return bad(format!("not made: the arguments do not fit: {wrong}"));
        }
        Plan::Run(Due { call, arguments, handle: Handle { turn: self.turns, call: index }, grant })
    }
}

/// One call in its branch: approval where it needs one, then the call, then what became of it.
async fn execute(ctx: &mut Ctx, agent: &Defined, due: &Due<'_>) -> longhaul::Result<Outcome> {
    if !due.grant.needs_approval {
        return call(ctx, agent, due).await;
    }
    match approve(ctx, due, agent.definition.approval_wait_seconds).await? {
        Word::Approved(None) => call(ctx, agent, due).await,
        Word::Approved(Some(arguments)) => {
            let changed = Value::Object(arguments.clone());
            let shown = json!({ "tool": due.call.name, "proposed": due.arguments, "arguments": changed });
            ctx.emit("approved with changes", shown).await?;
            let made = Due { call: due.call, arguments: &arguments, handle: due.handle, grant: due.grant };
            let Outcome { text, is_error } = call(ctx, agent, &made).await?;
            // The model must not take the result for that of what it had proposed.
            let text = format!("[a person approved this call with other arguments: {changed}]\n{text}");
            Ok(Outcome { text, is_error })
        }
        Word::Not(told) => Ok(Outcome::bad(told)),
    }
}

/// A call that may be made.
async fn call(ctx: &mut Ctx, agent: &Defined, due: &Due<'_>) -> longhaul::Result<Outcome> {
    match run(ctx, agent, due).await {
        Ok(outcome) => Ok(outcome),
        Err(Error::Step(failure)) if failure.class == ErrorClass::Interrupted => {
            interrupted(ctx, agent, due, failure).await
        }
        Err(Error::Step(failure)) => Ok(Outcome::bad(told_of(&failure))),
        Err(error @ (Error::TimedOut { .. } | Error::ChildCancelled { .. })) => Ok(Outcome::bad(error.to_string())),
        Err(error @ Error::Terminal(_)) => Err(error),
    }
}

/// A failure in words for the model.
fn told_of(failure: &Failure) -> String {
    let partial = failure.partial.as_ref().map(|partial| format!(" It had come to: {partial}")).unwrap_or_default();
    format!("failed ({}): {}{partial}", failure.class.as_str(), failure.message)
}

/// A call that a crash cut off and that is never made twice.
async fn interrupted(ctx: &mut Ctx, agent: &Defined, due: &Due<'_>, failure: Failure) -> longhaul::Result<Outcome> {
    let unknown = format!(
        "outcome_unknown: a crash cut this call of {} off, and nobody knows whether it took effect. It was not repeated.",
        due.call.name
    );
    match agent.definition.on_interrupted {
        OnInterrupted::Fail => Err(Error::Step(failure)),
        OnInterrupted::TellModel => Ok(Outcome::bad(format!("{unknown} Find out before you try again."))),
        OnInterrupted::AskPerson => {
            let question = format!("{unknown} Its arguments: {}", Value::Object(due.arguments.clone()));
            let wait = agent.definition.approval_wait_seconds;
            Ok(match ask(ctx, "interrupted", due, &question, wait).await? {
                Some(words) => Outcome::bad(format!("{unknown} A person looked into it and says: {words}")),
                None => Outcome::bad(unknown),
            })
        }
    }
}

async fn run(ctx: &mut Ctx, agent: &Defined, due: &Due<'_>) -> longhaul::Result<Outcome> {
    let tenant = ctx.tenant().clone();
    let equipment = &agent.equipment;
    let traceparent = ctx.traceparent();
    let (reach, secrets) = (&equipment.reach, &*equipment.secrets);
    let caller = Caller { reach, secrets, tenant: &tenant, traceparent: &traceparent };
    let arguments = due.arguments;
    match due.grant.behind {
        Behind::OfServer { server, tool } => {
            let body = async |key: Option<String>| {
                equipment.sessions.call(&caller, server, tool, arguments, key.as_deref()).await
            };
            step(ctx, agent, due, body).await
        }
        Behind::Tool(Tool::Http(tool)) => {
            let body = async |key: Option<String>| http::call(&caller, tool, arguments, key.as_deref()).await;
            step(ctx, agent, due, body).await
        }
        Behind::Tool(Tool::Lambda(tool)) => {
            let functions = &*equipment.functions;
            let body = async |key: Option<String>| {
                lambda::call(functions, &tenant, &traceparent, tool, arguments, key.as_deref()).await
            };
            step(ctx, agent, due, body).await
        }
        Behind::Tool(Tool::Documents(tool)) => {
            let body = async |_: Option<String>| equipment.library.read(tool.folder.as_deref(), arguments).await;
            step(ctx, agent, due, body).await
        }
        Behind::Tool(Tool::Search(tool)) => {
            let body = async |_: Option<String>| equipment.library.search(tool.folder.as_deref(), arguments).await;
            step(ctx, agent, due, body).await
        }
        Behind::Tool(Tool::AskPerson(tool)) => {
            let question = arguments.get("question").and_then(Value::as_str).unwrap_or_default();
            Ok(match ask(ctx, "answer", due, question, tool.wait_seconds).await? {
                Some(words) => Outcome::good(words),
                None => Outcome::bad("nobody has answered in time"),
            })
        }
        Behind::Tool(Tool::RunAgent(tool)) => {
            let name = tool.agent.parse().map_err(|error| Error::terminal(format!("no agent can be run: {error}")))?;
            let agent = AgentRef { name, version: tool.version };
            let budget = super::engine_budget(tool.budget);
            let result: Value =
                ctx.child(&due.call.name, agent, Value::Object(arguments.clone())).budget(budget).await?;
            Ok(Outcome::good(match result {
                Value::String(text) => text,
                other => other.to_string(),
            }))
        }
        // An MCP server is known by its tools alone.
        Behind::Tool(Tool::Mcp(_)) => Ok(Outcome::bad("there is no tool of that name here")),
    }
}

/// A call as a step of the kind that its declared effect asks for.
async fn step(
    ctx: &mut Ctx,
    agent: &Defined,
    due: &Due<'_>,
    body: impl AsyncFn(Option<String>) -> std::result::Result<Outcome, StepError>,
) -> longhaul::Result<Outcome> {
    let (name, limit) = (due.call.name.as_str(), due.grant.behind.time_limit() + super::CALL_MARGIN);
    let keyed = async |key: EffectKey| body(Some(key.to_string())).await;
    match due.grant.behind.effect() {
        Effect::Idempotent => ctx.step(name, async || body(None).await).retry(agent.retry()).time_limit(limit).await,
        Effect::Keyed => ctx.effect(name, keyed).retry(agent.retry()).time_limit(limit).await,
        Effect::AtMostOnce => ctx.effect(name, keyed).at_most_once().time_limit(limit).await,
    }
}
