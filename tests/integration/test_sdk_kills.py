"""Agents on the official SDKs whose processes are killed: no answer that was recorded is asked for again, no note is
made twice, and the provider never sees a conversation that it would refuse.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.testing.witness import Witness
from tests.concurrency.workers import Worker, start
from tests.integration.providers.asking import NAMES, WAYS, talk_to
from tests.integration.providers.living import RUN, SCRIPT, live, opened
from tests.integration.providers.server import Hold, Provider, provide

__all__ = ["provide", "start"]

Provide = Callable[..., Provider]
Start = Callable[..., Worker]

PLACES = ["asking 0", "unrecorded 0", "search", "note", "noted", "asking 1", "unrecorded 1", "asking 2", "unrecorded 2"]
# Of a stream, the third event takes the place of the whole answer where nothing but `decide` reads it.
STREAMED = [place.replace("unrecorded", "event") for place in PLACES]

# Each way once, and each mode with either client; the sweep takes them all.
MIXED = [(way, streams) for way, streams in zip(WAYS, (True, False, False, True), strict=True)]
MIXED_NAMES = [
    f"{name}-{'streamed' if streams else 'in one piece'}" for name, (_, streams) in zip(NAMES, MIXED, strict=True)
]

every_way = pytest.mark.parametrize("way", WAYS, ids=NAMES)
each_kind = pytest.mark.parametrize("kind", ["function", "loop"])
each_mode = pytest.mark.parametrize("streams", [False, True], ids=["in one piece", "streamed"])


def killed_at(places: list[str], begin: Callable[[str | None], Worker]) -> None:
    """Let life after life be killed, each at the next of these places, and the last one end."""
    for place in places:
        worker = begin(place)
        worker.expect(place)
        worker.kill()
    assert begin(None).ends() == "COMPLETED"


def judge(provider: Provider, folder: Path, places: list[str]) -> None:
    """What must be so at the end, wherever the processes were killed."""
    asked = Counter(turn for turn, _ in provider.answers())
    lost = Counter(int(place[-1]) for place in places if place.startswith(("event", "unrecorded")))
    assert asked == Counter(range(len(SCRIPT))) + lost
    notes = Counter(line.what for line in Witness(folder / "witness").lines())
    assert notes["applied"] == 2
    with opened(folder) as harness:
        view = harness.show(RUN)
        assert view.output == SCRIPT[-1].text
        assert {call.state for call in view.calls} == {"SUCCEEDED"}
        assert len([call for call in view.calls if call.kind == "decision"]) == len(SCRIPT)


@each_kind
@pytest.mark.parametrize(("way", "streams"), MIXED, ids=MIXED_NAMES)
def test_a_run_that_is_killed_over_and_over_asks_for_nothing_that_was_recorded(
    tmp_path: Path, provide: Provide, start: Start, way: Any, streams: bool, kind: str
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    all_places = STREAMED if streams else PLACES
    places = [all_places[number] for number in sorted(chance.sample(range(len(all_places)), 2))]
    print(places)
    provider = provide(SCRIPT, repeats_ids=kind == "loop")
    killed_at(places, lambda place: start(live, str(tmp_path), provider.url, way, streams, kind, place))
    judge(provider, tmp_path, places)


@pytest.mark.sweep
@each_kind
@every_way
@each_mode
def test_a_run_may_be_killed_at_every_place_of_its_way(
    tmp_path: Path, provide: Provide, start: Start, way: Any, streams: bool, kind: str
) -> None:
    places = STREAMED if streams else PLACES
    provider = provide(SCRIPT, repeats_ids=kind == "loop")
    killed_at(places, lambda place: start(live, str(tmp_path), provider.url, way, streams, kind, place))
    judge(provider, tmp_path, places)


@each_kind
@pytest.mark.parametrize("way", WAYS[::3], ids=NAMES[::3])
def test_a_request_whose_answer_never_came_is_made_again(
    tmp_path: Path, provide: Provide, start: Start, way: Any, kind: str
) -> None:
    hold = Hold(threading.Event(), threading.Event())
    provider = provide(SCRIPT, None, hold)
    worker = start(live, str(tmp_path), provider.url, way, False, kind)
    assert hold.reached.wait(60)
    worker.kill()
    hold.let_go.set()
    assert start(live, str(tmp_path), provider.url, way, False, kind).ends() == "COMPLETED"
    assert provider.answers() == [(0, "said"), (1, "hold"), (1, "said"), (2, "said")]


@pytest.mark.parametrize("place", ["search", "note", "noted"])
@pytest.mark.parametrize("way", WAYS[::3], ids=NAMES[::3])
def test_a_user_may_go_on_with_the_conversation_of_a_run_that_was_killed_between_a_call_and_its_result(
    tmp_path: Path, provide: Provide, start: Start, way: Any, place: str
) -> None:
    provider = provide(SCRIPT)
    worker = start(live, str(tmp_path), provider.url, way, True, "loop", place)
    worker.expect(place)
    worker.kill()
    talk = talk_to(provider.url, (way[0], False), streams=False)
    with opened(tmp_path) as harness:
        messages = harness.view(RUN).messages(talk.name)
    assert "let me look" in str(messages)
    answer = talk.create(talk.continued(messages, "What have you found so far?"))
    assert [call.name for call in talk.calls(answer)] == ["note"]  # it was understood: the script went on
    assert provider.answers() == [(0, "said"), (1, "said")]
