"""Ctrl-C at every place of a commit to a store in a folder: the change is made or not, nobody is kept from the lock,
and this store and another one of the same folder say the same.
"""

from __future__ import annotations

import dis
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.stores.file.store import FileStore
from jumar.testing.conformance_scene import Scene, call, named
from tests.conformance.test_file_store import Unflushed

_LOOKS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}
_STORE = str(Path(sys.modules[FileStore.__module__].__file__ or "").parent)


class Interrupt:
    """Raises KeyboardInterrupt at the `place`-th place in the store's modules where Python looks for signals."""

    def __init__(self, place: int) -> None:
        self.left = place

    def __enter__(self) -> None:
        self.outer = sys.gettrace()
        sys.settrace(self.enter)

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self.outer)

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_STORE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code.co_code
        before = ""

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "opcode":
                if before in _LOOKS:
                    self.left -= 1
                    if self.left == 0:
                        raise KeyboardInterrupt
                before = dis.opname[code[frame.f_lasti]]
            return step

        return step


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file just opened is closed when nothing refers to it
@pytest.mark.parametrize("part", range(3))
def test_an_interrupt_at_any_place_in_a_commit_leaves_a_store_that_goes_on(tmp_path: Path, part: int) -> None:
    ours, theirs = (FileStore(str(tmp_path / "store"), Unflushed()) for _ in range(2))
    scene, others = Scene(ours), Scene(theirs)
    run, other = scene.running(run_id="one"), scene.running(run_id="two")
    place, interrupted = part, 0
    while True:
        place += 3
        run = scene.again(run)
        change = scene.advance(run, calls=(call(run.version + 1),), artifacts=(named(b"%d" % place * 2000),))
        try:
            with Interrupt(place):
                ours.write([change])
            break
        except KeyboardInterrupt:
            interrupted += 1
        [answer] = theirs.write([others.advance(others.again(other))], wait=False)
        assert isinstance(answer, Ack), f"interrupted at place {place}"
        made = ours.read_back(change) is not None
        assert scene.again(run).version == run.version + made
        assert scene.everything(run) == others.everything(run)
    assert interrupted > 25
    assert ours.inspect().findings == ()
    ours.close()
    again = FileStore(str(tmp_path / "store"))
    assert Scene(again).everything(run) == others.everything(run)
    again.close()
    theirs.close()
