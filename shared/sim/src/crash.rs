//! The death of one worker, between any two of its calls.

/// When a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// At which of its calls, counted from 1.
    pub call: u64,
    /// Before or after the call took effect.
    pub moment: Moment,
    /// What its code sees of it.
    pub death: Death,
}

/// On which side of a call's effect a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call has no effect.
    Before,
    /// The call takes effect and nobody hears of it.
    After,
}

/// What the code of a dead worker sees, for as long as it is still being polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Its calls never return, as for a process that was killed.
    Hang,
    /// Its calls fail, as for a process that lost its network.
    Fail,
}
