"""Ways to break the protocol that a storm must notice: in the store's own functions, and in the workers.

Those of the store rewrite a function in the schema of one test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psycopg

from jumar.stores.opening import open_store
from jumar.stores.postgres.address import parse

_LEASE = "_run.owner = _owner AND _run.epoch = _epoch AND "
_GUARDS = {
    "advance": f"{_LEASE}_run.version = _version AND _run.lease_until > _now",
    "renew_run": f"{_LEASE}_run.lease_until > _now",
}


def rewritten(address: str, parts: dict[str, str], new: str) -> None:
    """Replace a part of each of some functions of the store at an address, which must have it."""
    open_store(address).close()
    place = parse(address)
    with psycopg.connect(place.uri, autocommit=True) as connection:
        for name, old in parts.items():
            found = connection.execute(
                "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = to_regnamespace(%s) AND proname = %s",
                (place.schema, name),
            ).fetchone()
            assert found is not None and old in found[0], f"{name} does not have {old}"
            connection.execute(found[0].replace(old, new).encode())


STORE: dict[str, Callable[[str], None]] = {
    # A call that was on its way when its process died is not marked.
    "claims_mark_nothing": partial(rewritten, parts={"mark_calls": "state = 2 AND epoch < _run.epoch"}, new="false"),
    # Whoever has driven a run once may go on writing for ever.
    "leases_are_not_guarded": partial(rewritten, parts=_GUARDS, new="true"),
}
# Those of `mutations` that need no more than a process that dies.
WORKERS = ("effects_are_sent_without_a_record", "an_uncertain_external_call_is_simply_made_again")
