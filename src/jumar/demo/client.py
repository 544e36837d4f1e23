"""How the agent's tools talk to the repair desk: HTTP on this machine's own loopback address, past any proxy."""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from jumar.demo.stage import SERVICE

_SECONDS = 5.0


def place_order(part: str, place: str, key: str) -> dict[str, Any]:
    """Order a repair; each request that arrives is an order.  The desk keeps `key` beside it.  Raises OSError."""
    found = _ask("POST", "/orders", {"part": part, "place": place, "key": key})
    assert found is not None
    return found


def find_order(key: str) -> dict[str, Any] | None:
    """The order that was placed under this key, None where there is none.  Raises OSError."""
    return _ask("GET", f"/orders/{quote(key)}", None)


def _ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
    address = os.environ.get(SERVICE)
    if not address:
        raise ConnectionRefusedError(f"no repair desk is known: {SERVICE} is not set")
    connection = HTTPConnection(address, timeout=_SECONDS)
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise OSError(f"the repair desk answered {answer.status} {answer.reason}")
    found: dict[str, Any] = json.loads(data)
    return found
