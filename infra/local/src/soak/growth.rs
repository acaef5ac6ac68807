//! Memory and disk of a stack, for the question whether either grows with time.

use std::path::{Path, PathBuf};

/// How large a stack is at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes in memory of the stack's process; 0 where nobody tells.
    pub memory: u64,
    /// Bytes of its data folder.
    pub disk: u64,
}

impl Size {
    /// The size of this process and of a folder.
    pub async fn now(data: PathBuf) -> Self {
        let disk = tokio::task::spawn_blocking(move || folder_bytes(&data)).await.unwrap_or_default();
        Self { memory: resident_bytes().unwrap_or_default(), disk }
    }
}

/// Bytes that this process has in memory (`VmRSS`); none where there is no `/proc`.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.saturating_mul(1_024))
}

/// Bytes of all files in a folder and below. Files that go away meanwhile count as nothing.
#[must_use]
pub fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
