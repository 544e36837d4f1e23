"""Every rule of Jumar, once: records, tables and pure functions.  No I/O, clock, randomness, threads or asyncio."""
