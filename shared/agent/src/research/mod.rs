//! `research`: from a topic to a report of about three pages whose every statement can be looked up.
//!
//! Plan, search, read in parallel, write, check. The model never has the last word: a quote that does not stand in its
//! file is dropped before the report is written, and the report's own quotes and citations are held against the files
//! once more before anybody sees them. Everything that comes from disk is read inside steps, so a replay sees what the
//! first run saw.

mod citations;
mod finding;
mod reading;
mod writing;

use longhaul::{Ctx, ErrorClass, Failure};
use serde::{Deserialize, Serialize};

use crate::Tools;
use crate::model::{Answer, Form, Question};
use crate::prompt::{Slot, fill};

use finding::Found;

/// Sources that are read at most: about as many as a report of three pages can do justice to.
pub const SOURCES_MAX: u32 = 10;

/// Characters of a topic, as in the agent's card.
const TOPIC_CHARS: std::ops::RangeInclusive<usize> = 3..=500;

const SYSTEM: &str = include_str!("prompts/system.txt");

const PLAN: Form =
    Form { name: "research_plan", schema: include_str!("schemas/research_plan.json"), answer_tokens: 1_000 };

/// What `research` is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What the report is about.
    pub topic: String,
    /// The folder of documents to read; without it the corpus of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// How many sources are read at most, from 1 to [`SOURCES_MAX`].
    #[serde(default = "sources_max")]
    pub sources_max: u32,
}

const fn sources_max() -> u32 {
    SOURCES_MAX
}

impl Input {
    /// The card's limits, for jobs that did not come through the api.
    fn check(&self) -> longhaul::Result<()> {
        let invalid = |message: String| Err(longhaul::Error::Terminal(Failure::new(ErrorClass::Invalid, message)));
        let topic = self.topic.trim().chars().count();
        if !TOPIC_CHARS.contains(&topic) {
            return invalid(format!("the topic has {topic} characters; it must have 3 to 500"));
        }
        if !(1..=SOURCES_MAX).contains(&self.sources_max) {
            return invalid(format!("sources_max is {}; it must be 1 to {SOURCES_MAX}", self.sources_max));
        }
        Ok(())
    }
}

/// What `research` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The report in Markdown, with its list of sources.
    pub report: String,
    /// What it cites, in the order of the numbers.
    pub sources: Vec<Source>,
    /// What was read and is not cited, and why.
    pub not_cited: Vec<Omitted>,
    /// What could not be read, and why.
    pub skipped: Vec<Omitted>,
    /// The model that wrote it, in its server's words.
    pub model: String,
    /// Whether that was the stand-in: no language model was used.
    pub stand_in: bool,
    /// Quotes and citations of the model that did not hold and were taken out.
    pub dropped: u64,
}

/// A source that the report cites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its number in the report.
    pub number: u64,
    /// Its path within the corpus folder.
    pub file: String,
    /// What a reader would call it.
    pub title: String,
    /// Passages that stand in it word for word.
    pub quotes: Vec<Quote>,
    /// The pages of those passages; `[1]` for a file without pages.
    pub pages: Vec<u32>,
}

/// Words that stand in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// The page they stand on, from 1.
    pub page: u32,
    /// The words.
    pub text: String,
}

/// A file that the report does not rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Its path within the corpus folder.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// The plan: what to search for and how to arrange what is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    queries: Vec<String>,
    outline: Vec<String>,
}

/// The agent.
///
/// # Errors
/// A corpus that gives nothing to read, a model that gives no usable answer; see the steps.
pub(crate) async fn research(ctx: &mut Ctx, tools: &Tools, input: Input) -> longhaul::Result<Output> {
    input.check()?;
    let Answer { value: plan, model, usage: _ } = plan(ctx, tools, &input.topic).await?;
    ctx.emit("plan", &plan).await?;
    let found = finding::find(ctx, tools, &input, &plan).await?;
    ctx.emit("sources", found.shown()).await?;
    let readings = ctx
        .fan_out("read", &found.sources, async |ctx, source| {
            reading::read(ctx, tools, &input.topic, &plan, &found.folder, source).await
        })
        .await?;
    let notes = reading::sort(&found.sources, readings);
    let draft = match notes.relevant.as_slice() {
        // Nothing to write from: a model would only invent.
        [] => None,
        relevant => Some(writing::write(ctx, tools, &input.topic, &plan, relevant).await?),
    };
    writing::check(ctx, tools, &input.topic, &found, notes, draft, model).await
}

async fn plan(ctx: &mut Ctx, tools: &Tools, topic: &str) -> longhaul::Result<Answer<Plan>> {
    let user = fill(include_str!("prompts/research_plan.txt"), &[("topic", Slot::Material(topic))]);
    tools.model.ask(ctx, "plan", &Question { form: PLAN, system: SYSTEM, user }).await
}

impl Found {
    /// What people who watch are shown: how much there is to read.
    fn shown(&self) -> serde_json::Value {
        let files: Vec<&str> = self.sources.iter().map(|source| source.file.as_str()).collect();
        serde_json::json!({ "total": files.len(), "documents": self.documents, "files": files, "skipped": self.skipped.len() })
    }
}
