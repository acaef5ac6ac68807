"""What a job costs on AWS, by service: the formula of docs/cost.md, whose tables a test holds to this.

Intervals come from the code's own limits. Prices are those of us-east-1 on the day that docs/cost.md names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MILLION = 1_000_000

# US dollars.
WRITE_UNIT = 0.625 / MILLION
READ_UNIT = 0.125 / MILLION
SQS_REQUEST = 0.40 / MILLION
LAMBDA_GB_SECOND = 0.0000133334
LAMBDA_REQUEST = 0.20 / MILLION
WEBSOCKET_MESSAGE = 1.00 / MILLION
WEBSOCKET_MINUTE = 0.25 / MILLION
HTTP_REQUEST = 1.00 / MILLION
DURABLE_OPERATION = 8.00 / MILLION
DURABLE_GB = 0.25
STATE_TRANSITION = 25.00 / MILLION

# Memory in GB as template.yaml sets it, and the time of one short invocation in seconds.
WORKER_GB = 0.5
OTHER_GB = 0.25
SHORT_SECONDS = 0.03
# Writes of one unit to the index `due` when a due time changes: the old place and the new one.
INDEX_MOVE = 2


def limit(name: str) -> int:
    """A limit of the protocol."""
    found = re.search(rf"pub const {name}: u64 = ([0-9_* ]+);", (ROOT / "shared/engine/src/limits.rs").read_text())
    if found is None:
        raise LookupError(f"limits.rs has no {name}")
    product = 1
    for factor in found.group(1).replace("_", "").split("*"):
        product *= int(factor)
    return product


@dataclass(frozen=True)
class Job:
    """A job: what it does, and with how many others it shares the worker's invocation."""

    steps: int = 10
    minutes: float = 5
    bytes: int = 2_000
    together: int = 1
    watchers: int = 1


def longhaul(job: Job) -> dict[str, float]:
    """US dollars by service."""
    seconds = job.minutes * 60
    units = ceil(job.bytes / 1024)
    invocations = ceil(seconds / 900)
    beats = seconds * 1000 / limit("HEARTBEAT_INTERVAL_MS") / job.together
    peeks = seconds * 1000 / limit("CANCEL_PEEK_INTERVAL_MS")
    renewals = seconds * 1000 / limit("LEASE_RENEWAL_INTERVAL_MS")
    entries = job.steps + 1 + invocations
    writes = (
        6                                          # submit: the item, its places in three indexes, by agent in one
        + invocations * (1 + INDEX_MOVE + 1)       # claim: item, due time, entry
        + (invocations - 1) * (1 + INDEX_MOVE)     # release at a deadline
        + job.steps * units                        # a step is one write
        + 1 + 1 + 1 + INDEX_MOVE                   # the end: entry, item, out of `due`, moved in `search`
        + renewals * (1 + INDEX_MOVE)
        + beats
    )
    reads = peeks + invocations * 2 + entries + 3  # peeks; claims; who watches, at each entry; the api and the stream
    messages = 1 + (invocations - 1) + beats       # continuations and watchdogs
    short = SHORT_SECONDS * LAMBDA_GB_SECOND
    pushed = entries * job.watchers
    return {
        "DynamoDB writes": writes * WRITE_UNIT,
        "DynamoDB reads": reads * READ_UNIT,
        "SQS (send, receive, delete)": messages * 3 * SQS_REQUEST,
        "Lambda: worker, driving": seconds / job.together * WORKER_GB * LAMBDA_GB_SECOND + invocations / job.together * LAMBDA_REQUEST,
        "Lambda: worker, watchdogs": beats * (short * WORKER_GB + LAMBDA_REQUEST),
        "Lambda: api and websocket": (2 + entries) * (short * OTHER_GB + LAMBDA_REQUEST),
        "HTTP API": HTTP_REQUEST,
        "WebSocket": pushed * WEBSOCKET_MESSAGE + job.watchers * job.minutes * WEBSOCKET_MINUTE,
    }


def durable_functions(job: Job) -> dict[str, float]:
    """The same job as a Lambda durable function: it waits for its model in its own invocation."""
    operations = job.steps + 1
    return {
        "operations": operations * DURABLE_OPERATION,
        "data written": job.steps * job.bytes / 1e9 * DURABLE_GB,
        "Lambda: driving": job.minutes * 60 * WORKER_GB * LAMBDA_GB_SECOND + LAMBDA_REQUEST,
    }


def step_functions(job: Job) -> dict[str, float]:
    """The same job as a Standard workflow whose tasks are Lambda functions."""
    return {
        "transitions": (job.steps + 2) * STATE_TRANSITION,
        "Lambda: driving": job.minutes * 60 * WORKER_GB * LAMBDA_GB_SECOND + job.steps * LAMBDA_REQUEST,
    }


def table(job: Job) -> list[str]:
    """The rows of one job's table, as they stand in docs/cost.md: dollars a million jobs."""
    rows = []
    for name, cost in (("Longhaul", longhaul(job)), ("Durable functions", durable_functions(job)), ("Step Functions", step_functions(job))):
        rows += [f"| {name} | {part} | {dollars * MILLION:,.0f} |" for part, dollars in cost.items()]
        rows.append(f"| **{name}** | **all** | **{sum(cost.values()) * MILLION:,.0f}** |")
    return rows


# The jobs whose tables are in docs/cost.md.
TABLES = {"alone": Job(), "ten together": Job(together=10)}

if __name__ == "__main__":
    for name, job in TABLES.items():
        print(name, *table(job), sep="\n")
