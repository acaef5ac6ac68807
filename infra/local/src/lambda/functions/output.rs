//! What function processes print: line by line into a log file per function, and into our own trace.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// Longest line that is kept whole, in bytes; CloudWatch cuts at the same length.
const LINE_MAX_BYTES: usize = 256 * 1024;

/// Size at which a log file is set aside as `<name>.log.1`, in bytes. Two such files are kept, so a function that
/// prints for days does not fill the disk.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Lines that may wait for the disk. Beyond them a printing process waits, as it would at a full pipe.
const WAITING_LINES: usize = 1024;

/// The log of one function.
#[derive(Clone, Debug)]
pub(super) struct FunctionLog {
    lines: mpsc::Sender<String>,
}

impl FunctionLog {
    /// Opens `<folder>/<function>.log` for appending.
    pub(super) async fn open(folder: &Path, function: &str) -> io::Result<Self> {
        let mut file = LogFile::open(folder.join(format!("{function}.log"))).await?;
        let (lines, mut inbox) = mpsc::channel::<String>(WAITING_LINES);
        tokio::spawn(async move {
            let mut batch = Vec::new();
            while inbox.recv_many(&mut batch, WAITING_LINES).await > 0 {
                if let Err(error) = file.append(&batch).await {
                    tracing::warn!(%error, path = %file.path.display(), "lines of a function were not logged");
                }
                batch.clear();
            }
        });
        Ok(Self { lines })
    }

    /// Writes one line of the platform itself, such as Lambda's START and REPORT.
    pub(super) async fn line(&self, line: String) {
        // The writer ends only when the runtime does.
        let _ended = self.lines.send(line).await;
    }

    /// Forwards everything that a process prints on one of its streams until it is closed.
    pub(super) async fn forward(self, function: String, pid: u32, stream: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stream);
        let mut raw = Vec::new();
        loop {
            raw.clear();
            let limit = u64::try_from(LINE_MAX_BYTES).unwrap_or(u64::MAX);
            match (&mut reader).take(limit).read_until(b'\n', &mut raw).await {
                Ok(0) => return,
                Ok(_) => {
                    let line = String::from_utf8_lossy(&raw).trim_end_matches(['\n', '\r']).to_owned();
                    tracing::info!(target: "longhaul::function", function, pid, "{line}");
                    self.line(line).await;
                }
                Err(error) => {
                    tracing::debug!(function, pid, %error, "the output of a function process broke off");
                    return;
                }
            }
        }
    }
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    async fn open(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path).await?;
        let bytes = file.metadata().await?.len();
        Ok(Self { path, file, bytes })
    }

    async fn append(&mut self, lines: &[String]) -> io::Result<()> {
        if self.bytes >= FILE_MAX_BYTES {
            tokio::fs::rename(&self.path, self.path.with_extension("log.1")).await?;
            *self = Self::open(self.path.clone()).await?;
        }
        let mut text = lines.join("\n");
        text.push('\n');
        self.file.write_all(text.as_bytes()).await?;
        self.file.flush().await?;
        self.bytes = self.bytes.saturating_add(u64::try_from(text.len()).unwrap_or(0));
        Ok(())
    }
}
