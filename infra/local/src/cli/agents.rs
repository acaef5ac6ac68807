//! `longhaul agents`: definitions checked on their author's machine, saved as versions, shown.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use longhaul_definition::{Checked, Finding, Format, Policy, json_schema, read_within};
use longhaul_wire::agents::AgentView;

use super::commands::print_json;
use super::output::{plain, print, say};
use super::{CliError, Output, Place, tables};

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// List the agents, those that ship and those that are defined.
    Ls {
        #[command(flatten)]
        output: Output,
    },
    /// Show an agent with its definition.
    Show {
        /// The agent, by name or name@version.
        agent: String,
        #[command(flatten)]
        output: Output,
    },
    /// Check a definition on this machine: everything that is wrong, with line and field.
    Check {
        /// The definition: a .yaml or .json file.
        file: PathBuf,
        #[command(flatten)]
        hosts: Hosts,
        #[command(flatten)]
        output: Output,
    },
    /// Save a definition as the next version of its agent.
    Apply {
        /// The definition: a .yaml or .json file.
        file: PathBuf,
        #[command(flatten)]
        hosts: Hosts,
        #[command(flatten)]
        output: Output,
    },
    /// Print the JSON Schema of definitions, for editors.
    Schema,
}

#[derive(Debug, clap::Args)]
pub(super) struct Hosts {
    /// Hosts beyond the public internet that its tools may reach in the deployment it is for.
    #[arg(long, env = "LONGHAUL_TOOL_HOSTS", value_delimiter = ',', value_name = "HOST")]
    tool_hosts: Vec<String>,
}

/// Does a command about agents.
pub(super) async fn run(place: &Place, command: AgentsCommand) -> Result<ExitCode, CliError> {
    match command {
        AgentsCommand::Check { file, hosts, output } => {
            let (text, format) = read(&file)?;
            let checked = check(&text, format, hosts);
            if output.json {
                return checked_as_json(&checked);
            }
            match checked {
                Ok(Checked { definition, digest, .. }) => {
                    print(&format!("{}: {} is good (digest {digest})", file.display(), plain(&definition.name)))?;
                    Ok(ExitCode::SUCCESS)
                }
                Err(findings) => Ok(wrong(&file, &findings)),
            }
        }
        AgentsCommand::Apply { file, hosts, output } => apply(place, &file, hosts, output).await,
        AgentsCommand::Schema => {
            print(&serde_json::to_string_pretty(&json_schema())?)?;
            Ok(ExitCode::SUCCESS)
        }
        AgentsCommand::Ls { output } => {
            let connected = place.connect().await?;
            let list = connected.client.agents().await;
            connected.end().await;
            let list = list?;
            if output.json {
                print_json(&list)?;
            } else {
                print(&tables::agents(&list.agents))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        AgentsCommand::Show { agent, output } => {
            let connected = place.connect().await?;
            let view = connected.client.agent(&agent).await;
            connected.end().await;
            let view = view?;
            if output.json {
                print_json(&view)?;
            } else {
                print(&tables::agent(&view)?)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What a check came to, for programs.
fn checked_as_json(checked: &Result<Checked, Vec<Finding>>) -> Result<ExitCode, CliError> {
    let good = checked.is_ok();
    let findings = checked.as_ref().err().map_or(&[][..], Vec::as_slice);
    let digest = checked.as_ref().ok().map(|checked| &checked.digest);
    print_json(&serde_json::json!({ "good": good, "digest": digest, "findings": findings }))?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn apply(place: &Place, file: &Path, hosts: Hosts, output: Output) -> Result<ExitCode, CliError> {
    let (text, format) = read(file)?;
    // Its author's machine says more and sooner than the deployment would.
    let checked = match check(&text, format, hosts) {
        Ok(checked) => checked,
        Err(findings) => {
            let refused = wrong(file, &findings);
            say("nothing was saved");
            return Ok(refused);
        }
    };
    let connected = place.connect().await?;
    let saved = connected.client.put_agent(&checked.definition.name, &checked.source).await;
    connected.end().await;
    let (view, created): (AgentView, bool) = saved?;
    if output.json {
        print_json(&view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let reference = view.card.reference();
    let what = if created { "saved as" } else { "says the same as" };
    print(&format!("{}: {what} {reference}", file.display()))?;
    for warning in &view.warnings {
        say(&plain(&format!("{}: warning: {warning}", file.display())));
    }
    say(&format!("run it: longhaul run {reference} --input 'JSON'"));
    Ok(ExitCode::SUCCESS)
}

fn check(text: &str, format: Format, hosts: Hosts) -> Result<Checked, Vec<Finding>> {
    read_within(text, format, &Policy { allowed_hosts: hosts.tool_hosts, ..Policy::default() })
}

fn read(file: &Path) -> Result<(String, Format), CliError> {
    let format = Format::of_file(&file.to_string_lossy()).ok_or_else(|| CliError::Argument {
        argument: "FILE",
        what: format!("{} is neither .yaml, .yml nor .json", file.display()),
    })?;
    let text = std::fs::read_to_string(file).map_err(|source| CliError::File {
        argument: "FILE",
        path: file.to_owned(),
        source,
    })?;
    Ok((text, format))
}

/// Says what is wrong with a definition, as compilers do: file and line first, so that editors find it.
fn wrong(file: &Path, findings: &[Finding]) -> ExitCode {
    for Finding { line, field, message, help } in findings {
        let field = if field.is_empty() { "the definition" } else { field };
        say(&plain(&format!("{}:{line}: {field} {message} ({help})", file.display())));
    }
    say(&format!("{} in {}", count(findings.len()), file.display()));
    ExitCode::FAILURE
}

fn count(findings: usize) -> String {
    match findings {
        1 => "1 fault".to_owned(),
        more => format!("{more} faults"),
    }
}
