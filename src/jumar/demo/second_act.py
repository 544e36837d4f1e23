"""The second act, for a plain agent and a loop agent alike: a config is spoilt twice, and its process killed twice.

What is promised of the files is told state by state, from the looks that the process took which runs no agent.  The
first process is killed in the middle of a put-back, the second in the middle of a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from jumar import Harness
from jumar.demo.counts import Counts
from jumar.demo.looking import GONE, Look
from jumar.demo.model_fix import REFUSED, with_maintenance
from jumar.demo.piece import END, Act, Moment, Promise, State, Tally, Told, takeover_promise

FILE, FOLDER = "config/shop.ini", "config/shop.d"
PATHS = (("shop.ini", FILE), ("shop.d", FOLDER))  # with their short names
MODES = ((FILE, 0o640), (FOLDER, 0o750))  # what the site is given before the act, besides the folder itself
BEFORE = "before"
WRITES = 4

_DO_NOT_REPEAT = "do not repeat"
_PUTTING_BACK = "putting back"
_HALF = "half written"
_MOMENTS = (
    Moment(_PUTTING_BACK, "in the middle of that: the folder is there again, the file is not"),
    Moment(_HALF, "when half of the file is written"),
)


def prepare(site: Path) -> None:
    """Give the site the modes and the empty folder that the act is about, which no package can bring along."""
    (site / FOLDER).mkdir()
    for path, mode in MODES:
        (site / path).chmod(mode)


# --- What is promised of the files. ---


def _as_before(look: Look, counts: Counts) -> bool:
    before = counts.look(BEFORE)
    return before is not None and not look.other_than(before)


def _half_put_back(look: Look, counts: Counts) -> bool:
    """Whether the process was killed between two operations: the folder is there again, the file is not."""
    written = counts.look("written")
    return written is not None and look.at(FILE) == written.at(FILE) and look.at(FOLDER) != GONE


def _half_written(look: Look, counts: Counts) -> bool:
    return look.at(FILE) != GONE and not _as_before(look, counts) and not _only_as_wanted(look, counts)


def _only_as_wanted(look: Look, counts: Counts) -> bool:
    before = counts.look(BEFORE)
    return before is not None and look.other_than(before) == {FILE} and look.at(FILE) == _wanted()


def _wanted() -> str:
    """What is to be seen of the file in the end."""
    original = (resources.files("jumar.demo") / "site").joinpath(FILE).read_text(encoding="utf-8")
    return f"0640 {sha256(with_maintenance(original).encode()).hexdigest()}"


_STATES = (
    State(BEFORE, 1, "before", "its mode, and the first digits of its SHA-256; the folder is empty"),
    State("written", 1, "overwritten", "an empty file with another mode, and the folder removed: verify refuses that"),
    State(
        "killed " + _PUTTING_BACK,
        1,
        "killed amid put-back",
        "between two operations of the put-back: the folder is there again, the file is not",
        _half_put_back,
    ),
    State(
        "writing",
        2,
        "found by the next one",
        "put back byte for byte, mode too, before the write that was cut off is made again",
        _as_before,
    ),
    State("asked again", 1, "refused again", "put back before the agent is told, and asks the model again", _as_before),
    State("killed " + _HALF, 1, "killed amid write", "half of the model's second answer", _half_written),
    State("writing", WRITES, "found by the next one", "put back before the write is made again", _as_before),
    State(
        END,
        1,
        "in the end",
        "what the model wanted, with its mode; nothing else of the site is touched",
        _only_as_wanted,
    ),
)


# --- What is promised of the rest. ---


def _promises(decisions: int, tally: Tally) -> tuple[Promise, ...]:
    counts = tally.counts
    return (
        Promise("searches made", 1, counts.searches.total(), "once, over all processes and all attempts"),
        Promise(
            "times the model was asked",
            decisions,
            counts.decisions.total(),
            "no answer was lost: each one was on record before anything of it was done",
        ),
        Promise(
            "briefs it was given that tell why",
            1,
            sum(REFUSED in brief and _DO_NOT_REPEAT in brief for brief in counts.briefs),
            "the run's brief says what was refused, and what is not to be repeated",
        ),
        Promise(
            "times the config was written",
            WRITES,
            counts.writings.total(),
            "two writes, each cut off by a kill and made again once the files were back",
        ),
        takeover_promise(tally, len(_MOMENTS)),
    )


def _reports(output: dict[str, Any]) -> list[tuple[str, str]]:
    return [("changed", f"{output['file']}: {output['size']} bytes"), ("visitors get", f"the {output['page']} page")]


def _doubts(output: Any, counts: Counts) -> Iterator[str]:
    if not isinstance(output, dict) or output.get("file") != FILE:
        yield f"The report does not name {FILE}."


# --- What is told meanwhile. ---


def _seen(moment: str, counts: Counts, harness: Harness) -> list[Told]:
    if moment == _PUTTING_BACK:
        return [
            ("work", "It searches the config. The model's answer is cut off, and has nothing in it."),
            ("work", f"The config is overwritten with that: {_change(counts, 'written')}."),
            ("work", f"verify refuses it ({_why(harness)}), so the files are being put back."),
        ]
    if moment == _HALF:
        return [
            ("back", f"What was half put back is put back whole: {_now(counts, 'writing', 2)}."),
            ("work", "The write that was cut off is made again, is refused again, and the files are put back again."),
            (
                "work",
                f"The agent asks the model again, and with that gives it the run's brief. {_end_of_brief(counts)}",
            ),
            ("work", "No search is made again. The model's second answer is whole, and is being written."),
        ]
    return [
        ("back", f"What was half written is put back: {_now(counts, 'writing', WRITES)}."),
        ("work", f"The write is made again, whole, and verify accepts it: {_now(counts, END)}."),
    ]


def _change(counts: Counts, when: str) -> str:
    before, after = counts.look(BEFORE), counts.look(when)
    if before is None or after is None:
        return GONE
    changed = [(name, path) for name, path in PATHS if before.at(path) != after.at(path)]
    return ", ".join(f"{name} was {before.short(path)}, and is {after.short(path)}" for name, path in changed)


def _now(counts: Counts, when: str, number: int = 1) -> str:
    look = counts.look(when, number)
    return GONE if look is None else ", ".join(f"{name} is {look.short(path)}" for name, path in PATHS)


def _why(harness: Harness) -> str:
    """Why the newest call that writes is not accepted."""
    error = next(call.error for call in harness.show("last").calls if call.tool == "rewrite")
    return "it is not recorded" if error is None else error.partition(f"{REFUSED}: ")[2]


def _end_of_brief(counts: Counts) -> str:
    return f"It ends so: {counts.briefs[-1].splitlines()[-1]}" if counts.briefs else "It is empty."


def second_act(agent: str, model: str, decisions: int, who: str) -> Act:
    """The act with an agent of this name, which asks its model so often; `model` is what its decisions are called, and
    `who` the agent in words.
    """
    return Act(
        agent=agent,
        introduction=(
            f"{who} is to have the shop show its maintenance page. It overwrites a config of the site with an empty "
            "file, and is killed twice more, in the middle of putting that right and in the middle of a write. The "
            "tool says which files it may change and how to verify them; the rest is Jumar's."
        ),
        searches=1,
        decisions=decisions,
        moments=_MOMENTS,
        recorded=(
            ("search", "SUCCEEDED", 1),
            ("rewrite", "FAILED", 1),
            ("rewrite", "SUCCEEDED", 1),
            (model, "SUCCEEDED", decisions),
        ),
        promises=partial(_promises, decisions),
        seen=_seen,
        reports=_reports,
        doubts=_doubts,
        states=_STATES,
        paths=PATHS,
        prefix="fix-",
    )
