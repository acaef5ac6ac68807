//! Which files and folders an input may name.
//!
//! On one's own machine a caller may name whatever the worker can read. Where callers share a worker, a path in an
//! input must not lead to what is not theirs, so the paths can be fenced in.

use std::path::{Path, PathBuf};

use longhaul::{ErrorClass, StepError};

/// Where documents may be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// The corpus of an input that names none.
    pub corpus: Option<PathBuf>,
    /// The folders that paths of inputs must lead into, links followed; any path will do when absent.
    pub within: Option<Vec<PathBuf>>,
}

impl Paths {
    /// The path that an input names, links followed where there is a fence. Whether it exists is for its reader to
    /// find out; a path outside of the fence gets one answer, whether it exists or not.
    ///
    /// # Errors
    /// [`ErrorClass::Invalid`] for a path that leads elsewhere.
    pub fn allowed(&self, named: &str) -> Result<PathBuf, StepError> {
        let path = Path::new(named);
        let Some(folders) = &self.within else { return Ok(path.to_owned()) };
        let inside = |real: &PathBuf| {
            folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|folder| real.starts_with(folder))
        };
        path.canonicalize().ok().filter(inside).ok_or_else(|| {
            let message = format!("{named} is in none of the folders from which documents are read here");
            StepError::new(ErrorClass::Invalid, message)
        })
    }

    /// A file that was found in a folder. Should a link have been put in its place since, it must not lead out.
    ///
    /// # Errors
    /// [`ErrorClass::Invalid`] for a file that leads elsewhere.
    pub(crate) fn below(folder: &str, file: &str) -> Result<PathBuf, StepError> {
        let path = Path::new(folder).join(file);
        match (path.canonicalize(), Path::new(folder).canonicalize()) {
            (Ok(real), Ok(root)) if !real.starts_with(&root) => {
                Err(StepError::new(ErrorClass::Invalid, format!("{file} does not lie in {folder} any more")))
            }
            // What is not there is for its reader to report.
            (Ok(_) | Err(_), Ok(_) | Err(_)) => Ok(path),
        }
    }

    /// The corpus folder: the one that the input names, else the default.
    ///
    /// # Errors
    /// [`ErrorClass::Invalid`] when there is none, or it leads elsewhere.
    pub fn corpus(&self, named: Option<&str>) -> Result<PathBuf, StepError> {
        match (named, &self.corpus) {
            (Some(named), _) => self.allowed(named),
            (None, Some(folder)) => Ok(folder.clone()),
            (None, None) => Err(StepError::new(
                ErrorClass::Invalid,
                "no corpus: the input names no folder (`corpus`) and LONGHAUL_CORPUS is not set",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_fence_holds() {
        let room = tempfile::tempdir().expect("a folder");
        let inside = room.path().join("inside");
        std::fs::create_dir_all(inside.join("deep")).expect("folders");
        std::fs::write(room.path().join("secret.md"), "x").expect("a file");
        std::fs::write(inside.join("a.md"), "x").expect("a file");
        let paths = Paths { corpus: None, within: Some(vec![inside.clone()]) };
        let cases = [
            ("inside", true),
            ("inside/deep", true),
            ("inside/a.md", true),
            ("inside/../inside/a.md", true),
            ("secret.md", false),
            ("inside/../secret.md", false),
            ("inside/missing.md", false),
            ("inside-not", false),
            ("", false),
        ];
        for (named, good) in cases {
            let named = room.path().join(named);
            assert_eq!(paths.allowed(&named.to_string_lossy()).is_ok(), good, "{}", named.display());
        }
        #[cfg(unix)]
        {
            let link = inside.join("link.md");
            std::os::unix::fs::symlink(room.path().join("secret.md"), &link).expect("a link");
            assert!(paths.allowed(&link.to_string_lossy()).is_err(), "a link leads out");
        }
        let open = Paths::default();
        assert_eq!(open.allowed("/any/where").expect("any path"), PathBuf::from("/any/where"));
        assert!(open.corpus(None).is_err());
        assert_eq!(open.corpus(Some("x")).expect("named"), PathBuf::from("x"));
    }
}
