//! The live view of a job in a terminal: its steps as bars over time, what running ones say, what it has used.

use std::io::{self, IsTerminal, Stdout, Write};
use std::time::Duration;

use longhaul_wire::socket::DeltaBody;
use longhaul_wire::{Event, JobView};
use ratatui::backend::TermionBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::termion::event::Key;
use ratatui::termion::input::{Keys, TermRead};
use ratatui::termion::raw::{IntoRawMode, RawTerminal};
use ratatui::termion::screen::{AlternateScreen, IntoAlternateScreen};
use ratatui::termion::{AsyncReader, async_stdin};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};
use ratatui::{Frame, Terminal};

use super::story::{Row, State, Story};
use super::tables::{cost, duration};

/// How often the view is drawn anew and keys are looked for.
pub(super) const TICK: Duration = Duration::from_millis(150);
/// Columns of a step's name and of the figures behind its bar.
const NAME_COLUMNS: u16 = 28;
const FIGURES_COLUMNS: u16 = 20;
/// Lines of what a running step says.
const HEARD_LINES: u16 = 7;

/// What a person wants of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To leave; the job goes on.
    Leave,
    /// Nothing but to look.
    Look,
}

/// The view. What the person had on the terminal before comes back when it is dropped, also by a panic.
pub(super) struct Screen {
    /// There until it is given back.
    terminal: Option<Terminal<TermionBackend<AlternateScreen<RawTerminal<Stdout>>>>>,
    keys: Keys<AsyncReader>,
    pub(super) shown: Shown,
}

/// What it shows.
pub(super) struct Shown {
    story: Story,
    job: JobView,
    /// Lines that a person has scrolled up from the end.
    up: usize,
}

impl Screen {
    /// Whether there is a terminal for it: one that shows it and one that keys come from.
    pub(super) fn is_possible() -> bool {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
    }

    /// Takes the terminal over.
    ///
    /// # Errors
    /// When the terminal cannot be taken over.
    pub(super) fn open(job: JobView) -> io::Result<Self> {
        let screen = io::stdout().into_raw_mode()?.into_alternate_screen()?;
        let mut terminal = Terminal::new(TermionBackend::new(screen))?;
        terminal.hide_cursor()?;
        Ok(Self { terminal: Some(terminal), keys: async_stdin().keys(), shown: Shown::new(job) })
    }

    /// Draws what there is.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub(super) fn draw(&mut self) -> io::Result<()> {
        let now = jiff::Timestamp::now().as_millisecond();
        let Some(terminal) = &mut self.terminal else { return Ok(()) };
        terminal.draw(|frame| self.shown.draw(frame, now)).map(|_| ())
    }

    /// What keys ask for; without waiting for one.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub(super) fn wish(&mut self) -> io::Result<Wish> {
        for key in self.keys.by_ref() {
            match key? {
                Key::Char('q') | Key::Esc | Key::Ctrl('c') => return Ok(Wish::Leave),
                Key::Up | Key::Char('k') => self.shown.scroll(1),
                Key::Down | Key::Char('j') => self.shown.scroll(-1),
                Key::PageUp => self.shown.scroll(10),
                Key::PageDown => self.shown.scroll(-10),
                Key::End => self.shown.up = 0,
                Key::Home => self.shown.up = usize::MAX,
                _ => {}
            }
        }
        Ok(Wish::Look)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // What is said next, on standard error, must find the terminal as it was: so the way back is flushed.
        if let Some(mut terminal) = self.terminal.take() {
            let _the_terminal_has_gone = terminal.show_cursor();
        }
        let _the_terminal_has_gone = io::stdout().flush();
    }
}

impl Shown {
    pub(super) fn new(job: JobView) -> Self {
        Self { story: Story::default(), job, up: 0 }
    }

    pub(super) fn show(&mut self, event: &Event) {
        self.story.take(event);
    }

    pub(super) fn hear(&mut self, delta: &DeltaBody) {
        self.story.hear(delta);
    }

    /// The job as the API says that it stands.
    pub(super) fn stands(&mut self, job: JobView) {
        self.job = job;
    }

    fn scroll(&mut self, lines: isize) {
        self.up = self.up.min(self.story.rows.len()).saturating_add_signed(lines);
    }

    /// Draws it as it is at `now`, in milliseconds since the Unix epoch.
    fn draw(&self, frame: &mut Frame<'_>, now: i64) {
        let heard = if self.story.heard.is_empty() { 0 } else { HEARD_LINES };
        let parts = [Constraint::Length(3), Constraint::Min(3), Constraint::Length(heard), Constraint::Length(1)];
        let [head, steps, said, keys] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(now)), head);
        self.draw_steps(frame, steps, now);
        if let Some((_, heard)) = self.story.heard.iter().next_back() {
            let block = Block::new().borders(Borders::TOP).title(format!(" {} says ", heard.name));
            let lines: Vec<&str> = heard.text.lines().collect();
            let width = usize::from(said.width.max(1));
            let mut room = usize::from(HEARD_LINES.saturating_sub(1));
            let fitting = lines.iter().rev().take_while(|line| {
                let needed = line.chars().count().div_ceil(width).max(1);
                let fits = needed <= room;
                room = room.saturating_sub(needed);
                fits
            });
            let count = fitting.count().max(1);
            let end: Vec<Line<'_>> = lines.iter().rev().take(count).rev().map(|line| Line::raw(*line)).collect();
            frame.render_widget(Paragraph::new(end).block(block).wrap(Wrap { trim: false }), said);
        }
        let help = "q leave, the job goes on   ↑↓ PgUp PgDn scroll   End follow";
        frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
    }

    fn head(&self, now: i64) -> Vec<Line<'_>> {
        let Self { story, job, .. } = self;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let submitted = job.submitted_at.parse::<jiff::Timestamp>().map_or(now, |at| at.as_millisecond());
        let end = if job.is_over() { story.last_at.unwrap_or(now) } else { now };
        let done = story.rows.iter().filter(|row| matches!(row.state, State::Done | State::Failed)).count();
        let crashes = if story.crashes > 0 { format!(", {} after a crash", story.crashes) } else { String::new() };
        let price = cost(story.tokens, story.money_micros, story.unpriced_tokens);
        vec![
            Line::from(vec![
                Span::styled(job.agent.as_str(), bold),
                Span::raw("  "),
                Span::styled(job.status.as_str(), bold.fg(colour_of_status(job))),
                Span::raw(format!("  {}", job.id)),
            ]),
            Line::raw(format!(
                "{}  {}  {} tokens  cost {price}  {}{crashes}",
                duration(end.saturating_sub(submitted)),
                counted(done, "step"),
                story.tokens,
                counted(usize::try_from(story.invocations).unwrap_or(usize::MAX), "invocation"),
            )),
            Line::styled(story.last.as_str(), Style::new().add_modifier(Modifier::DIM)),
        ]
    }

    fn draw_steps(&self, frame: &mut Frame<'_>, area: Rect, now: i64) {
        let rows = &self.story.rows;
        let height = usize::from(area.height);
        let up = self.up.min(rows.len().saturating_sub(height));
        let until = rows.len().saturating_sub(up);
        let from = until.saturating_sub(height);
        let begin = self.story.first_at.unwrap_or(now);
        let end = if self.job.is_over() { self.story.last_at.unwrap_or(now) } else { now };
        // What a step waits for is read before how long its bar is, up to a quarter of the width.
        let notes = rows.iter().map(|row| row.note.chars().count()).max().unwrap_or_default();
        let notes = u16::try_from(notes).unwrap_or(u16::MAX).min(area.width / 4);
        let columns = area
            .width
            .saturating_sub(NAME_COLUMNS)
            .saturating_sub(FIGURES_COLUMNS)
            .saturating_sub(notes)
            .saturating_sub(4);
        let scale = Scale { begin, span: end.saturating_sub(begin).max(1), columns: usize::from(columns) };
        let lines: Vec<Line<'_>> =
            rows.get(from..until).unwrap_or_default().iter().map(|row| line(row, &scale, end)).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// Where a moment stands in the bars' columns.
struct Scale {
    begin: i64,
    span: i64,
    columns: usize,
}

impl Scale {
    fn at(&self, moment: i64) -> usize {
        let since = i128::from(moment.saturating_sub(self.begin).clamp(0, self.span));
        let columns = i128::try_from(self.columns).unwrap_or(i128::MAX);
        usize::try_from(since.saturating_mul(columns) / i128::from(self.span)).unwrap_or(self.columns)
    }
}

fn line<'a>(row: &'a Row, scale: &Scale, end: i64) -> Line<'a> {
    let (sign, colour) = match row.state {
        State::Done => ("✓", Color::Green),
        State::Failed => ("✗", Color::Red),
        State::Retrying => ("!", Color::Yellow),
        State::Waiting => ("…", Color::Yellow),
        State::Acting => ("▸", Color::Cyan),
        State::Shown => ("·", Color::DarkGray),
    };
    let open = matches!(row.state, State::Acting | State::Waiting | State::Retrying);
    let to = if open { end } else { row.to };
    let (first, last) = (scale.at(row.from), scale.at(to));
    let bar = if scale.columns == 0 {
        String::new()
    } else {
        let first = first.min(scale.columns.saturating_sub(1));
        let length = last.saturating_sub(first).max(1);
        let piece = if row.state == State::Waiting { "┄" } else { "━" };
        let rest = scale.columns.saturating_sub(first).saturating_sub(length);
        format!("{}{}{}", " ".repeat(first), piece.repeat(length), " ".repeat(rest))
    };
    let tries = if row.attempts > 1 { format!(" {}×", row.attempts) } else { String::new() };
    let took = if row.state == State::Shown { String::new() } else { duration(to.saturating_sub(row.from)) };
    let tokens = if row.tokens > 0 { format!(" {} tok", row.tokens) } else { String::new() };
    let dim = Style::new().add_modifier(Modifier::DIM);
    Line::from(vec![
        Span::styled(sign, Style::new().fg(colour)),
        Span::raw(" "),
        Span::raw(fitted(&row.name, usize::from(NAME_COLUMNS))),
        Span::raw(" "),
        Span::styled(bar, Style::new().fg(colour)),
        Span::raw(format!(" {took:>8}{tokens}")),
        Span::styled(tries, Style::new().fg(Color::Yellow)),
        Span::styled(if row.note.is_empty() { String::new() } else { format!("  {}", row.note) }, dim),
    ])
}

/// A number of things.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A text in exactly so many columns.
fn fitted(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return format!("{text:<columns$}");
    }
    let cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{cut}…")
}

fn colour_of_status(job: &JobView) -> Color {
    use longhaul_engine::job::Status;
    match job.status {
        Status::Completed => Color::Green,
        Status::Failed => Color::Red,
        Status::Waiting | Status::Blocked => Color::Yellow,
        Status::Processing => Color::Cyan,
        Status::Pending | Status::Cancelled => Color::Gray,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
    use longhaul_wire::socket::DeltaBody;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    use super::*;

    const JOB: &str = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f";

    fn job(status: &str) -> JobView {
        serde_json::from_value(json!({
            "id": JOB, "agent": "research@1", "status": status, "submitted_at": "2026-01-31T08:00:00Z",
            "updated_at": "2026-01-31T08:00:00Z", "submitted_by": "ada", "usage": {}, "steps": 0, "budget": {},
            "links": {"self": "", "journal": "", "events": ""},
        }))
        .unwrap()
    }

    fn event(position: u64, kind: &str, step: Option<&str>, second: u64, data: Value) -> Event {
        serde_json::from_value(json!({
            "specversion": "1.0", "id": format!("{JOB}/{position}"), "source": "/v1/jobs", "subject": step,
            "type": format!("longhaul.Agent{kind}"), "time": format!("2026-01-31T08:00:{second:02}Z"),
            "datacontenttype": "application/json", "sequence": format!("{position:010}"), "data": data,
        }))
        .unwrap()
    }

    /// What a person sees, without colours.
    fn seen(shown: &Shown, second: u64) -> String {
        let mut terminal = Terminal::new(TestBackend::new(150, 14)).unwrap();
        let now = "2026-01-31T08:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        terminal.draw(|frame| shown.draw(frame, now + i64::try_from(second).unwrap() * 1_000)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_job_as_it_is_seen() {
        let mut shown = Shown::new(job("PROCESSING"));
        for event in [
            event(1, "JobClaimed", None, 1, json!({"epoch": 1, "takeover": false})),
            event(
                2,
                "StepCompleted",
                Some("0"),
                4,
                json!({
                    "name": "plan", "kind": "effect", "attempt": 1, "started_at": "2026-01-31T08:00:01Z",
                    "usage": {"input_tokens": 100, "output_tokens": 20, "money_micros": 1_500},
                }),
            ),
            event(
                3,
                "AttemptFailed",
                Some("1"),
                8,
                json!({
                    "name": "write\u{1b}[31m", "kind": "effect", "attempt": 1, "started_at": "2026-01-31T08:00:04Z",
                    "failure": {"class": "transient", "message": "cut off"}, "retry_at": "2026-01-31T08:00:09Z",
                }),
            ),
            event(
                4,
                "Waiting",
                Some("2"),
                9,
                json!({"name": "approval", "kind": "signal", "on": {"for": "signal", "signal": "approval"}}),
            ),
        ] {
            shown.show(&event);
        }
        let delta = json!({"job": JOB, "epoch": 1, "step": "1", "name": "write", "attempt": 2, "offset": 0, "text": "Once\u{7}\nupon a time"});
        shown.hear(&serde_json::from_value::<DeltaBody>(delta).unwrap());
        let seen = seen(&shown, 10);
        for wanted in [
            "research@1  PROCESSING",
            "10.0 s  1 step  120 tokens  cost $0.0015  1 invocation",
            "✓ plan ",
            // The terminal's own marks are taken out of what others have named.
            "! write [31m ",
            "waits for the signal approval",
            " write says ",
            "upon a time",
            "q leave",
        ] {
            assert!(seen.contains(wanted), "{wanted:?} is not in\n{seen}");
        }
        assert!(!seen.contains('\u{1b}') && !seen.contains('\u{7}'), "{seen:?}");
        // Narrower than any person's, and empty: drawn all the same.
        for (width, height) in [(10, 3), (1, 1), (200, 60)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| shown.draw(frame, 0)).unwrap();
        }
    }

    #[test]
    fn a_replay_forgets_what_failed() {
        let mut shown = Shown::new(job("PROCESSING"));
        let step = |position, key, kind, second| {
            event(
                position,
                kind,
                Some(key),
                second,
                json!({"name": key, "kind": "step", "attempt": 1, "failure": {"message": "no"}}),
            )
        };
        for event in [step(1, "0", "StepCompleted", 1), step(2, "1", "StepFailed", 2)] {
            shown.show(&event);
        }
        shown.show(&event(3, "JobReplayed", None, 3, json!({"by": "ada"})));
        assert_eq!(shown.story.rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["0"]);
        shown.show(&event(4, "JobReplayed", None, 4, json!({"by": "ada", "from": 1})));
        assert!(shown.story.rows.is_empty());
    }
}
