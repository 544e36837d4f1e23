"""The old place of `jumar.database.failures`."""

from jumar.database.failures import BUSY_CODES, is_busy, primary_code, translated

__all__ = ["BUSY_CODES", "is_busy", "primary_code", "translated"]
