"""What the deployed functions reach outside of AWS: an issuer's published keys, and a Chat Completions server."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "One step at a time."


class Outside:
    """Both, on one port of the loopback. It counts what the model was asked."""

    def __init__(self, jwks: str, think_seconds: float):
        self.asked: list[str] = []
        outside = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer("application/json", jwks.encode())

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outside.asked.append(self.headers.get("idempotency-key", ""))
                time.sleep(think_seconds)
                usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
                common = {"id": "c-1", "created": 1, "model": request["model"]}
                if not request.get("stream"):
                    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
                    body = common | {"object": "chat.completion", "choices": [choice], "usage": usage}
                    self._answer("application/json", json.dumps(body).encode())
                    return
                deltas = [({"role": "assistant", "content": ANSWER}, None), ({}, "stop")]
                chunks = [common | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
                          for delta, end in deltas]
                chunks.append(common | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
                text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
                self._answer("text/event-stream", text.encode())

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Ends the server."""
        self._server.shutdown()
