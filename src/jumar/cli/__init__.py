"""The command line: `jumar ...` and `python -m jumar`.  It shows and asks; every rule lies below it."""
