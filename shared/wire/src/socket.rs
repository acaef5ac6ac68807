//! The messages of the WebSocket: what clients ask for and what they are sent.

use longhaul_engine::{JobId, StepKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::events::Event;
use crate::limits;
use crate::problem::{Problem, ProblemBody};
use crate::requests;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Send me the events of a job: first those behind `after`, then each new one.
    Subscribe {
        /// The job.
        #[schema(value_type = uuid::Uuid)]
        job: JobId,
        /// The last position that I have seen; 0 for all.
        after: u64,
        /// Events that are there at the same time, of this job and of others, may come in one message (`events`).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        together: bool,
    },
    /// Send me no more events of a job.
    Unsubscribe {
        /// The job.
        #[schema(value_type = uuid::Uuid)]
        job: JobId,
    },
    /// Keep the connection open: API Gateway closes one that was silent for 10 min.
    Ping,
}

/// A client's message before its fields are checked against its action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyMessage {
    action: String,
    job: Option<String>,
    after: Option<u64>,
    together: Option<bool>,
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Problem::BodyTooLarge`], [`Problem::InvalidJson`], [`Problem::InvalidField`]; [`Problem::NoSuchJob`] for an id
    /// that no job can have.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > limits::SOCKET_MESSAGE_BYTES_MAX {
            return Err(Problem::BodyTooLarge { bytes_max: limits::SOCKET_MESSAGE_BYTES_MAX });
        }
        let AnyMessage { action, job, after, together } = requests::parse(text.as_bytes())?;
        let job_of = |job: Option<String>| -> Result<JobId, Problem> {
            let text = job.ok_or_else(|| Problem::field("/job", "is needed: the id of a job"))?;
            text.parse().map_err(|_| Problem::NoSuchJob { job: text })
        };
        match action.as_str() {
            "subscribe" => Ok(Self::Subscribe {
                job: job_of(job)?,
                after: after.unwrap_or(0),
                together: together.unwrap_or(false),
            }),
            "unsubscribe" => Ok(Self::Unsubscribe { job: job_of(job)? }),
            "ping" => Ok(Self::Ping),
            _ => Err(Problem::field("/action", "must be `subscribe`, `unsubscribe` or `ping`")),
        }
    }
}

/// What a client is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// Something happened. An event may come twice; its `sequence` tells.
    Event {
        /// What.
        event: Box<Event>,
    },
    /// Several things happened, of one job or of several: for who asked for them `together`.
    Events {
        /// What. The events of each job are in order.
        events: Vec<Event>,
    },
    /// A piece of what a running step says, such as an answer that streams in. Shown while it lasts and stored nowhere:
    /// pieces may be lost, and the step's outcome has the whole. What came under a lower `epoch` or `attempt` of the
    /// same step is void, and so is what stands behind an `offset` that begins anew.
    Delta {
        /// The piece.
        delta: Box<DeltaBody>,
    },
    /// The subscription stands. Events behind `after` follow in order.
    Subscribed {
        /// The job.
        #[schema(value_type = uuid::Uuid)]
        job: JobId,
        /// The position behind which events are sent.
        after: u64,
    },
    /// The subscription has ended.
    Unsubscribed {
        /// The job.
        #[schema(value_type = uuid::Uuid)]
        job: JobId,
    },
    /// The answer to a ping.
    Pong,
    /// A message was not taken.
    Problem {
        /// The job that it was about, where it named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<uuid::Uuid>)]
        job: Option<JobId>,
        /// Why.
        problem: Box<ProblemBody>,
    },
}

/// A piece of what a running step says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeltaBody {
    /// The job.
    #[schema(value_type = uuid::Uuid)]
    pub job: JobId,
    /// The claim under which the step runs.
    pub epoch: u64,
    /// The step's key, the `subject` of its events.
    #[schema(value_type = String)]
    pub step: StepKey,
    /// The step's name.
    pub name: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Where in the attempt's text the piece stands, in characters.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

impl ServerMessage {
    /// The message of a delta.
    #[must_use]
    pub fn delta(delta: DeltaBody) -> Self {
        Self::Delta { delta: Box::new(delta) }
    }

    /// The message of an event.
    #[must_use]
    pub fn event(event: Event) -> Self {
        Self::Event { event: Box::new(event) }
    }

    /// The message of a problem.
    #[must_use]
    pub fn problem(job: Option<JobId>, problem: &Problem, request_id: Option<&str>) -> Self {
        Self::Problem { job, problem: Box::new(problem.body(None, request_id)) }
    }
}
