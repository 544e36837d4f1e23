"""The flows: each a generator that yields requests and receives their answers."""
