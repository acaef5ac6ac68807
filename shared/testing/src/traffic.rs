//! Traffic with real servers: recorded into a file without its secrets, replayed from it.
//!
//! It is recorded and replayed where requests are sent, below everything that makes and reads them, so that a replay
//! tests that, too. The file is JSON for people: one exchange after the other, in the order of the requests.

mod closed;
mod difference;
mod exchange;
mod player;
mod recorder;
mod redaction;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_llm::Carrier;

pub(crate) use closed::Closed;
use exchange::Recording;
use player::Player;
use recorder::Recorder;

/// The variable that says: record. Without it a recording is replayed.
const RECORD_VARIABLE: &str = "LONGHAUL_RECORD";

/// Why traffic cannot be recorded or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The file cannot be read or written.
    #[error("the recording {path} cannot be read or written; with {RECORD_VARIABLE}=1 it is made from real servers")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is no recording.
    #[error("the file {path} is no recording")]
    Form {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The agent asked for what the recording does not have.
    #[error("the recording does not fit:\n{0}")]
    Differs(String),
}

/// Traffic of one trial.
#[derive(Debug)]
pub struct Traffic {
    path: PathBuf,
    side: Side,
}

#[derive(Debug)]
enum Side {
    Recorded(Arc<Recorder>),
    Replayed(Arc<Player>),
}

impl Traffic {
    /// Replays the recording at `path`; with `LONGHAUL_RECORD=1` in the environment, talks to the real servers and makes it.
    ///
    /// # Errors
    /// When there is no recording to replay.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, TrafficError> {
        match std::env::var(RECORD_VARIABLE) {
            Ok(word) if !word.is_empty() && word != "0" => Ok(Self::recorded(path)),
            Ok(_) | Err(_) => Self::replayed(path),
        }
    }

    /// Talks to the real servers and, at the trial's end, writes the recording to `path`.
    #[must_use]
    pub fn recorded(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), side: Side::Recorded(Arc::new(Recorder::default())) }
    }

    /// Replays the recording at `path`.
    ///
    /// # Errors
    /// When there is none.
    pub fn replayed(path: impl AsRef<Path>) -> Result<Self, TrafficError> {
        let path = path.as_ref().to_owned();
        let text =
            std::fs::read_to_string(&path).map_err(|source| TrafficError::File { path: path.clone(), source })?;
        let recording: Recording =
            serde_json::from_str(&text).map_err(|source| TrafficError::Form { path: path.clone(), source })?;
        Ok(Self { path, side: Side::Replayed(Arc::new(Player::new(recording))) })
    }

    /// Keeps a further text out of the recording, wherever it stands: what no name and no form gives away as a secret.
    #[must_use]
    pub fn without(self, secret: &str) -> Self {
        match &self.side {
            Side::Recorded(recorder) => recorder.hide(secret),
            Side::Replayed(player) => player.hide(secret),
        }
        self
    }

    /// What carries the requests: for an endpoint or a way to servers that the trial does not make itself.
    #[must_use]
    pub fn carrier(&self) -> Arc<dyn Carrier> {
        match &self.side {
            Side::Recorded(recorder) => Arc::<Recorder>::clone(recorder),
            Side::Replayed(player) => Arc::<Player>::clone(player),
        }
    }

    /// Whether real servers are talked to, which takes real time.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.side, Side::Recorded(_))
    }

    /// Writes the recording, or says what the agent asked for that it does not have.
    pub(crate) fn finish(&self) -> Result<(), TrafficError> {
        match &self.side {
            Side::Recorded(recorder) => {
                let failed = |source| TrafficError::File { path: self.path.clone(), source };
                let text = serde_json::to_string_pretty(&recorder.recording())
                    .map_err(|source| TrafficError::Form { path: self.path.clone(), source })?;
                if let Some(folder) = self.path.parent() {
                    std::fs::create_dir_all(folder).map_err(failed)?;
                }
                std::fs::write(&self.path, text + "\n").map_err(failed)
            }
            Side::Replayed(player) => match player.misses() {
                misses if misses.is_empty() => Ok(()),
                misses => Err(TrafficError::Differs(misses.join("\n"))),
            },
        }
    }
}
