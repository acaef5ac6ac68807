//! Options that were typed though the command has no use for them. Every command knows those of the stack and of the
//! deployment, since most may need them; whoever types one that changes nothing is told, and does not wonder.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::deployment::Target;
use super::output::say;
use super::{CliError, Place, Running};

/// What was typed, as it is typed: `--workers`. What a variable said is for all commands, and no surprise.
#[derive(Debug, Default, Clone)]
pub(super) struct Typed {
    /// Of how a stack runs.
    running: Vec<String>,
    /// Of which deployment is meant.
    target: Vec<String>,
}

impl Typed {
    /// Those of a command line.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let mut deepest = matches;
        while let Some((_, inner)) = deepest.subcommand() {
            deepest = inner;
        }
        Self { running: typed::<Running>(deepest), target: typed::<Target>(deepest) }
    }
}

fn typed<A: Args>(matches: &ArgMatches) -> Vec<String> {
    let here: BTreeSet<&str> = matches.ids().map(clap::Id::as_str).collect();
    let known = A::augment_args(clap::Command::new("options"));
    let given = |name: &str| here.contains(name) && matches.value_source(name) == Some(ValueSource::CommandLine);
    let named = known.get_arguments().filter(|known| given(known.get_id().as_str()));
    named.filter_map(|known| known.get_long()).map(|long| format!("--{long}")).collect()
}

impl Place {
    /// Says which options of a stack that starts were typed, where none starts.
    pub(super) fn say_unheeded(&self, why: &str) {
        if !self.typed.running.is_empty() {
            say(&format!("{}: without effect, since {why}", self.typed.running.join(", ")));
        }
    }

    /// Refuses a deployment that was typed for a command with a stack of its own.
    pub(super) fn needs_no_deployment(&self, command: &str) -> Result<(), CliError> {
        if self.typed.target.is_empty() || self.target.named()?.is_none() {
            return Ok(());
        }
        let what = format!("`longhaul {command}` starts a stack of its own and works with no other; leave it out");
        Err(CliError::Argument { argument: "--url", what })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn what_was_typed_is_found_wherever_it_stands() {
        // The command line, and what of it a stack and a deployment are told.
        for (line, running, target) in [
            ("longhaul jobs ls", "", ""),
            ("longhaul --workers 3 jobs ls", "--workers", ""),
            ("longhaul jobs ls --workers 4", "--workers", ""),
            ("longhaul jobs --as-aws ls --faults {}", "--as-aws --faults", ""),
            ("longhaul run agent-10 --think-ms 1 --tokens 3", "--think-ms", ""),
            ("longhaul soak --url https://longhaul.example --durable", "--durable", "--url"),
            ("longhaul up --worker-clock-offsets-seconds=-90,0 --data /tmp/x", "--worker-clock-offsets-seconds", ""),
        ] {
            let matches = Arguments::command().try_get_matches_from(line.split(' ')).unwrap();
            let found = Typed::of(&matches);
            assert_eq!((found.running.join(" "), found.target.join(" ")), (running.into(), target.into()), "{line}");
        }
    }
}
