"""The second act of `jumar demo` and of `jumar demo --loop`: files that are spoilt, and put back across real kills."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from jumar import Harness
from jumar.demo import model_fix
from jumar.demo.counts import count
from jumar.demo.figures import ActResult, DemoResult
from jumar.demo.piece import Piece
from jumar.demo.piece_loop import LOOP
from jumar.demo.piece_plain import PLAIN
from jumar.demo.play import Beat, play
from jumar.demo.telling import Teller
from tests.integration.demo_helpers import lines, running_in

FILE, FOLDER = "config/shop.ini", "config/shop.d"
EMPTY = sha256(b"").hexdigest()
ORIGINAL = (resources.files("jumar.demo") / "site" / "config" / "shop.ini").read_bytes()
WANTED = ORIGINAL.replace(b"enabled = no", b"enabled = yes")
HALF = WANTED[: len(WANTED) // 2]


class Played(NamedTuple):
    """The second act of a piece as it went: its figures, what was told meanwhile, and where."""

    piece: Piece
    result: DemoResult
    beats: list[Beat]
    directory: Path

    @property
    def act(self) -> ActResult:
        return self.result.acts[0]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The act in both pieces, played side by side: most of the time is spent waiting for leases."""
    places = [tmp_path_factory.mktemp("fix") for _ in (PLAIN, LOOP)]
    with ThreadPoolExecutor(2) as threads:
        played = threads.map(second_act_of, (PLAIN, LOOP), places)
        return dict(zip(("plain", "loop"), played, strict=True))


def second_act_of(whole: Piece, directory: Path) -> Played:
    piece, beats, ended = Piece(whole.command, whole.acts[1:]), list[Beat](), list[ActResult]()
    result = play(piece, directory, beats.append, lambda store, act: ended.append(act))
    assert tuple(ended) == result.acts
    return Played(piece, result, beats, directory)


@pytest.fixture(scope="module", params=["plain", "loop"])
def played(request: pytest.FixtureRequest, both: dict[str, Played]) -> Played:
    return both[request.param]


def by_process(played: Played, what: str) -> list[tuple[str, int]]:
    """What the witness saw of a kind: the detail, and which of the three processes it was."""
    takeovers = played.act.takeovers
    pids = [takeovers[0].killed, *(takeover.successor for takeover in takeovers)]
    seen = lines(played.directory / "fix-witness.jsonl")
    return [(line["detail"], pids.index(line["pid"]) + 1) for line in seen if line["what"] == what]


def of(mode: str, data: bytes) -> str:
    return f"{mode} {sha256(data).hexdigest()}"


# --- What was promised. ---


def test_every_promise_is_kept(played: Played) -> None:
    assert (played.result.problems, played.act.status) == ((), "COMPLETED")
    asked = {"jumar demo": 2, "jumar demo --loop": 4}[played.piece.command]
    assert {row.what: (row.promised, row.counted) for row in played.act.promises} == {
        "searches made": (1, 1),
        "times the model was asked": (asked, asked),
        "briefs it was given that tell why": (1, 1),
        "times the config was written": (4, 4),
        "takeovers by another process": (2, 2),
    }


def test_the_files_are_put_back_byte_for_byte_with_their_modes_and_the_empty_folder(played: Played) -> None:
    before = {FILE: of("0640", ORIGINAL), FOLDER: "0750"}
    assert [(row.when, row.seen, row.kept) for row in played.act.files] == [
        ("before", before, None),
        ("overwritten", {FILE: of("0644", b""), FOLDER: "gone"}, None),
        ("killed amid put-back", {FILE: of("0644", b""), FOLDER: "0700"}, True),
        ("found by the next one", before, True),
        ("refused again", before, True),
        ("killed amid write", {FILE: of("0644", HALF), FOLDER: "0750"}, True),
        ("found by the next one", before, True),
        ("in the end", {FILE: of("0640", WANTED), FOLDER: "0750"}, True),
    ]


def test_nothing_else_of_the_site_is_touched_and_nothing_is_left_over(played: Played) -> None:
    package = Path(str(resources.files("jumar.demo") / "site"))
    names = {str(path.relative_to(package)) for path in package.rglob("*")}
    site = played.directory / "site"
    assert {str(path.relative_to(site)) for path in site.rglob("*")} == {*names, FOLDER}
    for name in names:
        if (package / name).is_file():
            assert (site / name).read_bytes() == (WANTED if name == FILE else (package / name).read_bytes())


def test_the_first_process_is_killed_between_two_operations_of_the_put_back(played: Played) -> None:
    look = played.act.counts.look("killed putting back")
    assert look is not None
    (slot,) = [path for path in look.seen if Path(path).name.startswith(".jumar-")]
    assert look.at(slot) == of("0640", ORIGINAL)  # prepared, and not in its place yet
    assert (look.at(FILE), look.at(FOLDER)) == (of("0644", b""), "0700")
    assert [takeover.moment for takeover in played.act.takeovers] == ["putting back", "half written"]
    assert {takeover.signal for takeover in played.act.takeovers} == {"SIGKILL"}


def test_the_config_is_searched_once_and_no_decision_is_asked_for_twice(played: Played) -> None:
    assert by_process(played, "search") == [(" in site/config/shop.ini", 1)]
    asked = [process for _, process in by_process(played, "decision")]
    assert asked == {"jumar demo": [1, 2], "jumar demo --loop": [1, 1, 2, 3]}[played.piece.command]
    assert set(played.act.counts.decisions.values()) == {1}


def test_each_write_that_was_cut_off_is_made_again_by_the_next_process(played: Played) -> None:
    empty, whole = "shop.ini, 0 characters", f"shop.ini, {len(WANTED)} characters"
    assert by_process(played, "writing") == [(empty, 1), (empty, 2), (whole, 2), (whole, 3)]


def test_the_run_that_is_kept_is_whole(played: Played) -> None:
    with Harness(played.result.store) as harness:
        view = harness.show(played.act.run_id)
        assert harness.doctor().sound
    refused, accepted = [call for call in view.calls if call.tool == "rewrite"]
    assert (refused.state, refused.attempt, refused.epoch) == ("FAILED", 2, 2)
    assert refused.error == f"VerificationFailed: {model_fix.REFUSED}: shop.ini does not say where to serve"
    assert (accepted.state, accepted.attempt, accepted.epoch) == ("SUCCEEDED", 2, 3)
    assert (accepted.result, accepted.before != accepted.after) == (len(WANTED), True)
    assert view.output == {"file": FILE, "size": len(WANTED), "page": "maintenance"}


def test_the_agent_asks_again_with_a_brief_that_says_why_and_what_not_to_repeat(played: Played) -> None:
    (brief,) = played.act.counts.briefs
    assert f"{model_fix.REFUSED}: shop.ini does not say where to serve" in brief
    assert re.search(r"Continue .*; do not repeat ", brief.splitlines()[-1])
    assert by_process(played, "brief") == [(brief, 2)]
    told = " ".join(beat.text for beat in played.beats)
    assert f"It ends so: {brief.splitlines()[-1]}" in told


def test_it_is_told_in_the_order_in_which_it_happens(played: Played) -> None:
    assert [beat.kind for beat in played.beats if beat.kind not in ("work", "waiting")] == [
        *("act", "start", "kill"),
        *("wait", "takeover", "back", "kill"),
        *("wait", "takeover", "back", "done"),
    ]
    assert running_in(played.directory) == []


def test_a_program_gets_what_was_seen_of_the_files(played: Played) -> None:
    first = ActResult(PLAIN.acts[0], "", "", played.act.counts, (), played.act.view)
    figures = DemoResult(PLAIN, "", "", 0.0, (first, played.act)).to_json()["fix"]
    assert figures["searches"] == {"promised": 1, "recorded": 1, "counted": 1, "most_for_one": 1}
    files = json.loads(json.dumps(figures["files"]))
    assert [row["kept"] for row in files] == [None, None, *[True] * 6]
    assert files[1]["seen"] == {FILE: f"0644 {EMPTY}", FOLDER: "gone"}


# --- Where a promise is broken. ---


def told(result: DemoResult, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    teller = Teller(console)
    teller.table(result.acts[0])
    teller.close(result, is_kept=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def counted_again(played: Played, name: str, change: Callable[[list[dict[str, Any]]], object], to: Path) -> DemoResult:
    """The figures as they would be if one of the witnesses' files were changed."""
    entries = lines(played.directory / name)
    change(entries)
    (to / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    files = [to / name if file.name == name else file for file in played.act.act.files(played.directory)]
    act = played.act
    again = ActResult(act.act, act.run_id, act.status, count(*files), act.takeovers, act.view)
    return DemoResult(played.piece, played.result.store, played.result.directory, 1.0, (again,))


def seeing(number: int, path: str, seen: str | None) -> Callable[[list[dict[str, Any]]], object]:
    """A change of the looks: in one of them something else was seen of a path."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[number]["seen"].pop(path, None)
        if seen is not None:
            entries[number]["seen"][path] = seen

    return change


LOOKS = [
    *("before", "writing", "written", "killed putting back"),
    *("writing", "written", "asked again", "writing", "killed half written"),
    *("writing", "written", "end"),
]
BROKEN = {
    "a put-back that was over": (3, FILE, of("0640", ORIGINAL), "killed amid put-back"),
    "another mode after a takeover": (4, FILE, of("0644", ORIGINAL), "found by the next one"),
    "another byte after a takeover": (4, FILE, of("0640", ORIGINAL + b"\n"), "found by the next one"),
    "no folder after a takeover": (4, FOLDER, None, "found by the next one"),
    "a file too many after a takeover": (4, "config/.jumar-0-0", of("0640", b""), "found by the next one"),
    "an empty file after a refusal": (6, FILE, of("0644", b""), "refused again"),
    "a write that had not begun": (8, FILE, of("0640", ORIGINAL), "killed amid write"),
    "half a file after a takeover": (9, FILE, of("0644", HALF), "found by the next one"),
    "another file changed in the end": (11, "config/nginx.conf", of("0644", b""), "in the end"),
    "the mode lost in the end": (11, FILE, of("0644", WANTED), "in the end"),
    "the file unchanged in the end": (11, FILE, of("0640", ORIGINAL), "in the end"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_files_that_are_not_as_promised_are_told_as_a_broken_promise(played: Played, tmp_path: Path, what: str) -> None:
    number, path, seen, label = BROKEN[what]
    assert [entry["when"] for entry in lines(played.directory / "fix-looks.jsonl")] == LOOKS
    result = counted_again(played, "fix-looks.jsonl", seeing(number, path, seen), tmp_path)
    assert not result.ok
    (problem,) = result.problems
    assert problem.startswith(f"The files are not as promised, {label}: ")
    assert len(re.findall(rf"^  {label} .* BROKEN$", told(result), re.MULTILINE)) == 1
    assert len(re.findall(" BROKEN$", told(result), re.MULTILINE)) == 1
    assert problem in told(result)


def test_files_that_nobody_looked_at_are_a_broken_promise(played: Played, tmp_path: Path) -> None:
    result = counted_again(played, "fix-looks.jsonl", lambda looks: looks.pop(6), tmp_path)
    assert result.problems == ("The files are not as promised, refused again: not seen.",)
    assert re.search(r"^  refused again +not seen +BROKEN$", told(result), re.MULTILINE)


def test_a_search_or_a_write_too_many_is_a_broken_promise(played: Played, tmp_path: Path) -> None:
    def again(what: str) -> DemoResult:
        def change(seen: list[dict[str, Any]]) -> None:
            seen.append(next(line for line in seen if line["what"] == what))

        return counted_again(played, "fix-witness.jsonl", change, tmp_path)

    searched = again("search")
    assert "searches made: promised 1, counted 2." in searched.problems
    assert re.search(r"searches made +1 +2  BROKEN", told(searched))
    assert again("writing").problems == ("times the config was written: promised 4, counted 5.",)


def test_a_brief_that_does_not_tell_is_a_broken_promise(played: Played, tmp_path: Path) -> None:
    def silent(seen: list[dict[str, Any]]) -> None:
        next(line for line in seen if line["what"] == "brief")["detail"] = "Go on."

    result = counted_again(played, "fix-witness.jsonl", silent, tmp_path)
    assert result.problems == ("briefs it was given that tell why: promised 1, counted 0.",)


# --- Told to a person. ---


def test_on_a_narrow_terminal_no_line_about_the_files_is_broken(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = told(played.result, 60)
    about_files = text[text.index("What the files were") : text.index("Counted in")]
    assert max(map(len, about_files.splitlines())) <= 60


def test_without_the_brief_the_model_would_make_its_mistake_again() -> None:
    config = ORIGINAL.decode().splitlines()
    assert model_fix.maintenance(config, "")[0] == "{}"
    assert model_fix.maintenance(config, "This run goes on after an interruption.")[0] == "{}"
    answer, usage = model_fix.maintenance(config, f"VerificationFailed: {model_fix.REFUSED}")
    assert json.loads(answer) == {"text": WANTED.decode(), "mode": "0640"}
    assert usage.output_tokens > 0


def test_the_readme_shows_what_was_seen_of_the_files(played: Played) -> None:
    text = told(played.result)
    about_files = text[text.index("What the files were\n") : text.index("\nCounted in")].splitlines()[1:]
    rows = [line for line in about_files if not line.startswith("    ") or "shop.ini  " in line]
    assert "\n".join(["```console", *rows, "```"]) in (Path(__file__).parents[2] / "README.md").read_text("utf-8")
