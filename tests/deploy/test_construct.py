"""template.yaml and the CDK construct describe the same system: the same resources with the same properties."""

from __future__ import annotations

from typing import Any

import pytest

import checks
import construct
from resolve import Resolver, canonical
from settings import SETTINGS
from translate import read, translate

# What differs and does not matter, each with its reason.
IGNORED = {
    # Where the packages were uploaded to.
    ("AWS::Lambda::Function", "Code"),
    # SAM's mark on what it made.
    ("AWS::Lambda::Function", "Tags"),
    # CDK's mark on the function that removes objects; template.yaml has none either.
    ("AWS::S3::Bucket", "Tags"),
}


def described(resources: dict[str, dict]) -> dict[str, dict[str, Any]]:
    """Resources in the form in which two of the same meaning are equal."""
    return {
        name: {
            "Type": resource["Type"],
            "DeletionPolicy": resource["DeletionPolicy"],
            "UpdateReplacePolicy": resource["UpdateReplacePolicy"],
        } | {
            f"Properties.{key}": canonical({key: value})[key]
            for key, value in resource["Properties"].items() if (resource["Type"], key) not in IGNORED
        }
        for name, resource in resources.items()
    }


def differences(template: dict[str, dict], other: dict[str, dict]) -> list[str]:
    """Where the two differ, a line each."""
    left, right = described(template), described(other)
    found = [f"only template.yaml has {name}" for name in sorted(set(left) - set(right))]
    found += [f"only the construct has {name}" for name in sorted(set(right) - set(left))]
    for name in sorted(set(left) & set(right)):
        for key in sorted(set(left[name]) | set(right[name])):
            if left[name].get(key) != right[name].get(key):
                found.append(f"{name}: {key} is {left[name].get(key)} in template.yaml and {right[name].get(key)} in the construct")
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_template_and_construct_are_the_same(name: str) -> None:
    template = Resolver(translate(read()), SETTINGS[name]).resources()
    assert differences(template, construct.resources(name)) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_our_checks_find_nothing_in_the_construct(name: str) -> None:
    assert checks.faults(construct.resources(name)) == []


# A few of the differences that must be seen.
@pytest.mark.parametrize(("resource", "change"), [
    ("WorkerFunction", lambda properties: properties.pop("RecursiveLoop")),
    ("JobsQueue", lambda properties: properties.update(VisibilityTimeout=900)),
    ("ApiRole", lambda properties: properties["Policies"][0]["PolicyDocument"]["Statement"].pop()),
    ("StreamEventSource", lambda properties: properties["FilterCriteria"]["Filters"].pop()),
    ("QueueAgeAlarm", lambda properties: properties.update(Threshold=1801)),
    ("Dashboard", lambda properties: properties.update(DashboardBody='{"widgets": []}')),
])
def test_a_difference_is_seen(resource: str, change: Any) -> None:
    template = Resolver(translate(read()), SETTINGS["usual"]).resources()
    change(template[resource]["Properties"])
    found = differences(template, construct.resources("usual"))
    assert len(found) == 1 and found[0].startswith(resource), found
