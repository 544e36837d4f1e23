"""Settings that every test shares."""

from __future__ import annotations

import signal

from hypothesis import settings

# Examples that commit to a disk have no steady pace, so none has a deadline. A failure prints what repeats it.
settings.register_profile("jumar", deadline=None, print_blob=True)
settings.load_profile("jumar")

# A shell's job in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
