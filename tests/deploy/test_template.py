"""template.yaml is what it should be, and the checks that say so see faults when there are some."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import ManualArgs, lint as lint_text

import checks
from resolve import Resolver
from settings import EVERYTHING, SETTINGS
from translate import read, translate

HERE = Path(__file__).resolve().parent
BROKEN = json.loads((HERE / "broken.json").read_text())


def lint(template: dict) -> str:
    """What cfn-lint finds in a translated template; nothing when it is clean."""
    return "\n".join(str(match) for match in lint_text(json.dumps(template, indent=1), config=ManualArgs(regions=["us-east-1"])))


def test_the_transform_and_cfn_lint_find_nothing() -> None:
    assert lint(translate(read())) == ""


@pytest.mark.parametrize("name", SETTINGS)
def test_our_checks_find_nothing(name: str) -> None:
    assert checks.faults(Resolver(translate(read()), SETTINGS[name]).resources()) == []


@pytest.mark.parametrize("timeout", read()["Parameters"]["WorkerTimeoutSeconds"]["AllowedValues"])
def test_each_worker_timeout_has_its_visibility(timeout: str) -> None:
    resources = Resolver(translate(read()), EVERYTHING | {"WorkerTimeoutSeconds": timeout, "QueueAgeAlarmSeconds": "1800"}).resources()
    assert list(checks.queues(resources)) == []


def test_parameters_say_what_they_are_and_are_safe() -> None:
    parameters = read()["Parameters"]
    for name, parameter in parameters.items():
        assert parameter.get("Description", "").endswith("."), f"{name} says nothing"
        if re.search("Key|Secret", name) and parameter["Type"] == "String":
            assert name.endswith(("Arn", "Prefix")), f"{name} is a secret and not a reference"
    without = [name for name, parameter in parameters.items() if "Default" not in parameter]
    assert sorted(without) == ["JwksUrl", "JwtAudience", "JwtIssuer", "ModelName", "ModelUrl"]
    shown = {name for group in read()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"] for name in group["Parameters"]}
    assert shown == set(parameters), "the form of the console leaves parameters out"


def test_each_parameter_is_used_and_documented() -> None:
    template = read()
    text = json.dumps({part: template[part] for part in ("Conditions", "Globals", "Resources")})
    page = (checks.ROOT / "docs" / "deploying.md").read_text()
    for name in template["Parameters"]:
        assert f'{{"Ref": "{name}"}}' in text or f"${{{name}}}" in text, f"{name} is used nowhere"
        assert f"`{name}`" in page, f"docs/deploying.md does not explain {name}"
    for name in template["Outputs"]:
        assert f"`{name}`" in page, f"docs/deploying.md does not explain {name}"


def test_the_packages_are_where_the_build_puts_them() -> None:
    for name, package in checks.FUNCTIONS.items():
        function = read()["Resources"][name]
        assert function["Properties"]["CodeUri"] == f"target/lambda/{package}/"
        manifest = (checks.ROOT / "functions" / package.removeprefix("longhaul-") / "Cargo.toml").read_text()
        assert f'name = "{package}"' in manifest


def change(template: dict, path: list, value: Any) -> None:
    """Sets what is at a path under Resources, or takes it away."""
    place: Any = template["Resources"]
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value


@pytest.mark.parametrize("variant", BROKEN, ids=[variant["name"] for variant in BROKEN])
def test_a_broken_template_is_caught(variant: dict) -> None:
    template = copy.deepcopy(read())
    change(template, variant["path"], variant.get("value"))
    if variant["caught_by"] == "transform":
        with pytest.raises(Exception, match=variant["says"]) as caught:
            translate(template)
        assert type(caught.value).__name__ in ("InvalidDocumentException", "InvalidResourceException")
    elif variant["caught_by"] == "cfn-lint":
        assert variant["says"] in lint(translate(template))
    else:
        check = getattr(checks, variant["caught_by"])
        found = list(check(Resolver(translate(template), EVERYTHING).resources()))
        assert any(variant["says"] in fault for fault in found), found


def test_every_check_has_a_broken_template() -> None:
    assert {check.__name__ for check in checks.CHECKS} | {"transform", "cfn-lint"} == {variant["caught_by"] for variant in BROKEN}
