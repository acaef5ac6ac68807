//! The mutants: each rule made weaker in one place, with the system in which the check must notice.

use crate::instances::{CANCEL, Instance, NO_FAULTS, REPLAY, REPLAY_OTHERWISE, SHARED_DEATHS, SIGNAL, WAIT};
use crate::rules::Mutant;
use crate::script::{FATAL, ONCE, Op, STEP};
use crate::state::Budget;

/// A mutant and where it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its letter among the flaws that a design-level search had found, or its name.
    pub name: &'static str,
    /// What is weaker.
    pub weaker: &'static str,
    /// The deviation.
    pub mutant: Mutant,
    /// The smallest system in which it matters.
    pub instance: Instance,
}

const fn of(job: &'static [Op], asks: &'static [(u8, crate::state::Ask)], bounds: Budget) -> Instance {
    Instance { name: "", job, child: &[STEP], asks, bounds, sessions: 2, shared: false, states_max: Some(4_000_000) }
}

const ZOMBIE: Budget = Budget { pause: 1, double: 1, ..NO_FAULTS };

/// All mutants that the check must catch.
pub const CAUGHT: &[Row] = &[
    Row {
        name: "A",
        weaker: "WAITING is written without the wakes as last seen, and without a due time (the waiting entry stands first)",
        mutant: Mutant::WaitBlindWithoutDue,
        instance: of(&[WAIT], &[SIGNAL], NO_FAULTS),
    },
    Row {
        name: "A, with a due time",
        weaker: "WAITING is written without the wakes as last seen",
        mutant: Mutant::WaitBlind,
        instance: of(&[WAIT], &[SIGNAL], NO_FAULTS),
    },
    Row {
        name: "B",
        weaker: "a repeated claim does not know its own mark, and a lease of one's own counts as held",
        mutant: Mutant::EchoUnknown,
        instance: of(&[STEP], &[], Budget { repeat: 1, ..NO_FAULTS }),
    },
    Row {
        name: "B, compared by worker and epoch",
        weaker: "worker and epoch are compared instead of the mark: two invocations of one process both win",
        mutant: Mutant::WorkerAndEpochCompared,
        instance: of(&[STEP], &[], Budget { double: 1, ..NO_FAULTS }),
    },
    Row {
        name: "C",
        weaker: "the journal that was read is not looked through for a higher claim",
        mutant: Mutant::EpochUncheckedAfterRead,
        instance: of(&[STEP], &[], ZOMBIE),
    },
    Row {
        name: "D",
        weaker: "a claim that meets a terminal entry on a conflict goes on behind it",
        mutant: Mutant::ClaimBehindEnd,
        instance: of(&[STEP], &[], ZOMBIE),
    },
    Row {
        name: "E",
        weaker: "a terminal entry is retried behind whatever came first",
        mutant: Mutant::EndBlind,
        instance: of(&[STEP], &[CANCEL], NO_FAULTS),
    },
    Row {
        name: "F",
        weaker: "worker_lost is decided before the claim stands, and retried behind whatever came first",
        mutant: Mutant::LostBlind,
        instance: of(&[STEP], &[], Budget { crash: 2, pause: 1, double: 1, ..NO_FAULTS }),
    },
    Row {
        name: "G, releases",
        weaker: "every claim counts as a crash, also one after a release",
        mutant: Mutant::ReleasesCounted,
        instance: of(&[STEP], &[], Budget { deadline: 3, ..NO_FAULTS }),
    },
    Row {
        name: "G, looks",
        weaker: "a look at a waiting job is a claim and counts as a crash",
        mutant: Mutant::LooksCounted,
        instance: of(&[WAIT], &[], Budget { double: 3, ..NO_FAULTS }),
    },
    Row {
        name: "H",
        weaker: "a signal is accepted behind the terminal entry",
        mutant: Mutant::SignalBehindEnd,
        instance: of(&[STEP], &[SIGNAL], NO_FAULTS),
    },
    Row {
        name: "I",
        weaker: "the epoch goes with the lease",
        mutant: Mutant::EpochLost,
        instance: of(&[STEP], &[], Budget { deadline: 1, ..NO_FAULTS }),
    },
    Row {
        name: "J",
        weaker: "a repeated submission writes the job item again",
        mutant: Mutant::SubmitOverwrites,
        instance: of(&[STEP], &[], Budget { again: 1, ..NO_FAULTS }),
    },
    Row {
        name: "K",
        weaker: "the agent looks itself whether a cancel is there now",
        mutant: Mutant::CancelPoint,
        instance: of(&[STEP, STEP], &[CANCEL], Budget { deadline: 1, ..NO_FAULTS }),
    },
    Row {
        name: "L",
        weaker: "a request's key is not looked for in the journal",
        mutant: Mutant::KeyNotScanned,
        instance: of(&[STEP], &[SIGNAL], Budget { late: 1, again: 1, ..NO_FAULTS }),
    },
    Row {
        name: "no nonce",
        weaker: "a repeated append does not know its own mark",
        mutant: Mutant::AppendEchoUnknown,
        instance: of(&[STEP], &[], Budget { repeat: 1, ..NO_FAULTS }),
    },
    Row {
        name: "no claimed entry",
        weaker: "a claim leaves no entry in the journal",
        mutant: Mutant::NoClaimedEntry,
        instance: of(&[STEP], &[], ZOMBIE),
    },
    Row {
        name: "due cleared at the claim",
        weaker: "a job that is driven has no due time",
        mutant: Mutant::DueClearedAtClaim,
        instance: of(&[STEP], &[], Budget { crash: 1, loss: 2, ..NO_FAULTS }),
    },
    Row {
        name: "item first",
        weaker: "the job item is completed before the journal",
        mutant: Mutant::ItemFirst,
        instance: of(&[STEP], &[], Budget { crash: 1, ..NO_FAULTS }),
    },
    Row {
        name: "epoch unchecked on conflict",
        weaker: "an append that meets a higher claim goes on behind it",
        mutant: Mutant::EpochUncheckedOnConflict,
        instance: of(&[STEP], &[], ZOMBIE),
    },
    Row {
        name: "blind jump to the tail",
        weaker: "an append that meets something goes on at the tail without a look at what stands between",
        mutant: Mutant::JumpToTail,
        instance: of(&[STEP], &[CANCEL], ZOMBIE),
    },
    Row {
        name: "finish without wakes",
        weaker: "the job item's end does not require the wakes as last seen (docs/adr/0003)",
        mutant: Mutant::FinishBlind,
        instance: of(&[FATAL], &[REPLAY], NO_FAULTS),
    },
    Row {
        name: "replay looks first",
        weaker: "a replay looks at the job item before it counts the wakes up (docs/adr/0003)",
        mutant: Mutant::ReplayLooksFirst,
        instance: of(&[FATAL], &[REPLAY], NO_FAULTS),
    },
    Row {
        name: "any replay answered",
        weaker: "a replay that finds another one standing is told that its own changes are made",
        mutant: Mutant::AnyReplayAnswered,
        instance: of(&[FATAL], &[REPLAY, REPLAY_OTHERWISE], NO_FAULTS),
    },
    Row {
        name: "at-most-once without started",
        weaker: "an at-most-once effect writes nothing before it acts",
        mutant: Mutant::OnceWithoutStarted,
        instance: of(&[ONCE], &[], Budget { crash: 1, ..NO_FAULTS }),
    },
    Row {
        name: "item before relatives",
        weaker: "the job item's end is written before the parent is told",
        mutant: Mutant::TellAfterItem,
        instance: of(&[Op::Child], &[], Budget { crash: 1, ..NO_FAULTS }),
    },
    Row {
        name: "shared deaths counted",
        weaker: "a death that a job shares with many counts as one of its own",
        mutant: Mutant::SharedDeathsCounted,
        instance: SHARED_DEATHS,
    },
    Row {
        name: "signal without wake",
        weaker: "a signal does not count the wakes up and leaves a waiting job waiting",
        mutant: Mutant::SignalWithoutWake,
        instance: of(&[WAIT], &[SIGNAL], NO_FAULTS),
    },
    Row {
        name: "child submitted once",
        weaker: "a child is submitted only by the session that recorded the wait for it",
        mutant: Mutant::ChildNotSubmittedAgain,
        instance: of(&[Op::Child], &[], Budget { crash: 1, ..NO_FAULTS }),
    },
    Row {
        name: "unread deaths over-counted",
        weaker: "claims that did append are counted as deaths before reading",
        mutant: Mutant::UnreadOverCounted,
        instance: of(&[STEP, STEP, STEP], &[], Budget { crash: 6, ..NO_FAULTS }),
    },
    Row {
        name: "walk over the end",
        weaker: "a job whose workers die unread is ended without a look at what its journal's end says",
        mutant: Mutant::WalkBlind,
        instance: of(&[STEP], &[], Budget { crash: 6, ..NO_FAULTS }),
    },
    Row {
        name: "child not looked for",
        weaker: "a replayed parent does not look how its child stands, which ended while the parent was closed",
        mutant: Mutant::ChildNotRejoined,
        instance: of(&[Op::Child], &[CANCEL, REPLAY], NO_FAULTS),
    },
    Row {
        name: "child looked for by its item",
        weaker: "a replayed parent takes a child whose job item has not ended for one that will tell it",
        mutant: Mutant::RejoinedByItem,
        instance: of(&[Op::Child], &[CANCEL, REPLAY], NO_FAULTS),
    },
    Row {
        name: "child looked for with an old journal",
        weaker: "a replayed parent judges by its journal as it read it before it looked at the child",
        mutant: Mutant::RejoinedByOldJournal,
        instance: Instance {
            child: &[FATAL],
            states_max: Some(40_000_000),
            ..of(&[FATAL, Op::Child], &[REPLAY], Budget { crash: 1, ..NO_FAULTS })
        },
    },
    Row {
        name: "unsure, and ended in order",
        weaker: "a session whose claim or release got no answer removes its item, and its watchdog finds nobody dead",
        mutant: Mutant::UnsureEndsInOrder,
        instance: of(&[STEP], &[], Budget { fail: 1, ..NO_FAULTS }),
    },
    Row {
        name: "half a replay left",
        weaker: "a signal or cancel to a journal that was opened again leaves an ended job item as it is",
        mutant: Mutant::HalfReplayLeft,
        instance: of(&[FATAL], &[REPLAY, CANCEL], Budget { crash: 1, ..NO_FAULTS }),
    },
    Row {
        name: "driven on behind a replay that the claim did not know",
        weaker: "a session that finds the job ended and opened again since its claim appends its claim and drives",
        mutant: Mutant::DrivenBehindUnknownReplay,
        instance: Instance {
            states_max: Some(40_000_000),
            ..of(&[FATAL], &[REPLAY], Budget { crash: 1, fail: 1, pause: 1, ..NO_FAULTS })
        },
    },
    Row {
        name: "journal read in part, with a replay",
        weaker: "a claim begins with an old view of the journal, whose end may have been opened again",
        mutant: Mutant::JournalReadInPart,
        instance: of(&[FATAL], &[REPLAY], NO_FAULTS),
    },
    Row {
        name: "last write instead of lease",
        weaker: "a holder that finds another mark than its last one gives up, although it was its own unanswered renewal",
        mutant: Mutant::LastWriteCompared,
        instance: of(&[STEP], &[], Budget { fail: 1, ..NO_FAULTS }),
    },
    Row {
        name: "release without its mark",
        weaker: "releases, waits and ends of the job item do not require the holder's own last write",
        mutant: Mutant::ReleaseUnconditional,
        instance: of(&[STEP], &[], Budget { pause: 1, double: 1, deadline: 1, ..NO_FAULTS }),
    },
];

/// Mutants that the check cannot tell from the production rules within these bounds, with the reason.
pub const UNSEEN: &[Row] = &[
    Row {
        name: "old end settled",
        weaker: "a driver that settles an end does not look whether the job has ended otherwise since. Nobody drives on \
                 behind a replay that its claim did not know; the rule stays for a worker of an earlier version, which does",
        mutant: Mutant::OldEndSettled,
        instance: of(&[FATAL], &[REPLAY], Budget { crash: 1, pause: 1, ..NO_FAULTS }),
    },
    Row {
        name: "own lease counts as held",
        weaker: "a session that finds its own lease takes the job for held. A session meets a job once, and knows its \
                 own repeated claim by the mark; the rule stays for a session that would meet it twice",
        mutant: Mutant::OwnLeaseHeld,
        instance: of(&[STEP], &[], Budget { repeat: 1, fail: 1, double: 1, ..NO_FAULTS }),
    },
    Row {
        name: "journal read in part, without replays",
        weaker: "a claim begins with an old view of the journal. Its append meets what it has not seen, one by one, so \
                 that without replays an old view is as good as a new one",
        mutant: Mutant::JournalReadInPart,
        instance: of(&[STEP], &[CANCEL], Budget { pause: 1, double: 1, ..NO_FAULTS }),
    },
];
