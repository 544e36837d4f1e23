"""The old place of `jumar.database.queries`."""

from jumar.database.queries import migrations, named_statements, statements

__all__ = ["migrations", "named_statements", "statements"]
