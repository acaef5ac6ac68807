//! Where the servers are, and how they get there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The path of an installed tool, relative to the root. It is installed first where it is missing.
pub(crate) fn installed(tool: &str) -> PathBuf {
    let root = root();
    let path = root.join(tool);
    if path.exists() {
        return path;
    }
    // Tests run side by side, in one process or in several; one of them installs, the others wait for it.
    let target = root.join("target");
    std::fs::create_dir_all(&target).unwrap();
    let lock = File::create(target.join("tools.lock")).unwrap();
    lock.lock().unwrap();
    if !path.exists() {
        let output = Command::new("make").arg("-C").arg(&root).arg(tool).output();
        let output = output.unwrap_or_else(|error| panic!("{tool} is missing, and `make` does not start: {error}"));
        assert!(
            output.status.success() && path.exists(),
            "{tool} is missing and `make {tool}` does not install it. It needs Python 3, and the registries of PyPI and \
             npm.\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
    }
    path
}

/// Node.js: the machine's own, or the one that `make tools` installs where there is none.
pub(crate) fn node() -> PathBuf {
    let own = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if own { PathBuf::from("node") } else { installed("target/tools/bin/node") }
}
