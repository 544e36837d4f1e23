"""The agent of `jumar demo --loop`: the same task and tools as `agent`'s, done by a model that decides step by step.

Read it as an example.  `operate` is all of the agent: it asks the model for the next step.  What the model decided is
recorded before anything of it is done; the tools it asks for are called side by side; what came of them, mistakes
included, is in the messages of the next step.
"""

from __future__ import annotations

from jumar import Decision, LoopView
from jumar.demo import model_loop
from jumar.demo.agent import Report, harness, order_repair, search
from jumar.demo.stage import witness


def names_its_order(report: Report) -> bool | str:
    """A report that orders something must say so to whoever is told what to do meanwhile."""
    witness("verdict", report.advice.text)
    if report.order is None or report.order in report.advice.text:
        return True
    return f"the advice does not name order {report.order}"


@harness.loop(tools=[search, order_repair], verify=names_its_order, returns=Report)
def operate(view: LoopView) -> Decision:
    """Decide the next step, as the model says.  A provider's own client would be asked here with the same messages."""
    return Decision.from_openai(model_loop.complete(view.messages("openai")))
