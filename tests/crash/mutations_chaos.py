"""Ways to break the protocol that a storm must notice: in the store's own functions, and in the workers.

Those of the store rewrite a function in the schema of one test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psycopg

from jumar.stores.opening import open_store
from jumar.stores.postgres.address import parse

_GUARDS = "_run.owner = _owner AND _run.epoch = _epoch AND _run.version = _version AND _run.lease_until > _now"


def rewritten(address: str, functions: tuple[str, ...], old: str, new: str) -> None:
    """Replace a part of some functions of the store at an address, each of which must have it."""
    open_store(address).close()
    place = parse(address)
    with psycopg.connect(place.uri, autocommit=True) as connection:
        for name in functions:
            found = connection.execute(
                "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = to_regnamespace(%s) AND proname = %s",
                (place.schema, name),
            ).fetchone()
            assert found is not None and old in found[0], f"{name} does not have {old}"
            connection.execute(found[0].replace(old, new).encode())


STORE: dict[str, Callable[[str], None]] = {
    # A call that was on its way when its process died is not marked.
    "claims_mark_nothing": partial(
        rewritten, functions=("mark_calls",), old="state = 2 AND epoch < _run.epoch", new="false"
    ),
    # Whoever has driven a run once may write for ever.
    "advances_are_not_guarded": partial(rewritten, functions=("advance", "advance_plain"), old=_GUARDS, new="true"),
}
# Those of `mutations` that need no more than a process that dies.
WORKERS = (
    "effects_are_sent_without_a_record",
    "an_uncertain_external_call_is_simply_made_again",
    "not_knowing_counts_as_not_happened",
)
