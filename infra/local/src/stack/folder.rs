//! The data folder: one stack at a time works in it, and says in it where it listens.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file that the running stack holds a lock on.
const LOCK_FILE: &str = "stack.lock";
/// The file in which the running stack says where it listens.
const ADDRESSES_FILE: &str = "stack.json";
/// The file in which the running stack says how its stores are reached, for its owner's own commands.
const ACCESS_FILE: &str = "stack-access.json";

/// Where a stack listens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Addresses {
    /// The process.
    pub pid: u32,
    /// The API: `http://host:port`.
    pub api: String,
    /// The WebSocket API: `ws://host:port/stage`.
    pub websocket: String,
    /// The base URL of the stand-in model, when it is running.
    pub rehearsal: Option<String>,
    /// The DynamoDB endpoint.
    pub dynamodb: String,
    /// The SQS endpoint.
    pub sqs: String,
    /// Where it is told which function used which right.
    #[serde(default)]
    pub calls: String,
    /// Where the fault plan of the stores is read and changed, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<String>,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or folder cannot be read or written.
    #[error("the data folder {path} cannot be used; choose another with --data or LONGHAUL_DATA")]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another stack works in it.
    #[error("a stack is running on the data folder {path} already{}", at(.addresses.as_deref()))]
    Taken {
        /// The folder.
        path: PathBuf,
        /// Where that stack listens, if it has said so yet.
        addresses: Option<Box<Addresses>>,
    },
}

fn at(addresses: Option<&Addresses>) -> String {
    addresses.map(|found| format!(" (process {}, {})", found.pid, found.api)).unwrap_or_default()
}

/// A data folder that this process works in.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    // The system lets go of the lock when the process ends, however it ends.
    _lock: File,
}

impl Folder {
    /// Takes the folder for this process, making it where it is not there.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn take(path: &Path) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Io { path: path.to_owned(), source };
        make_folder(path).map_err(failed)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                let folder = Self { path: path.to_owned(), _lock: lock };
                folder.forget_addresses().map_err(failed)?;
                Ok(folder)
            }
            Err(TryLockError::WouldBlock) => {
                Err(FolderError::Taken { path: path.to_owned(), addresses: read_addresses(path).map(Box::new) })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says where this stack listens.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn say(&self, addresses: &Addresses) -> Result<(), FolderError> {
        let failed = |source| FolderError::Io { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(addresses).map_err(|error| failed(error.into()))?;
        let beside = self.path.join("stack.json.new");
        std::fs::write(&beside, text).map_err(failed)?;
        std::fs::rename(&beside, self.path.join(ADDRESSES_FILE)).map_err(failed)
    }

    /// Says how this stack's stores are reached. The folder is its owner's alone, and the keys are of this start alone.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn say_access(&self, variables: &BTreeMap<String, String>) -> Result<(), FolderError> {
        let failed = |source| FolderError::Io { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(variables).map_err(|error| failed(error.into()))?;
        let path = self.path.join(ACCESS_FILE);
        let _absent = std::fs::remove_file(&path);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).and_then(|mut file| io::Write::write_all(&mut file, &text)).map_err(failed)
    }

    fn forget_addresses(&self) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(ADDRESSES_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Makes a data folder where there is none. Journals hold what people asked and what models answered, so the folder is
/// its owner's alone; one that was made wider, by another program or an earlier version, is narrowed. A folder that is
/// shared by design (`/tmp` and its like, with the sticky bit) stays as it is.
///
/// # Errors
/// When it cannot be made, looked into or narrowed.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.recursive(true).create(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        const STICKY: u32 = 0o1000;
        let mode = std::fs::metadata(path)?.permissions().mode();
        if mode & STICKY == 0 && mode & 0o077 != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Where the stack of this folder listens, if one is running.
#[must_use]
pub fn running(path: &Path) -> Option<Addresses> {
    let lock = File::options().write(true).open(path.join(LOCK_FILE)).ok()?;
    // A lock that can be had belongs to nobody; it is let go at once when the file is closed.
    match lock.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => None,
        Err(TryLockError::WouldBlock) => read_addresses(path),
    }
}

/// How the stores of the stack of this folder are reached, by the variables that its functions have.
#[must_use]
pub fn access(path: &Path) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read(path.join(ACCESS_FILE)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn read_addresses(path: &Path) -> Option<Addresses> {
    let text = std::fs::read(path.join(ADDRESSES_FILE)).ok()?;
    serde_json::from_slice(&text).ok()
}
