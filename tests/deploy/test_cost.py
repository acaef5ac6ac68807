"""The price list reckons with the stack that the template describes; the formula and its page are tested beside it in Rust."""

from __future__ import annotations

import json

from checks import ROOT
from resolve import Resolver
from settings import NEEDED
from translate import read, translate

PRICES = json.loads((ROOT / "infra" / "local" / "src" / "cost" / "prices.json").read_text())
STACK = PRICES["stack"]


def test_the_memory_is_the_template_s() -> None:
    resources = Resolver(translate(read()), NEEDED).resources()
    for name, resource in resources.items():
        if resource["Type"] == "AWS::Lambda::Function":
            gigabytes = STACK["worker_memory_gb" if name == "WorkerFunction" else "other_memory_gb"]
            assert resource["Properties"]["MemorySize"] == gigabytes * 1024, name


def test_what_is_paid_for_by_the_month_is_what_there_is() -> None:
    types = [resource["Type"] for resource in read()["Resources"].values()]
    for part, kind in (("alarms", "AWS::CloudWatch::Alarm"), ("dashboards", "AWS::CloudWatch::Dashboard"),
                       ("insight_rules", "AWS::CloudWatch::InsightRule")):
        assert STACK[part] == types.count(kind), kind


def test_the_longest_invocation_is_the_template_s() -> None:
    assert STACK["invocation_seconds_max"] == int(read()["Parameters"]["WorkerTimeoutSeconds"]["Default"])


def test_prices_that_were_not_looked_up_say_so() -> None:
    page = (ROOT / "docs" / "cost.md").read_text()
    for prices in PRICES["regions"].values():
        assert set(PRICES["generally_known"]) <= set(prices)
    assert "generally known" in page
