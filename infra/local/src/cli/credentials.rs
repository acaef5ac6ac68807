//! What `longhaul login` keeps: a token for each deployment, in a file that only its owner may read.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::CliError;

/// The file in the user's configuration folder.
const FILE: &str = "credentials.json";

/// How a token was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grant {
    /// A person has confirmed a code in a browser.
    Device,
    /// By the client's own secret, which is not kept.
    ClientCredentials,
}

/// What is kept for one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) grant: Grant,
    pub(super) issuer: String,
    pub(super) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) audience: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Seconds since the Unix epoch; none: the issuer did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
}

impl Kept {
    /// Whether the token is no good in so many seconds.
    pub(super) fn expires_within(&self, seconds: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now().saturating_add(seconds))
    }
}

/// Seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The file.
#[derive(Debug)]
pub(super) struct Credentials {
    path: PathBuf,
}

impl Credentials {
    /// The file of this user, or of the folder that LONGHAUL_CONFIG names.
    ///
    /// # Errors
    /// [`CliError::NoConfigFolder`].
    pub(super) fn open() -> Result<Self, CliError> {
        let folder = match std::env::var_os("LONGHAUL_CONFIG").filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => directories::ProjectDirs::from("dev", "longhaul", "longhaul")
                .ok_or(CliError::NoConfigFolder)?
                .config_dir()
                .to_owned(),
        };
        Ok(Self { path: folder.join(FILE) })
    }

    /// The file of a test.
    #[cfg(test)]
    pub(super) fn at(folder: &Path) -> Self {
        Self { path: folder.join(FILE) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept for a deployment.
    ///
    /// # Errors
    /// [`CliError::Credentials`].
    pub(super) fn get(&self, url: &str) -> Result<Option<Kept>, CliError> {
        Ok(self.read()?.remove(url))
    }

    /// The same for this command alone, for as long as it is held.
    ///
    /// # Errors
    /// [`CliError::Credentials`].
    pub(super) async fn locked(self) -> Result<Locked, CliError> {
        let path = self.path.with_extension("lock");
        let folder = self.path.parent().map(Path::to_owned);
        let locking = tokio::task::spawn_blocking(move || {
            if let Some(folder) = folder {
                make_folder(&folder)?;
            }
            let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            // Ends with the file, also when the process is killed.
            file.lock()?;
            Ok(file)
        });
        match locking.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(file) => Ok(Locked { credentials: self, _lock: file }),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn put(&self, url: &str, kept: Option<Kept>) -> Result<(), CliError> {
        let mut all = self.read()?;
        match kept {
            Some(kept) => all.insert(url.to_owned(), kept),
            None => all.remove(url),
        };
        self.write(&all).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> CliError {
        CliError::Credentials { path: self.path.clone(), source }
    }

    fn read(&self) -> Result<BTreeMap<String, Kept>, CliError> {
        match std::fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| self.failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Written beside and renamed: never half of it, and readable by nobody else at any moment.
    fn write(&self, all: &BTreeMap<String, Kept>) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            make_folder(folder)?;
        }
        let beside = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(all)?)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)
    }
}

/// The file for one command alone. Others that want to change it wait.
pub(super) struct Locked {
    credentials: Credentials,
    _lock: std::fs::File,
}

impl Locked {
    /// As [`Credentials::get`].
    pub(super) fn get(&self, url: &str) -> Result<Option<Kept>, CliError> {
        self.credentials.get(url)
    }

    /// Keeps something for a deployment, or forgets what is kept.
    ///
    /// # Errors
    /// [`CliError::Credentials`].
    pub(super) fn put(&self, url: &str, kept: Option<Kept>) -> Result<(), CliError> {
        self.credentials.put(url, kept)
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut maker = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.recursive(true).create(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn what_is_kept_is_the_owners_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let credentials = Credentials { path: folder.path().join("new").join(FILE) };
        let expires_at = Some(now() + 100);
        let kept = |token: &str| Kept {
            grant: Grant::Device,
            issuer: "https://issuer.example".to_owned(),
            client_id: "cli".to_owned(),
            audience: None,
            scopes: Vec::new(),
            access_token: token.to_owned(),
            refresh_token: None,
            expires_at,
        };
        assert_eq!(credentials.get("https://a").unwrap(), None);
        credentials.put("https://a", Some(kept("a"))).unwrap();
        credentials.put("https://b", Some(kept("b"))).unwrap();
        credentials.put("https://a", None).unwrap();
        assert_eq!(credentials.get("https://a").unwrap(), None);
        assert_eq!(credentials.get("https://b").unwrap(), Some(kept("b")));
        assert!(kept("b").expires_within(101) && !kept("b").expires_within(50));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(credentials.path()), mode(credentials.path().parent().unwrap())), (0o600, 0o700));
        }
        assert_eq!(credentials.get("https://b").unwrap().unwrap().access_token, "b");
        std::fs::write(credentials.path(), "{").unwrap();
        assert!(credentials.get("https://b").is_err());
    }

    /// Commands that change the file at the same time do so one after the other, and none forgets what another kept.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn one_changes_it_at_a_time() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("new").join(FILE);
        let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let commands = (0..16).map(|number| {
            let (path, inside) = (path.clone(), std::sync::Arc::clone(&inside));
            tokio::spawn(async move {
                let locked = Credentials { path }.locked().await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "alone");
                let kept = locked.get("https://a").unwrap().map_or(0, |kept: Kept| kept.expires_at.unwrap());
                tokio::task::yield_now().await;
                let kept = Kept {
                    grant: Grant::Device,
                    issuer: "https://issuer.example".to_owned(),
                    client_id: "cli".to_owned(),
                    audience: None,
                    scopes: Vec::new(),
                    access_token: number.to_string(),
                    refresh_token: None,
                    expires_at: Some(kept + 1),
                };
                locked.put("https://a", Some(kept)).unwrap();
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            })
        });
        futures::future::try_join_all(commands).await.unwrap();
        assert_eq!(Credentials { path }.get("https://a").unwrap().unwrap().expires_at, Some(16));
    }
}
