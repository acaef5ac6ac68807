//! The promises that are checked, named by what breaks them.

/// A promise that does not hold. Each is one property of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    /// A step has two outcomes.
    SecondOutcome,
    /// Something other than a replay stands behind the job's end.
    BehindTheEnd,
    /// A journal that the fold cannot read for another reason.
    Unreadable,
    /// An entry of a driver whose epoch is lower than that of a claim before it.
    OldEpochEntered,
    /// A claim whose epoch is not above that of the claim before it.
    EpochNotGrown,
    /// The job ended otherwise although a cancel stood in the journal by then.
    CancelPassedOver,
    /// The job ended as `worker_lost` although the journal does not count enough crashes in a row.
    CrashMiscounted,
    /// The job ended as `worker_lost` although fewer workers died than that takes.
    HarmlessCounted,
    /// A request of one key stands in the journal twice.
    RequestTwice,
    /// A request was acknowledged and is not in the journal.
    AcknowledgedLost,
    /// A request entered a job that had ended: nobody will see it.
    SeenByNobody,
    /// An effect ran more often than one time and one for each claim since the step before.
    TooManyRuns,
    /// An at-most-once effect ran twice.
    OnceTwice,
    /// A fenced worker ran more than one effect.
    FencedRanTwice,
    /// A replay came to another place than the run that wrote the journal.
    ReplayDiffers,
    /// A session ended in order while the job item still names it as the driver.
    HeldByEnded,
    /// The job has not ended and has no due time: nobody will come.
    NobodyComes,
    /// Left to itself without faults, the job does not come to an end or to a wait for somebody.
    Stuck,
    /// The job item says something else than the journal about the job's end.
    ItemDiffers,
    /// A wait has what it waits for, or waits for a child that has ended, and rests all the same.
    WakeUpLost,
    /// Workers died as often as ends a job, and it is driven on.
    DrivenOn,
    /// Without any fault, the job lies still although it could go on: only the sweeper's net would catch it.
    NotPrompt,
}

impl Broken {
    /// All of them, with the promise in words.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::SecondOutcome, "a step has one outcome at most"),
        (Self::BehindTheEnd, "behind the end stands nothing but a replay"),
        (Self::Unreadable, "the journal can be read"),
        (Self::OldEpochEntered, "after claimed{e} nothing of an epoch under e enters"),
        (Self::EpochNotGrown, "each claim's epoch is above that of the one before"),
        (Self::CancelPassedOver, "a cancel that stands in the journal decides the end"),
        (Self::CrashMiscounted, "worker_lost follows three crashes in a row in the journal, or nine that were shared"),
        (Self::HarmlessCounted, "harmless claims are no crashes"),
        (Self::RequestTwice, "a request's key is taken in once"),
        (Self::AcknowledgedLost, "what was acknowledged stands in the journal"),
        (Self::SeenByNobody, "no signal is acknowledged behind the end"),
        (Self::TooManyRuns, "an effect runs once, and once more for each claim since the step before"),
        (Self::OnceTwice, "an at-most-once effect runs once"),
        (Self::FencedRanTwice, "a fenced worker runs one effect more, never two"),
        (Self::ReplayDiffers, "a replay sees what the first run saw"),
        (Self::HeldByEnded, "a session that ended in order holds nothing"),
        (Self::NobodyComes, "a job that has not ended has a due time"),
        (Self::Stuck, "left to itself a job ends or waits for somebody"),
        (Self::ItemDiffers, "the job item agrees with the journal about the end"),
        (Self::WakeUpLost, "no wake-up is lost"),
        (Self::DrivenOn, "three deaths in a row end a job, nine where they were shared"),
        (Self::NotPrompt, "without faults nothing waits for the sweeper"),
    ];

    /// The promise in words.
    #[must_use]
    pub fn promise(self) -> &'static str {
        Self::ALL.iter().find(|(broken, _)| *broken == self).map_or("", |(_, promise)| promise)
    }
}
