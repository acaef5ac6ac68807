//! The stack that a command works with: one that runs already, or one that lives as long as the command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use longhaul_wire::JobView;
use serde_json::Value;

use super::client::Client;
use super::commands::json_argument;
use super::deployment::Tokens;
use super::{CliError, FaultArguments, Place};
use crate::rehearsal::Rehearsal;
use crate::stack::{Addresses, FolderError, Issuer, ModelChoice, Stack, StackError, StackOptions, running};
use crate::stores::faults::{FaultPlan, FaultPlanError};

/// How long a command's own token is good: longer than anybody watches.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// How long a folder that another command is taking or leaving is waited for, and how often it is looked at.
const TAKEN_WAIT: Duration = Duration::from_secs(10);
const TAKEN_LOOK: Duration = Duration::from_millis(100);

/// A stack to work with.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) addresses: Addresses,
    own: Option<Stack>,
    /// What a command needs besides to find the deployment again.
    named: String,
}

impl Connected {
    /// Whether the stack ends with this command.
    pub(super) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Ends the stack, if it is the command's own.
    pub(super) async fn end(self) {
        if let Some(stack) = self.own {
            stack.shutdown().await;
        }
    }

    /// What to type to look at a job later.
    pub(super) fn hint(&self, job: &JobView) -> String {
        format!("longhaul watch {}{}", job.id, self.named)
    }
}

impl Place {
    /// The data folder.
    pub(super) fn folder(&self) -> Result<PathBuf, CliError> {
        if let Some(data) = &self.data {
            return std::path::absolute(data).map_err(CliError::Output);
        }
        let directories =
            directories::ProjectDirs::from("dev", "longhaul", "longhaul").ok_or(CliError::NoDataFolder)?;
        Ok(directories.data_dir().to_owned())
    }

    /// The setup of a stack that this command starts.
    pub(super) fn options(&self) -> Result<StackOptions, CliError> {
        self.options_in(None)
    }

    /// The same in this folder, where one is named.
    pub(super) fn options_in(&self, data: Option<PathBuf>) -> Result<StackOptions, CliError> {
        let data = data.map_or_else(|| self.folder(), Ok)?;
        let program = std::env::current_exe()?;
        let lookup = |name: &str| std::env::var(name).ok();
        Ok(StackOptions {
            worker_timeout: Duration::from_secs(self.running.worker_timeout_seconds),
            workers: usize::from(self.running.workers),
            lifelike: self.running.as_aws,
            durable: self.running.durable,
            model: ModelChoice::from_lookup(lookup),
            rehearsal: Rehearsal {
                think_time: Duration::from_millis(self.running.think_ms),
                tokens_per_second: self.running.tokens_per_second,
            },
            faults: self.running.faults.plan()?,
            worker_clock_offsets_seconds: self.running.faults.worker_clock_offsets_seconds.clone(),
            env: passed_on(),
            ..StackOptions::new(data, program)
        })
    }

    /// Connects to a deployment that was named. The stack of the data folder is known by its address, too.
    async fn connect_to(&self, url: String) -> Result<Connected, CliError> {
        let named = format!(" --url {url}");
        let data = self.folder().ok();
        let local = data.as_deref().and_then(running).filter(|addresses| addresses.api == url);
        if let (Some(addresses), Some(data), false) = (local, data, self.target.has_token()) {
            let token = Issuer::open(&data)?.mint(self.tenant.as_str(), "developer", TOKEN_LIFETIME)?;
            let client = Client::new(&addresses.api, Tokens::Given(token));
            return Ok(Connected { client, addresses, own: None, named });
        }
        let tokens = self.target.tokens(&url)?;
        let addresses = self.target.addresses(&url)?;
        Ok(Connected { client: Client::new(&url, tokens), addresses, own: None, named })
    }

    /// Connects to the deployment that was named, or to the stack of the data folder, starting one if none runs.
    pub(super) async fn connect(&self) -> Result<Connected, CliError> {
        if let Some(url) = self.target.named()? {
            self.say_unheeded(&format!("{url} runs already"));
            return self.connect_to(url).await;
        }
        let data = self.folder()?;
        let give_up_at = Instant::now() + TAKEN_WAIT;
        let stack = loop {
            if let Some(addresses) = running(&data) {
                self.say_unheeded(&format!("a stack runs on {} already", data.display()));
                let token = Issuer::open(&data)?.mint(self.tenant.as_str(), "developer", TOKEN_LIFETIME)?;
                let client = Client::new(&addresses.api, Tokens::Given(token));
                return Ok(Connected { client, addresses, own: None, named: String::new() });
            }
            match Stack::start(self.options()?).await {
                Ok(stack) => break stack,
                // Another command has just taken the folder, or is about to leave it.
                Err(StackError::Folder(FolderError::Taken { .. })) if Instant::now() < give_up_at => {
                    tokio::time::sleep(TAKEN_LOOK).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let token = stack.issuer().mint(self.tenant.as_str(), "developer", TOKEN_LIFETIME)?;
        let addresses = stack.addresses().clone();
        let client = Client::new(&addresses.api, Tokens::Given(token));
        Ok(Connected { client, addresses, own: Some(stack), named: String::new() })
    }
}

impl FaultArguments {
    /// The fault plan that was given.
    fn plan(&self) -> Result<Option<FaultPlan>, CliError> {
        let Some(given) = &self.faults else { return Ok(None) };
        let argument = "--faults";
        let given = json_argument(argument, given)?;
        let plan: FaultPlan = serde_path_to_error::deserialize(given).map_err(|error| CliError::Argument {
            argument,
            what: format!("is no plan of faults: at {}: {}; docs/running.md has one", error.path(), error.inner()),
        })?;
        let wrong = |error: FaultPlanError| CliError::Argument { argument, what: error.to_string() };
        plan.check().map_err(wrong)?;
        Ok(Some(plan))
    }
}

/// Variables of the person's own that the functions get too.
const PASSED_ON: [&str; 14] = [
    "LONGHAUL_LOG",
    "LONGHAUL_RETRY_WAIT_FIRST_MS",
    "LONGHAUL_DOCUMENTS",
    "LONGHAUL_MODEL_TIME_LIMIT_SECONDS",
    "LONGHAUL_PROVIDERS",
    "LONGHAUL_PRICES",
    "LONGHAUL_TOOL_HOSTS",
    "LONGHAUL_TOOL_FUNCTIONS",
    // Where functions are: `sam local start-lambda`, or `cargo lambda watch`.
    "AWS_ENDPOINT_URL_LAMBDA",
    "LONGHAUL_SECRETS_FILE",
    "LONGHAUL_TENANT_LIMITS",
    "LONGHAUL_ERASURE_REST_SECONDS",
    "LONGHAUL_WEBHOOK_SECRETS",
    "LONGHAUL_MODEL_KEY_SECRET",
];

/// These variables with their values, and the keys of the model providers among them.
fn passed_on() -> BTreeMap<String, String> {
    let providers: Value =
        std::env::var("LONGHAUL_PROVIDERS").ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let keys: Vec<&str> = providers
        .as_object()
        .into_iter()
        .flat_map(|providers| providers.values())
        .filter_map(|provider| provider.get("key_variable")?.as_str())
        .collect();
    let passed = |name: &str| PASSED_ON.contains(&name) || keys.contains(&name);
    std::env::vars().filter(|(name, _)| passed(name)).collect()
}
