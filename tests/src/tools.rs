//! Programs that nobody here wrote, as `make tools` installs them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the project.
///
/// # Panics
/// When it is not where it was built.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// A Python that has these modules; `make tools` installs what is missing.
///
/// # Panics
/// When they cannot be installed.
#[must_use]
pub fn python(modules: &[&str]) -> PathBuf {
    let root = root();
    let python = root.join("target/tools/bin/python");
    let imports = format!("import {}", modules.join(", "));
    let has_them = || Command::new(&python).args(["-c", &imports]).output().is_ok_and(|output| output.status.success());
    if has_them() {
        return python;
    }
    // Tests run side by side; one of them installs, the others wait for it.
    let lock = File::create(root.join("target/tools.lock")).unwrap();
    lock.lock().unwrap();
    if !has_them() {
        let tool = "target/tools/bin/cargo-deny";
        // A checkout may be newer than what was installed from it.
        let output = Command::new("make").arg("-C").arg(&root).args(["--always-make", tool]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(has_them(), "`make tools` does not install {modules:?}; it needs Python 3 and PyPI.\n{said}");
    }
    python
}
