"""Run and call ids in a program's own logs.

Attach the filter to a handler, and every record that passes it, whoever logged it, knows the run and the call that it
was logged in:

    handler = logging.StreamHandler()
    handler.addFilter(jumar.logs.RunContextFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s [%(run_id)s %(call_id)s] %(message)s"))

or, in the dict that `logging.config.dictConfig` takes:

    "filters": {"run": {"()": "jumar.logs.RunContextFilter"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "filters": ["run"], "formatter": "plain"}},

`run_id` is the id of the run whose agent or tool logged the record, `call_id` that of the call whose body did; each is
"-" where there is none.  Jumar's own records, on the logger "jumar", have both already: a run's start, resumption,
takeover and end at INFO, and at WARNING an attempt that is tried again, a call that may have happened, a lease that
cannot be renewed, and a store that does not take hot writes or holds up runs that make them.

A filter on a logger sees only what is logged on that very logger; that is why this one belongs on a handler.  Where a
QueueHandler carries records to another thread, it belongs on the QueueHandler.
"""

from __future__ import annotations

import logging

from jumar.engine.logs import NOTHING
from jumar.engine.scope import current_scope

__all__ = ["RunContextFilter"]


class RunContextFilter(logging.Filter):
    """Lets every record pass, and gives it `run_id` and `call_id` where it has none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids; always True."""
        scope = current_scope.get()
        call = None if scope is None else scope.call
        if not hasattr(record, "run_id"):
            record.run_id = NOTHING if scope is None else scope.live.run_id
        if not hasattr(record, "call_id"):
            record.call_id = NOTHING if call is None else call.call_id
        return True
