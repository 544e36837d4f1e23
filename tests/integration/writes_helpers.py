"""What the tests of tools that write share: a workspace with files of every kind, and agents that make one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar import AsyncRun, Harness, Run, RunResult
from jumar.core.records import CheckpointRecord, HoldRecord
from tests.workspace.files import Tree, read

AGENT = "work"


class Site:
    """A workspace, a store beside it, and a harness on both."""

    def __init__(self, folder: Path, *, waits: bool = False, **options: Any) -> None:
        self.folder = folder
        self.root = folder / "site"
        self.address = f"sqlite:///{folder / 'runs.db'}"
        self.waits = waits
        self._options = options
        self.harness = self.another()

    def another(self, **options: Any) -> Harness:
        """One more harness on the same store and workspace, as another process would have."""
        return Harness(self.address, workspace=self.root, **(self._options | options))

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Make a file, as a person does."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def read(self, path: str) -> str:
        """A file's text."""
        return (self.root / path).read_text()

    def files(self) -> Tree:
        """Everything in the workspace, modes and links included."""
        return read(self.root)

    def tool(self, body: Callable[..., Any], harness: Harness | None = None, **options: Any) -> Any:
        """A tool of this body that writes; an async one where the agents are."""
        made = harness if harness is not None else self.harness
        if not self.waits:
            return made.tool(effect="write", **options)(body)
        return made.tool(effect="write", name=body.__name__, **options)(as_async(body))

    def agent(self, tool: Any, harness: Harness | None = None, name: str = AGENT) -> Any:
        """An agent that calls a tool once, with its input as the arguments."""
        made = harness if harness is not None else self.harness
        if self.waits:

            async def awaits(run: AsyncRun, task: list[Any]) -> Any:
                return await run.call(tool, *task)

            return made.agent(name=name)(awaits)

        def calls(run: Run, task: list[Any]) -> Any:
            return run.call(tool, *task)

        return made.agent(name=name)(calls)

    def call(self, body: Callable[..., Any], *args: Any, **options: Any) -> RunResult[Any]:
        """Run an agent that calls a tool of this body once."""
        return self.harness.run(self.agent(self.tool(body, **options)), list(args))

    def holds(self) -> list[HoldRecord]:
        """Every path that is held in the store."""
        return self.harness.store.holds(str(self.root.resolve()), b"")

    def checkpoints(self, run_id: str = "last") -> list[CheckpointRecord]:
        """A run's checkpoints as they are stored."""
        store = self.harness.store
        run = store.run(self.harness.find(run_id))
        assert run is not None
        return store.checkpoints(run.run_no)


def as_async(body: Callable[..., Any]) -> Any:
    """A plain body as an async one, with its name and signature."""
    from functools import update_wrapper

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    return update_wrapper(awaited, body)


def furnished(folder: Path, *, waits: bool = False, **options: Any) -> Site:
    """A workspace with files, modes, a link, and an empty folder."""
    (folder / "site").mkdir()
    site = Site(folder, waits=waits, **options)
    site.write("conf/site.ini", "port = 80\n", 0o640)
    site.write("conf/other.ini", "port = 81\n", 0o600)
    site.write("run.sh", "#!/bin/sh\n", 0o750)
    (site.root / "conf/current.ini").symlink_to("site.ini")
    (site.root / "empty").mkdir(mode=0o711)
    return site
