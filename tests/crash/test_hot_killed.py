"""Real processes that write behind, killed with SIGKILL at random moments: no payment is made twice, although what it
was made of is read anew, and differently, wherever it was lost.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from jumar import Harness

STEPS = 40
LIVES = 200

PROGRAM = """
import os, sys
from jumar import Harness, Run, current_call
from jumar.errors import RunEnded, RunNotFound

folder = sys.argv[1]
config = folder + "/jumar.yaml"
harness = Harness(f"sqlite:///{folder}/runs.db", durability="hot", lease_ttl=0.3, config=config)

@harness.tool(effect="read")
def look(number: int) -> str:
    return os.urandom(4).hex()

@harness.tool(effect="idempotent", retries=1000)
def pay(seen: str) -> str:
    call = current_call()
    line = f"{call.call_id} {call.idempotency_key} {seen}\\n".encode()
    file = os.open(folder + "/paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
    return seen

@harness.agent
def agent(run: Run, steps: int) -> list[str]:
    print("begun", flush=True)
    paid = []
    for number in range(steps):
        seen = [run.call(look, 3 * number + each) for each in range(3)]
        paid.append(run.call(pay, " ".join(seen)))
    return paid

with harness:
    try:
        result = harness.resume("last")
    except RunNotFound:
        result = harness.run(agent, int(sys.argv[2]))
    except RunEnded:  # its process was killed right after that
        print("begun", flush=True)
    print(harness.show("last").run.status, flush=True)
"""


@pytest.mark.sweep
def test_killed_again_and_again_it_pays_once_for_what_it_has_read_in_the_end(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    (tmp_path / "jumar.yaml").write_text("checkpoint_triggers: []\n", encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(STEPS)]
    deaths = 0
    for life in range(LIVES):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        try:
            # Most lives are short; the last ones may take what they need.
            process.wait(chance.uniform(0.0, 0.08) if life < 12 else None)
        except subprocess.TimeoutExpired:
            process.kill()
            deaths += 1
        rest = process.communicate()[0]
        if process.returncode == 0:
            assert rest == "COMPLETED\n"
            break
    assert deaths > 0
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        seen = harness.show("last")
        rows = {call.call_id: call for call in seen.calls}
        assert harness.doctor().findings == ()
    lines = [line.split(" ", 2) for line in (tmp_path / "paid").read_text().splitlines()]
    payments = defaultdict(set)
    for call_id, key, made_of in lines:
        payments[call_id].add((key, made_of))
    assert {call_id: len(made) for call_id, made in payments.items()} == {f"pay.{n}": 1 for n in range(1, STEPS + 1)}
    for number in range(STEPS):
        looks = [rows[f"look.{3 * number + each}"] for each in (1, 2, 3)]
        [(_, made_of)] = payments[f"pay.{number + 1}"]
        assert made_of == " ".join(look.result for look in looks)
