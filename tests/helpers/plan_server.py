"""A model server on this machine that answers every request with the same plan, or fails when it is told to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

PLAN = "Step: read on | Depends on: [s_1]\nRescued Spans: [] | Reason: none"


class PlanServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, text: str = PLAN, fails_after: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.text = text
        self.fails_after = fails_after
        """Requests that are answered; the others are refused."""
        self.asked = 0
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    @property
    def draft(self) -> str:
        """As an option names it."""
        return f"openai:some-model@http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, PlanServer)
        with server.lock:
            server.asked += 1
            refused = server.fails_after is not None and server.asked > server.fails_after
        choice = {"message": {"content": server.text}, "finish_reason": "stop"}
        answer = {"choices": [choice] * 3, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
        body = json.dumps({"error": {"message": "the model is gone"}} if refused else answer).encode()
        self.send_response(404 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...
