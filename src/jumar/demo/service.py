"""The outside service, a process of its own: a repair desk that takes orders over HTTP and can be asked about one.

It knows nothing of Jumar. Every order that arrives is carried out, a repeated one a second time: nothing here hides a
mistake. It writes each order and each question to its own book, and only then answers; the book is what the
demonstration counts afterwards.

    python -m jumar.demo.service BOOK

listens on a free port of 127.0.0.1, tells it on standard output, and ends when standard input does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import unquote

from jumar.demo.stage import append, end_with_parent, say

_FIRST_NUMBER = 1041


class Desk(ThreadingTCPServer):
    """The server with its book.  (http.server's own looks its host name up, which can take long without a network.)"""

    daemon_threads = True

    def __init__(self, book: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._book = book
        self._lock = threading.Lock()
        self._orders: list[dict[str, Any]] = []

    def take(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Take an order: this is the effect outside."""
        with self._lock:
            order = {"number": f"RD-{_FIRST_NUMBER + len(self._orders)}", **wanted}
            append(self._book, {"what": "order", "at": time.time(), **order}, to_disk=True)
            self._orders.append(order)
        return order

    def look_up(self, key: str) -> dict[str, Any] | None:
        """The order under a key."""
        with self._lock:
            found = next((order for order in self._orders if order["key"] == key), None)
            number = None if found is None else found["number"]
            append(self._book, {"what": "question", "at": time.time(), "key": key, "number": number}, to_disk=True)
        return found


class Handler(BaseHTTPRequestHandler):
    """POST /orders, GET /orders/KEY."""

    server: Desk
    timeout = 10.0

    def do_POST(self) -> None:
        """Take an order."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/orders":
            self._answer(404, None)
            return
        self._answer(200, self.server.take(json.loads(body)))

    def do_GET(self) -> None:
        """Tell of an order."""
        order = self.server.look_up(unquote(self.path.removeprefix("/orders/")))
        self._answer(404 if order is None else 200, order)

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the book tells what happened."""


def main() -> None:
    """Serve until the parent is gone."""
    end_with_parent()
    with Desk(sys.argv[1]) as desk:
        say("listening", address=f"127.0.0.1:{desk.server_address[1]}")
        desk.serve_forever()


if __name__ == "__main__":
    main()
