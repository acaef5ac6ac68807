//! How far each reader of the stream has come: one small file a reader, replaced whole at each step.
//!
//! A reader whose file is missing or torn (power lost between two steps) begins at the oldest record again;
//! stream consumers are at-least-once anyway.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DynamoDbError;

/// What the engine adds to its own numbers to make sequence numbers of 21 digits, as AWS has them.
const SEQUENCE_OFFSET: u128 = 100_000_000_000_000_000_000;

const PREFIX: &str = "stream-";
const SUFFIX: &str = ".position";

/// The positions of all readers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Positions {
    folder: Arc<Path>,
    readers: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Positions {
    /// Reads the positions that stand in a folder.
    pub(super) fn load(folder: &Path) -> Result<Self, DynamoDbError> {
        let failed = |source| DynamoDbError::Position { path: folder.to_path_buf(), source };
        let mut readers = BTreeMap::new();
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let file = file.map_err(failed)?;
            let name = file.file_name();
            let reader = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
            if let Some(reader) = reader {
                let text = std::fs::read_to_string(file.path()).map_err(failed)?;
                readers.insert(reader.to_owned(), text.trim().parse().unwrap_or_default());
            }
        }
        Ok(Self { folder: Arc::from(folder), readers: Arc::new(Mutex::new(readers)) })
    }

    /// Where a reader stands. A new one stands before the first record, and is remembered at once, so that
    /// nothing is trimmed that it has not read, not even after a crash.
    pub(super) fn of(&self, reader: &str) -> Result<u64, DynamoDbError> {
        let known = self.readers().get(reader).copied();
        match known {
            Some(position) => Ok(position),
            None => self.advance(reader, 0).map(|()| 0),
        }
    }

    /// Up to where every reader is; nothing while there is no reader.
    pub(super) fn lowest(&self) -> u64 {
        self.readers().values().copied().min().unwrap_or_default()
    }

    /// Records that a reader is done with everything up to a position.
    pub(super) fn advance(&self, reader: &str, position: u64) -> Result<(), DynamoDbError> {
        let path = self.file_of(reader);
        let beside = path.with_extension("next");
        let write = || -> std::io::Result<()> {
            std::fs::write(&beside, position.to_string())?;
            std::fs::rename(&beside, &path)
        };
        write().map_err(|source| DynamoDbError::Position { path: path.clone(), source })?;
        self.readers().insert(reader.to_owned(), position);
        Ok(())
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file_of(&self, reader: &str) -> PathBuf {
        self.folder.join(format!("{PREFIX}{reader}{SUFFIX}"))
    }
}

/// The engine's own number of a sequence number of its stream.
pub(super) fn position_of(sequence_number: &str) -> Option<u64> {
    let public: u128 = sequence_number.parse().ok()?;
    u64::try_from(public.checked_sub(SEQUENCE_OFFSET)?).ok()
}

/// The sequence number of an engine's own number.
pub(super) fn sequence_number_of(position: u64) -> String {
    (SEQUENCE_OFFSET + u128::from(position)).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

    use super::*;

    /// One family: what stands in a reader's file, and where the reader stands after a restart.
    fn check(content: &str, position: u64) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stream-r.position"), content).unwrap();
        let positions = Positions::load(folder.path()).unwrap();
        assert_eq!(positions.of("r").unwrap(), position, "{content:?}");
        assert_eq!(positions.lowest(), position, "{content:?}");
    }

    #[test]
    fn positions_are_read_and_torn_ones_begin_anew() {
        check("1790000000000000", 1_790_000_000_000_000);
        check("", 0);
        check("17900\0\0", 0);
    }

    #[test]
    fn the_slowest_reader_counts_also_before_it_has_read() {
        let folder = tempfile::tempdir().unwrap();
        let positions = Positions::load(folder.path()).unwrap();
        assert_eq!(positions.lowest(), 0);
        positions.advance("fast", 9).unwrap();
        assert_eq!(positions.lowest(), 9);
        assert_eq!(positions.of("new").unwrap(), 0);
        let again = Positions::load(folder.path()).unwrap();
        assert_eq!((again.lowest(), again.of("fast").unwrap()), (0, 9));
    }

    #[test]
    fn sequence_numbers_go_there_and_back() {
        for position in [1, 1_790_000_000_000_000, u64::MAX] {
            assert_eq!(position_of(&sequence_number_of(position)), Some(position));
        }
        assert_eq!(position_of("17"), None);
    }
}
