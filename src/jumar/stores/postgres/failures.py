"""What PostgreSQL's errors mean to a person.

The server names an error by five characters, its SQLSTATE.  An attempt to connect that failed has none: of it libpq
keeps no more than a sentence, which is looked into for what waiting would not mend.
"""

from __future__ import annotations

import psycopg

from jumar import errors

_NEVER = (  # what a failed attempt to connect says where another would say the same
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "authentication failed",
    "authentication method",
    "certificate",
    "does not exist",
    "is not permitted to log in",
    "is not currently accepting connections",
    "permission denied for database",
    "server does not support SSL",
    "unsupported frontend protocol",
)
_COMING_UP = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections")

_BUSY = {
    "55P03": "a lock was not to be had in the time that the server allows",
    "57014": "a statement took longer than the server allows, or somebody cancelled it",
    "40P01": "it waited for another transaction that waited for it",
    "40001": "another transaction came between",
    "25P02": "the transaction had failed",
}
_ENDED = ("25P03", "25P04")  # a transaction was idle, or open, for longer than the server allows
_ALTERED = ("3F000", "42P01", "42703", "42883")  # no such schema, table, column, function
_MAKE_IT = "Look at the address; `jumar store migrate` makes a store's tables where there are none."


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, so that nothing is known of what was under way on it."""
    if isinstance(error, psycopg.Error) and error.sqlstate in _ENDED:
        return True
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    if isinstance(error, psycopg.errors.PipelineAborted):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def may_pass(error: psycopg.Error) -> bool:
    """Whether another attempt to connect may do better after a failed one."""
    can_pass = isinstance(error, psycopg.OperationalError) or is_lost(error)
    return can_pass and not any(words in str(error) for words in _NEVER)


def is_coming_up(error: psycopg.Error) -> bool:
    """Whether a server answered that it is on its way up or down."""
    return any(words in str(error) for words in _COMING_UP)


def not_connected(error: psycopg.Error, where: str) -> errors.JumarError:
    """The error a person sees where no connection to `where` was had."""
    said = " ".join(str(error).split())
    if isinstance(error, psycopg.ProgrammingError):
        # What libpq says of an address that it cannot read may quote a part of the password.
        return errors.UsageError(
            f"{where} cannot be read as the address of a PostgreSQL database",
            hint="It reads postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME; what in a password is neither a "
            "letter nor a digit is percent-encoded (@ is %40), and the parameters are libpq's.",
        )
    if may_pass(error):
        return errors.StoreUnavailable(
            f"{where} cannot be reached ({said})",
            hint="Start the server or look at the address, then `jumar resume RUN`: a run goes on from its last "
            "recorded fact.",
        )
    return errors.StoreUnavailable(
        f"{where} refused the connection ({said})",
        hint="Look at the user, password and database in the address, and at the server's pg_hba.conf.",
    )


def translated(error: psycopg.Error, where: str) -> errors.JumarError:
    """The error a person sees for an error that a statement on the database `where` met."""
    state, said = error.sqlstate or "", _said(error)
    if is_lost(error):
        return errors.StoreUnavailable(f"the connection to {where} was lost ({said})")
    if state in _BUSY:
        return errors.StoreBusy(f"{where} was busy: {_BUSY[state]} ({said})", hint="Try again, or resume the run.")
    if state in ("53100", "53400"):
        return errors.StoreFull(f"there is no room left for {where} ({said})")
    if state.startswith(("53", "58")):
        return errors.StoreUnavailable(
            f"the server of {where} has run out of something ({said})", hint="Look at the server's log, then resume."
        )
    if state == "25006":
        return errors.StoreReadOnly(
            f"{where} only reads ({said})",
            hint="It is a standby, or its transactions are read-only: give the address of the primary; with several "
            "hosts in it, target_session_attrs=read-write finds that one.",
        )
    if state == "42501":
        return errors.StoreReadOnly(
            f"{where} may not be used so by this role ({said})",
            hint="Let the owner of the schema grant it: USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its "
            "tables, EXECUTE on its functions.",
        )
    if state == "42601":
        return errors.UsageError(
            f"{where} cannot read its statements ({said})",
            hint="Where the schema is named by a word of SQL, as schema=order is, give it another name.",
        )
    if state in _ALTERED:
        return errors.SchemaMismatch(f"the tables of {where} are not what they should be ({said})", hint=_MAKE_IT)
    if state.startswith("XX"):
        return errors.IntegrityError(
            f"{where} is damaged ({said})",
            hint="Look at the server's log; where rows cannot be read, restore the database from a copy.",
        )
    return errors.StoreError(f"{where} refused a statement ({said})")


def _said(error: psycopg.Error) -> str:
    """The server's own sentence, without the rows and statements that may come with it."""
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
