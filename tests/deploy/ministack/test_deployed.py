"""The main job, through everything that template.yaml deploys: HTTP API, queue, worker, table, stream, WebSocket API.

The watcher is a client that nobody here wrote (`websockets`), and the services are those of MiniStack.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from stack import Stack

# Events behind which a job is over.
ENDS = ("longhaul.AgentJobCompleted", "longhaul.AgentJobFailed", "longhaul.AgentJobCancelled")
# Long enough for a busy machine: a job of half a minute, a cold start and a continuation.
PATIENCE_SECONDS = 180


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("ministack"))
    yield running
    running.stop()


def call(stack: Stack, method: str, path: str, body: object = None, token: str | None = None, **headers: str) -> tuple[int, dict]:
    """One call of the HTTP API: status and body."""
    request = urllib.request.Request(stack.api + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {token or stack.token()}")
    request.add_header("content-type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=40) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def submit(stack: Stack, key: str, **given: object) -> str:
    status, job = call(stack, "POST", "/v1/jobs", {"agent": "agent-10", "input": given}, idempotency_key=key)
    assert status == 202, job
    return job["id"]


def until(stack: Stack, job: str, *statuses: str) -> dict:
    """Waits for a status."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        _, found = call(stack, "GET", f"/v1/jobs/{job}")
        if found.get("status") in statuses:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{job} did not become {statuses}: {found}")


def kinds(stack: Stack, job: str) -> list[str]:
    """The journal's entries by type."""
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        _, page = call(stack, "GET", f"/v1/jobs/{job}/journal?after={after}")
        found += [entry["entry"]["type"] for entry in page["entries"]]
        after = page.get("next") if page["entries"] else None
    return found


def watch(stack: Stack, job: str, **how: object) -> list[dict]:
    """Watches a job to its end: its events, in the order in which they came."""
    with connect(stack.websocket, additional_headers={"Authorization": f"Bearer {stack.token()}"}, open_timeout=60) as socket:
        socket.send(json.dumps({"action": "subscribe", "job": job, "after": 0}))
        events: list[dict] = []
        while True:
            message = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
            if message["type"] == "event":
                events.append(message["event"])
                if message["event"]["type"] in ENDS:
                    return events


def test_strangers_are_kept_out(stack: Stack) -> None:
    for token in ("nonsense", stack.token(audience="another"), stack.token(issuer="https://other.example/"), stack.token(seconds=-3600)):
        assert call(stack, "GET", "/v1/jobs", token=token)[0] == 401
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{stack.websocket}?token={token}", open_timeout=60).close()
        assert refused.value.response.status_code in (401, 403)
    assert call(stack, "GET", "/v1/jobs", token=stack.token(scope=""))[0] == 403


def test_a_job_goes_on_over_invocations_and_is_watched(stack: Stack) -> None:
    steps = 40
    asked = len(stack.outside.asked)
    job = submit(stack, "main", steps=steps, bytes=2000)
    assert submit(stack, "main", steps=steps, bytes=2000) == job, "the same key is the same job"
    events = watch(stack, job)
    sequences = [int(event["sequence"]) for event in events]
    assert sorted(set(sequences)) == list(range(min(sequences), max(sequences) + 1)), "a watcher misses nothing"
    done = until(stack, job, "COMPLETED")
    assert done["result"] == {"steps": steps, "bytes": steps * 2000}
    entries = kinds(stack, job)
    assert entries.count("claimed") >= 2, "half a minute of steps needs two invocations of 30 s"
    assert entries.count("step_completed") == steps
    keys = stack.outside.asked[asked:]
    assert len(keys) == len(set(keys)) == steps, "no step asked the model twice"


def stream(stack: Stack, path: str, token: str | None = None, **headers: str) -> tuple[int, str]:
    """One call of the address that streams: status and body."""
    request = urllib.request.Request(stack.events + path)
    request.add_header("accept", "text/event-stream")
    request.add_header("authorization", f"Bearer {token or stack.token()}")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_events_come_as_a_stream_where_the_api_says(stack: Stack) -> None:
    job = submit(stack, "streamed", steps=3)
    until(stack, job, "COMPLETED")
    status, refused = call(stack, "GET", f"/v1/jobs/{job}/events", accept="text/event-stream")
    assert status == 406 and refused["streams"] == stack.outputs["EventsUrl"].rstrip("/"), refused
    _, page = call(stack, "GET", f"/v1/jobs/{job}/events")
    status, text = stream(stack, f"/v1/jobs/{job}/events")
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert status == 200 and events == page["events"], text
    ids = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]
    status, rest = stream(stack, f"/v1/jobs/{job}/events", last_event_id=ids[-2])
    assert status == 200 and rest.count("data: ") == 1, rest
    assert stream(stack, f"/v1/jobs/{job}/events", last_event_id=ids[-1])[0] == 204
    assert stream(stack, f"/v1/jobs/{job}/events", token="nonsense")[0] == 401
    assert stream(stack, f"/v1/jobs/{job}/events", token=stack.token(tenant="other"))[0] == 404
    assert stream(stack, "/v1/jobs")[0] == 404, "it gives events and nothing else"


def test_a_failure_is_a_dead_letter_and_is_replayed_mended(stack: Stack) -> None:
    job = submit(stack, "broken", steps=3, fail_at=2)
    failed = until(stack, job, "FAILED")
    assert "told to fail" in json.dumps(failed)
    sqs = stack.client("sqs")
    letters = sqs.receive_message(QueueUrl=stack.outputs["DeadLetterQueueUrl"], WaitTimeSeconds=10, VisibilityTimeout=0).get("Messages", [])
    assert [json.loads(letter["Body"])["job"] for letter in letters] == [job]
    listed = call(stack, "GET", "/v1/dead-letters")[1]
    assert job in [letter["id"] for letter in listed["dead_letters"]]
    asked = len(stack.outside.asked)
    status, answer = call(stack, "POST", f"/v1/jobs/{job}/replay", {"edit": {"input": {"steps": 3, "fail_at": 2, "mended": True}}}, idempotency_key="mend")
    assert status in (200, 202), answer
    assert until(stack, job, "COMPLETED")["result"]["steps"] == 3
    assert len(stack.outside.asked) - asked == 2, "the first step was paid for already"
    for letter in letters:
        sqs.delete_message(QueueUrl=stack.outputs["DeadLetterQueueUrl"], ReceiptHandle=letter["ReceiptHandle"])


def test_a_dead_letter_that_is_moved_back_is_a_replay(stack: Stack) -> None:
    job = submit(stack, "redriven", steps=2, fail_at=2)
    until(stack, job, "FAILED")
    sqs = stack.client("sqs")
    letter = sqs.receive_message(QueueUrl=stack.outputs["DeadLetterQueueUrl"], WaitTimeSeconds=10)["Messages"][0]
    # As the console's redrive does it; MiniStack has no move task.
    sqs.send_message(QueueUrl=stack.outputs["JobsQueueUrl"], MessageBody=letter["Body"])
    end = time.monotonic() + PATIENCE_SECONDS
    while kinds(stack, job).count("failed") < 2:
        assert time.monotonic() < end, kinds(stack, job)
        time.sleep(0.5)
    assert kinds(stack, job).count("replayed") == 1


def test_a_cancel_ends_a_job_in_mid_work(stack: Stack) -> None:
    job = submit(stack, "cancelled", steps=200)
    end = time.monotonic() + PATIENCE_SECONDS
    while "step_completed" not in kinds(stack, job):
        assert time.monotonic() < end
        time.sleep(0.2)
    status, answer = call(stack, "POST", f"/v1/jobs/{job}/cancel", {"reason": "enough"})
    assert status in (200, 202), answer
    until(stack, job, "CANCELLED")
    assert kinds(stack, job).count("step_completed") < 200


def test_another_tenant_sees_nothing(stack: Stack) -> None:
    job = submit(stack, "private", steps=1)
    assert call(stack, "GET", f"/v1/jobs/{job}", token=stack.token(tenant="other"))[0] == 404


def test_the_schedule_runs_the_sweeper(stack: Stack) -> None:
    logs = stack.client("logs")
    end = time.monotonic() + PATIENCE_SECONDS
    while not any('"swept"' in event["message"]
                  for event in logs.filter_log_events(logGroupName=stack.resources["SweeperLogs"]).get("events", [])):
        assert time.monotonic() < end, "the schedule has not run the sweeper"
        time.sleep(2)


def test_the_log_of_the_run_has_no_secret(stack: Stack) -> None:
    text = Path(stack.log).read_text()
    assert stack.token().split(".")[0] not in text
