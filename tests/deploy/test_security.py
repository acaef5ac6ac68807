"""What checkov finds is fixed or has its reason, and each right is one that AWS knows.

checkov pins other versions of the AWS libraries than the SAM tools do, so these tests run in an environment of their own,
on the resources that `write_resolved.py` has written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from policy_sentry.querying.actions import get_action_data

HERE = Path(__file__).resolve().parent
RESOLVED = HERE.parents[1] / "target" / "deploy"
REASONED = json.loads((HERE / "findings.json").read_text())


def found(settings: str) -> set[tuple[str, str]]:
    """What checkov finds, as rule and resource."""
    run = subprocess.run(
        [Path(sys.executable).with_name("checkov"), "-f", RESOLVED / f"{settings}.json", "--framework", "cloudformation",
         "--output", "json", "--quiet", "--compact", "--skip-download"],
        capture_output=True, text=True, check=False, env=os.environ | {"LOG_LEVEL": "ERROR", "CHECKOV_RUN_SCA_PACKAGE_SCAN_V2": "false"})
    report = json.loads(run.stdout)
    assert report["summary"]["passed"] > 50, report["summary"]
    return {(check["check_id"], check["resource"].split(".")[-1]) for check in report["results"]["failed_checks"]}


@pytest.mark.parametrize("settings", ["usual", "everything"])
def test_checkov_finds_what_has_its_reason_and_nothing_else(settings: str) -> None:
    reasoned = {(row["id"], resource) for row in REASONED if settings in row["in"] for resource in row["at"]}
    assert found(settings) == reasoned


def rights() -> set[tuple[str, str]]:
    """All actions and resources of rights.json."""
    listing = json.loads((HERE / "rights.json").read_text())
    listing.pop("comment")
    return {(right["action"], resource)
            for function in listing.values() for right in function["calls"] + function["platform"] for resource in right["resources"]}


@pytest.mark.parametrize(("action", "resource"), sorted(rights()))
def test_aws_knows_the_action_and_no_finer_resource(action: str, resource: str) -> None:
    service, name = action.split(":")
    known = get_action_data(service, name)
    assert known, f"AWS knows no action {action}"
    forms = {form["resource_arn_format"] for form in known[service]}
    assert resource != "*" or forms == {"*"}, f"{action} can be allowed on {sorted(forms)}"
