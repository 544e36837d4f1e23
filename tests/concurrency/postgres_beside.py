"""What tests about connections to PostgreSQL share: statements beside the store, addresses, an agent that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from jumar import Harness, Run
from jumar.stores.postgres.address import parse

SECONDS = 60.0  # after which something that never came is a failure


def beside(address: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a statement answers on a connection of its own; {schema} is the store's schema."""
    place = parse(address)
    with psycopg.connect(place.uri, autocommit=True) as connection:
        cursor = connection.execute(statement.replace("{schema}", place.schema).encode(), values or None)
        return [] if cursor.description is None else cursor.fetchall()


def cut_connections(address: str, name: str) -> int:
    """End every connection of an application, as an administrator does; how many there were."""
    ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s"
    return len(beside(address, ended, name))


def port_of(address: str) -> int:
    """The port of an address."""
    return int(parse(address).uri.rpartition(":")[2].partition("/")[0])


def through(address: str, port: int) -> str:
    """The address of the same store behind something that listens on another port."""
    return address.replace(f":{port_of(address)}/", f":{port}/")


def named(address: str, name: str) -> str:
    """The address, for connections that the server is to know by a name."""
    return f"{address}&application_name={name}"


def counting(harness: Harness, act: Callable[[int], None]) -> Any:
    """An agent that counts to its input, with a call for each number, which does `act` with it outside."""

    @harness.tool(effect="external")
    def step(number: int) -> int:
        act(number)
        return number + 1

    @harness.agent(tools=[step])
    def count(run: Run, steps: int) -> int:
        number = 0
        for _ in range(steps):
            number = run.call(step, number)
        return number

    return count
