//! Settings that no function could start with are refused before anything is started.

use std::process::Command;

use longhaul_tests::program::longhaul;

/// What is set, and what the refusal must name.
const ROWS: [(&str, &str, &str); 9] = [
    ("LONGHAUL_PRICES", "nonsense", "LONGHAUL_PRICES"),
    ("LONGHAUL_PROVIDERS", "[]", "LONGHAUL_PROVIDERS"),
    ("LONGHAUL_PROVIDERS", r#"{"c": {"wire": "bogus", "model": "m"}}"#, "LONGHAUL_PROVIDERS"),
    ("LONGHAUL_PROVIDERS", r#"{"c": {"wire": "chat", "model": "m", "key_variable": "NOT_SET"}}"#, "LONGHAUL_PROVIDERS"),
    ("LONGHAUL_MODEL_URL", "garbage", "URL"),
    ("LONGHAUL_TENANT_LIMITS", r#"{"jobs_opn": 3}"#, "LONGHAUL_TENANT_LIMITS"),
    ("LONGHAUL_WEBHOOK_SECRETS", "nonsense", "LONGHAUL_WEBHOOK_SECRETS"),
    ("LONGHAUL_TOOL_HOSTS", "127.0.0.1:7911", "LONGHAUL_TOOL_HOSTS"),
    ("LONGHAUL_RETRY_WAIT_FIRST_MS", "soon", "LONGHAUL_RETRY_WAIT_FIRST_MS"),
];

#[test]
fn a_setting_that_is_none_is_said_at_the_start() {
    for (name, value, wanted) in ROWS {
        let data = tempfile::tempdir().unwrap();
        let ran = Command::new(longhaul())
            .args(["run", "agent-10", "--detach", "--data"])
            .arg(data.path())
            .env(name, value)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success(), "{name}={value} was taken: {said}");
        assert!(said.contains(wanted), "{name}={value}: {said}");
    }
}
