"""A receiver of webhooks that nobody here wrote the libraries of: it verifies by `standardwebhooks` and reads by the
official CloudEvents SDK, with the very code that docs/webhooks.md shows.

It listens on a free port of 127.0.0.1, prints the port, and then a JSON line for each request: what came, whether the
code of the page took it, and what it said to the same request when it was replayed, aged, cut or changed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

ROOT = Path(__file__).resolve().parents[2]


def shown_code() -> dict:
    """The code of the page, run."""
    page = (ROOT / "docs" / "webhooks.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.S)
    if found is None:
        raise LookupError("docs/webhooks.md shows no Python")
    names: dict = {}
    exec(compile(found.group(1), "docs/webhooks.md", "exec"), names)
    return names


class Receiver(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = STATUSES.pop(0) if STATUSES else 204
        said = {"status": status, "id": headers.get("webhook-id"), "signature": headers.get("webhook-signature"),
                "timestamp": headers.get("webhook-timestamp")}
        # A request that is answered with a failure comes again, so it must not count as taken.
        if status < 300:
            said["taken"] = attempt(headers, body)
            said["refused"] = {name: attempt(*changed) for name, changed in attacks(headers, body).items()}
            event = from_http_event(HTTPMessage(headers=headers, body=body))
            said["event"] = {"id": event.get_id(), "type": event.get_type(), "source": event.get_source(),
                             "specversion": event.get_specversion(), "time": event.get_time().isoformat()}
        print(json.dumps(said), flush=True)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing but the lines above is printed."""


def attempt(headers: dict, body: bytes) -> str:
    """What the code of the page makes of a request."""
    try:
        event = CODE["accept"](headers, body, [SECRET], SEEN)
    except CODE["WebhookVerificationError"] as error:
        return f"refused: {error}"
    return "known" if event is None else f"taken: {event['id']}"


def attacks(headers: dict, body: bytes) -> dict:
    """The same request as somebody would send it who has caught it, or has no secret."""
    def without(name: str) -> dict:
        return {key: value for key, value in headers.items() if key != name}

    def signed(seconds: float, body: bytes, secret: str = SECRET) -> dict:
        """Signed rightly, at another time or by somebody else. The library signs what it takes for UTC."""
        at = datetime.fromtimestamp(seconds, tz=timezone.utc)
        signature = Webhook(secret).sign(msg_id="evt_other", timestamp=at, data=body.decode())
        return headers | {"webhook-id": "evt_other", "webhook-timestamp": str(int(seconds)), "webhook-signature": signature}

    return {
        "replayed": (headers, body),
        "old": (signed(time.time() - 301, body), body),
        "future": (signed(time.time() + 301, body), body),
        "no signature": (without("webhook-signature"), body),
        "no timestamp": (without("webhook-timestamp"), body),
        "no id": (without("webhook-id"), body),
        "empty signature": (headers | {"webhook-signature": ""}, body),
        "another timestamp": (headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)}, body),
        "timestamp that is no number": (headers | {"webhook-timestamp": headers["webhook-timestamp"] + "abc"}, body),
        "another id": (headers | {"webhook-id": "evt_other"}, body),
        "another body": (headers, body.replace(b'"1.0"', b'"1.1"')),
        "another secret": (signed(time.time(), body, "whsec_YW5vdGhlciBzZWNyZXQgYWx0b2dldGhlciBoZXJl"), body),
    }


if __name__ == "__main__":
    SECRET, STATUSES = sys.argv[1], [int(status) for status in sys.argv[2:]]
    CODE, SEEN = shown_code(), set()
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_address[1], flush=True)
    server.serve_forever()
