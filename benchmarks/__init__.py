"""Jumar beside its floor: what a promise costs over the least that SQLite itself would cost.

`python -m benchmarks` measures both sides in one run, in blocks that take turns, and prints one line for each promise
about speed or size.  Only ratios within one run mean anything; microseconds belong to the machine they were measured
on, and no test ever asserts one.

- floors.py, bare.py, loop_floors.py: the same rows and statements, without Jumar around them.
- calls.py, concurrency.py, resuming.py, loops.py, disk.py, importing.py: the measurements.
- writes.py, files.py, rollback.py: those about files.
- measuring.py: blocks that take turns, medians and quartiles.
- machine.py, report.py: the facts of the machine, and the table.
"""
