"""How long "it did not happen" has to wait before it is acted upon, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long an attempt of a tool is reckoned with, in seconds: its timeout, what stands for one where it has none,
    and how long what it sent may act after its end.
    """

    timeout: float | None
    stall: float
    settle: float


def still_may(timing: Timing | None, error: str | None) -> str:
    """What may still happen until then, in the tool's own numbers where they are known; `error` is what the attempt
    ended with, where it has.
    """
    settle = "two lease_ttl by default" if timing is None else f"{timing.settle:g} s"
    if error is not None and not is_timeout(error):  # the attempt itself is over
        return f"what it sent may still act (for settle, {settle})"
    if timing is None:
        goes_on = "for its timeout, or stall_timeout, 600 s by default, where the tool has none"
    elif timing.timeout is None:
        goes_on = f"for stall_timeout, {timing.stall:g} s, as the tool has no timeout"
    else:
        goes_on = f"for its timeout, {timing.timeout:g} s"
    return f"the attempt itself may go on ({goes_on}), and after that what it sent may still act (for settle, {settle})"


def is_timeout(error: str) -> bool:
    """Whether an attempt that ended so may go on all the same."""
    return error.partition(":")[0] in ("TimeoutError", "CancelledError")
