"""The embedded store: one SQLite file in WAL mode with synchronous=FULL, or a database in memory on the same code."""
