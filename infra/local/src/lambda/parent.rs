//! Ending function processes together with the stack that started them.

use std::io;

/// Environment variable that tells a function process which process started it (a decimal process id).
pub(crate) const PARENT_PID: &str = "LONGHAUL_PARENT_PID";

/// Asks the kernel to end this process as soon as the stack that started it is gone, however it went.
///
/// A function process calls this first of all. Without it, a stack that is killed with SIGKILL leaves processes
/// behind until their next call to the Runtime API fails. On systems without this kernel feature (all but Linux) only
/// that second way is left, and the call does nothing. A process that no stack started is left alone.
///
/// # Errors
/// The kernel's refusal, or [`io::ErrorKind::NotConnected`] when the parent is gone already: the caller should exit.
pub fn die_with_parent() -> io::Result<()> {
    let Some(parent) = std::env::var(PARENT_PID).ok().and_then(|pid| pid.parse::<u32>().ok()) else {
        return Ok(());
    };
    arm()?;
    // The parent may have died before the signal was armed; then this process has been adopted by another one.
    if std::os::unix::process::parent_id() == parent {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotConnected, "the stack that started this function has ended"))
    }
}

#[cfg(target_os = "linux")]
fn arm() -> io::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn arm() -> io::Result<()> {
    Ok(())
}
