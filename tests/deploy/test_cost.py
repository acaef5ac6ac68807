"""docs/cost.md says what the formula gives, and the formula follows the protocol."""

from __future__ import annotations

import json

import pytest

import cost
from checks import ROOT
from resolve import Resolver
from settings import NEEDED
from translate import read, translate

PAGE = (ROOT / "docs" / "cost.md").read_text()


@pytest.mark.parametrize("name", cost.TABLES)
def test_the_page_has_the_table(name: str) -> None:
    assert "\n".join(cost.table(cost.TABLES[name])) in PAGE


def test_the_memory_is_the_template_s() -> None:
    resources = Resolver(translate(read()), NEEDED).resources()
    memory = {name: resources[name]["Properties"]["MemorySize"] for name in ("WorkerFunction", "ApiFunction", "WebSocketFunction", "SweeperFunction")}
    assert memory == {"WorkerFunction": cost.WORKER_GB * 1024, "ApiFunction": cost.OTHER_GB * 1024,
                      "WebSocketFunction": cost.OTHER_GB * 1024, "SweeperFunction": cost.OTHER_GB * 1024}


def test_a_step_is_one_write() -> None:
    def writes(job: cost.Job) -> float:
        return cost.longhaul(job)["DynamoDB writes"] / cost.WRITE_UNIT
    assert writes(cost.Job(steps=11, bytes=1024)) - writes(cost.Job(steps=10, bytes=1024)) == pytest.approx(1)


def test_idle_costs_name_the_alarms_that_there_are() -> None:
    alarms = sum(resource["Type"] == "AWS::CloudWatch::Alarm" for resource in read()["Resources"].values())
    assert f"{alarms} alarms ${alarms * 0.10:.2f}" in PAGE.replace("\n", " "), json.dumps(alarms)
