"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import settings

# Examples that commit to a disk have no steady pace, so none has a deadline. A failure prints what repeats it.
settings.register_profile("jumar", deadline=None, print_blob=True)
settings.load_profile("jumar")
