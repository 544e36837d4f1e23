"""The old place of `jumar.database.forks`."""

from jumar.database.forks import FileId, file_id, inherit, is_inherited, keep, watch

__all__ = ["FileId", "file_id", "inherit", "is_inherited", "keep", "watch"]
