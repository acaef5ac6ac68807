//! A run in readable lines: what happened, and what it changed.

use crate::ledger::{End, Mark, Why};
use crate::model::{Action, Fate};
use crate::state::{Item, Late, Mode, Opc, Pc, Phase, State};
use crate::steps::Ran;

/// One line for each step of a run.
#[must_use]
pub fn lines(run: &[(State, Option<Action>)]) -> Vec<String> {
    run.windows(2)
        .enumerate()
        .filter_map(|(step, pair)| {
            let [(before, action), (after, _)] = pair else { return None };
            Some(format!("{:>3}. {}{}", step + 1, happened(before, (*action)?), changed(before, after)))
        })
        .collect()
}

fn happened(s: &State, action: Action) -> String {
    let name = |job: u8| if job == 0 { "the job" } else { "the child" };
    match action {
        Action::Step(slot, fate) => format!("session {slot}: {}{}", call(s, slot), came(fate)),
        Action::Effect(slot, ran) => {
            let how = match ran {
                Ran::Well => "",
                Ran::Badly => " and fails for now",
                Ran::Fatally => " and fails for good",
            };
            format!("session {slot}: the step's effect takes place{how}")
        }
        Action::Peek(slot) => format!("session {slot}: looks at the tail in mid-step"),
        Action::Renew(slot, fate) => format!("session {slot}: moves the due time on{}", came(fate)),
        Action::Deadline(slot) => format!("session {slot}: comes to its deadline"),
        Action::Crash(slot) => format!("session {slot}: DIES"),
        Action::Silent(slot) => format!("session {slot}: has been silent long enough to count as dead"),
        Action::Beat(slot) => format!("session {slot}: refreshes its item again"),
        Action::Watchdog(slot) => format!("the watchdog message of session {slot} arrives"),
        Action::LoseWatchdog(slot) => format!("the watchdog message of session {slot} is lost"),
        Action::Receive(job) => {
            let slot = s.free_slot().map_or_else(String::new, |slot| format!("session {slot}: "));
            format!("{slot}receives a continuation of {} and reads the job item", name(job))
        }
        Action::Lose(job) => format!("a continuation of {} is lost", name(job)),
        Action::Double(job) => format!("a continuation of {} is delivered twice", name(job)),
        Action::DueComes(job) => format!("the due time of {} comes", name(job)),
        Action::Sweep(job) => format!("the sweeper sends a continuation of {}", name(job)),
        Action::SweepDies(job) => format!("the sweeper moves the due time of {} and dies", name(job)),
        Action::Tick => "time passes, until what waits for a time has waited long enough".to_owned(),
        Action::Ask(index, fate) => match &s.requests[index].going {
            None => format!("caller {index}: sends its request; api reads"),
            Some(going) => {
                let what = match going.pc {
                    Opc::ReadItem => "api reads the job item",
                    Opc::ReadJournal => "api reads the journal",
                    Opc::Append => "api appends the request",
                    Opc::Wake => "api counts the wakes up",
                    Opc::LookBack => "api reads the journal again",
                    Opc::Look => "api reads the job item again",
                    Opc::Reopen => "api opens the job item",
                    Opc::Send => "api sends a continuation and acknowledges",
                };
                format!("caller {index}: {what}{}", came(fate))
            }
        },
        Action::AskDies(index) => format!("caller {index}: the api process DIES"),
        Action::SubmitAgain => "the caller submits the job again".to_owned(),
        Action::Land => match s.late {
            Some(Late::Append { mark, .. }) => format!("a late append lands: {}", said(mark)),
            Some(Late::Item { .. }) | None => "a late write of the job item lands".to_owned(),
        },
    }
}

fn call(s: &State, slot: usize) -> String {
    let Phase::Active(local) = &s.slots[slot].phase else { return String::new() };
    if local.outside.is_some() {
        return "tells a relative of the end".to_owned();
    }
    match local.pc {
        Pc::ReadItem => "reads the job item".to_owned(),
        Pc::LookUp(other) => format!("looks whether session {other} lives"),
        Pc::Peek(_) => "looks for news".to_owned(),
        Pc::Claim => "claims the job".to_owned(),
        Pc::Walk { .. } => "walks to the journal's end".to_owned(),
        Pc::GiveUp { .. } => "ends the job unread".to_owned(),
        Pc::ReadJournal => "reads the journal".to_owned(),
        Pc::AppendClaim => "appends its claim".to_owned(),
        Pc::Run { .. } => "runs a step".to_owned(),
        Pc::Append(mark) => format!("appends {}", said(mark)),
        Pc::End(end) => format!("ends the job as {}", ended(end)),
        Pc::TellParent(_) | Pc::TellChild(_) => "tells a relative of the end".to_owned(),
        Pc::Finish(end) => format!("writes {} into the job item", ended(end)),
        Pc::FinishLook(_) | Pc::FinishUnreadLook { .. } | Pc::WaitLook => "looks again".to_owned(),
        Pc::FinishUnread { .. } => "writes the end into the job item".to_owned(),
        Pc::Release => "releases the job".to_owned(),
        Pc::Send | Pc::SendDelayed => "sends a continuation".to_owned(),
        Pc::Wait { .. } => "writes WAITING into the job item".to_owned(),
        Pc::SubmitChild => "submits the child".to_owned(),
        Pc::SendChild => "sends the child's continuation".to_owned(),
        Pc::Rejoin => "looks how the child stands".to_owned(),
        Pc::GiveBack => "gives the job back after a failure".to_owned(),
    }
}

const fn came(fate: Fate) -> &'static str {
    match fate {
        Fate::Fine => "",
        Fate::Repeat => " (takes effect; its answer is lost and the SDK will repeat it)",
        Fate::Fail => " (no effect and no answer)",
        Fate::FailAfter => " (takes effect, but no answer comes)",
        Fate::Late => " (no answer; it is still on its way)",
    }
}

fn ended(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed(Why::Agent) => "failed",
        End::Failed(Why::Lost) => "failed (worker_lost)",
        End::Failed(Why::Unread) => "failed (worker_lost, unread)",
        End::Cancelled => "cancelled",
    }
}

fn said(mark: Mark) -> String {
    match mark {
        Mark::Claimed { epoch, takeover: false, .. } => format!("claimed{{{epoch}}}"),
        Mark::Claimed { epoch, takeover: true, .. } => format!("claimed{{{epoch}, takeover}}"),
        Mark::Started { op } => format!("step_started {op}"),
        Mark::Done { op, .. } => format!("step_completed {op}"),
        Mark::AttemptFailed { op, attempt, .. } => format!("attempt_failed {op} (attempt {attempt})"),
        Mark::StepFailed { op, interrupted, .. } => {
            format!("step_failed {op}{}", if interrupted { " (interrupted)" } else { "" })
        }
        Mark::Waiting { op, .. } => format!("waiting {op}"),
        Mark::WaitEnded { op, by: None } => format!("wait_ended {op} (time)"),
        Mark::WaitEnded { op, by: Some(seq) } => format!("wait_ended {op} (signal at {seq})"),
        Mark::Signalled { key } => format!("signalled (key {key})"),
        Mark::ChildEnded { end, .. } => format!("signalled (the child {})", ended(end)),
        Mark::CancelRequested { key } => format!("cancel_requested (key {key})"),
        Mark::Ended(end) => ended(end).to_owned(),
        Mark::Replayed { from, .. } => format!("replayed (from {from:?})"),
    }
}

fn changed(before: &State, after: &State) -> String {
    let mut text = String::new();
    for (name, (old, new)) in ["", "child "].iter().zip(before.jobs.iter().zip(&after.jobs)) {
        let length = usize::from(old.log.len());
        for (place, mark) in new.log.marks().iter().enumerate().skip(length) {
            text.push_str(&format!("\n       {name}journal {}: {}", place + 1, said(*mark)));
        }
        if old.item != new.item {
            text.push_str(&format!("\n       {name}item: {}", shown(&new.item)));
        }
    }
    match after.broken.filter(|_| before.broken.is_none()) {
        Some(broken) => text + &format!("\n       BROKEN: {}", broken.promise()),
        None => text,
    }
}

fn shown(item: &Item) -> String {
    let mode = match item.mode {
        Mode::Absent => "absent".to_owned(),
        Mode::Pending => "PENDING".to_owned(),
        Mode::Processing(slot) => format!("PROCESSING by session {slot}"),
        Mode::Waiting { until, seen } => {
            format!("WAITING, {seen} seen{}", if until.is_some() { ", until a time" } else { "" })
        }
        Mode::Ended(status) => format!("{status:?}").to_uppercase(),
    };
    format!("{mode}, epoch {}, due {:?}", item.epoch, item.due).to_lowercase().replace("due never", "no due time")
}
