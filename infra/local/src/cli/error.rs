//! What a command can fail with, said so that a person knows what to do next.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use longhaul_wire::problem::ProblemBody;

use super::output::say;
use crate::stack::{IssuerError, StackError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The program's own threads.
    #[error("the program's threads cannot be started")]
    Runtime(#[source] io::Error),
    /// No data folder.
    #[error("there is no user data directory on this machine; name a data folder with --data or LONGHAUL_DATA")]
    NoDataFolder,
    /// No configuration folder.
    #[error("there is no user configuration directory on this machine; name a folder with LONGHAUL_CONFIG")]
    NoConfigFolder,
    /// What `longhaul login` keeps.
    #[error("the tokens in {path} cannot be read or written")]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no token for a deployment.
    #[error("there is no token for {url}")]
    NotLoggedIn {
        /// The deployment.
        url: String,
    },
    /// No token can be had from the identity provider.
    #[error("no token for {url}: {what}")]
    Login {
        /// The deployment.
        url: String,
        /// Why not.
        what: String,
    },
    /// The stack.
    #[error("the embedded stack does not start")]
    Stack(#[source] Box<StackError>),
    /// A token.
    #[error("no token can be made")]
    Token(#[from] IssuerError),
    /// An argument.
    #[error("{argument}: {what}")]
    Argument {
        /// Which.
        argument: &'static str,
        /// What is wrong with it and what is right.
        what: String,
    },
    /// A file that an argument names.
    #[error("{argument}: the file {path} cannot be read")]
    File {
        /// Which argument.
        argument: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The API cannot be reached.
    #[error("{method} {url} failed")]
    Unreachable {
        /// The method.
        method: &'static str,
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The API refused.
    #[error("{method} {url} was refused: {} ({})", .problem.title, .problem.status)]
    Refused {
        /// The method.
        method: &'static str,
        /// The address.
        url: String,
        /// Why.
        problem: Box<ProblemBody>,
    },
    /// The API answered something else than it should.
    #[error("{method} {url} answered {status} with what is no answer of Longhaul's")]
    Strange {
        /// The method.
        method: &'static str,
        /// The address.
        url: String,
        /// The status.
        status: u16,
    },
    /// The live connection.
    #[error("the live connection to {url} was lost and does not come back")]
    Live {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
    /// A function.
    #[error("the function {name} ended")]
    Function {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A bench.
    #[error("the measurement came to no end")]
    Bench(#[from] crate::bench::BenchError),
    /// A soak.
    #[error("the soak came to no verdict")]
    Soak(#[from] crate::soak::run::SoakError),
    /// A file that is no job.
    #[error("nothing was imported")]
    Export(#[from] longhaul_wire::export::ExportError),
    /// A job that cannot be brought in here.
    #[error("job {job} was not imported: {what}")]
    Import {
        /// The job.
        job: longhaul_engine::JobId,
        /// Why, and what to do.
        what: String,
    },
    /// A stack whose stores this command cannot get at.
    #[error("the stack on this data folder does not say how its stores are reached; end it and start it anew")]
    NoAccess,
    /// The stores.
    #[error(transparent)]
    Store(#[from] longhaul::store::StoreError),
    /// Output.
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
    /// Our own data as JSON.
    #[error("the output cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The commands that show what there is of the kind that was not found.
fn who_shows(problem: &str) -> &'static str {
    match problem.rsplit(':').next().unwrap_or_default() {
        "no-such-job" => "`longhaul jobs ls` shows",
        "no-such-agent" => "`longhaul agents ls` shows",
        "no-such-schedule" => "`longhaul schedules ls` shows",
        "no-such-delivery" => "`longhaul jobs deliveries ID` shows",
        "no-such-erasure" => "`longhaul tenant erasures` shows",
        _ => "`longhaul jobs ls` and `longhaul agents ls` show",
    }
}

impl From<StackError> for CliError {
    fn from(error: StackError) -> Self {
        Self::Stack(Box::new(error))
    }
}

impl CliError {
    /// Prints the error with all its causes, and what the API said of it.
    pub(super) fn print(&self) {
        say(&format!("error: {self}"));
        let mut cause = self.source();
        while let Some(error) = cause {
            say(&format!("  because: {error}"));
            cause = error.source();
        }
        if let Self::Refused { problem, .. } = self {
            say(&format!("  {}", problem.detail));
            if let Some(field) = &problem.field {
                say(&format!("  field: {field}"));
            }
            if let Some(request_id) = &problem.request_id {
                say(&format!("  request: {request_id}"));
            }
        }
        if let Some(next) = self.next() {
            say(&format!("  next: {next}"));
        }
    }

    /// What a person can do about it, where that is known.
    fn next(&self) -> Option<String> {
        match self {
            Self::NotLoggedIn { url } => {
                Some(format!("longhaul login --url {url} --client-id ID, or set LONGHAUL_TOKEN"))
            }
            Self::Login { url, .. } => Some(format!("longhaul login --url {url} --client-id ID")),
            Self::Unreachable { .. } => Some(
                "is it up, and is the address right? `longhaul up` starts a stack; --url names a deployment".to_owned(),
            ),
            Self::Strange { .. } => {
                Some("is the address that of a Longhaul deployment, its stage included?".to_owned())
            }
            Self::Refused { problem, .. } => match problem.status {
                401 => Some(
                    "the token is not good any more: `longhaul login --url URL`, or another LONGHAUL_TOKEN".to_owned(),
                ),
                403 => Some("ask for a token with the scope that is named above".to_owned()),
                404 => Some(format!("{} what there is for this tenant", who_shows(&problem.kind))),
                _ => None,
            },
            Self::Live { .. } => Some("the job goes on; `longhaul jobs show ID` tells how it stands".to_owned()),
            Self::Runtime(_)
            | Self::NoDataFolder
            | Self::NoConfigFolder
            | Self::Credentials { .. }
            | Self::Stack(_)
            | Self::Token(_)
            | Self::Argument { .. }
            | Self::File { .. }
            | Self::Function { .. }
            | Self::Export(_)
            | Self::Import { .. }
            | Self::NoAccess
            | Self::Store(_)
            | Self::Soak(_)
            | Self::Bench(_)
            | Self::Output(_)
            | Self::Json(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_looked_for_where_its_kind_is() {
        for (kind, command) in [
            ("no-such-job", "longhaul jobs ls"),
            ("no-such-agent", "longhaul agents ls"),
            ("no-such-schedule", "longhaul schedules ls"),
            ("no-such-delivery", "longhaul jobs deliveries ID"),
            ("no-such-erasure", "longhaul tenant erasures"),
            ("no-such-thing", "longhaul jobs ls"),
        ] {
            let problem = ProblemBody {
                kind: format!("urn:longhaul:problem:{kind}"),
                title: String::new(),
                status: 404,
                detail: String::new(),
                instance: None,
                request_id: None,
                field: None,
                extras: serde_json::Map::new(),
            };
            let error = CliError::Refused { method: "GET", url: String::new(), problem: Box::new(problem) };
            let next = error.next().unwrap_or_default();
            assert!(next.starts_with(&format!("`{command}` ")), "{kind}: {next}");
        }
    }
}
