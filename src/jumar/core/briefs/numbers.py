"""Which steps are not to be repeated, and numbers as people list them."""

from __future__ import annotations

from collections.abc import Iterable

from jumar.core.briefs.records import Brief


def ranges(numbers: Iterable[int], between: str, comma: str) -> str:
    """Numbers as people list them: `1 to 3, 5`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return comma.join(_run(first, last, between, comma) for first, last in runs[:20])


def _run(first: int, last: int, between: str, comma: str) -> str:
    if last - first > 1:
        return f"{first}{between}{last}"
    return str(first) if first == last else f"{first}{comma}{last}"


def finished_numbers(brief: Brief) -> list[int]:
    """The numbers not to be repeated: those before the present one, as far as they are finished."""
    if brief.left_out.get("done"):
        return list(range(1, brief.step_number))
    if brief.planned:
        planned = [step.number for step in brief.planned if step.state == "done"]
        return [*range(1, brief.planned[0].number), *planned]
    return [step.number for step in brief.done]
