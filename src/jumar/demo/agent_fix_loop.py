"""The agent of the second act of `jumar demo --loop`: the same task and tools as `agent_fix`'s, done step by step.

Read it as an example.  After a recovery the view has a brief of what happened so far; it is put before the messages.
"""

from __future__ import annotations

from jumar import Decision, LoopView
from jumar.demo import model_fix
from jumar.demo.agent import harness, search
from jumar.demo.agent_fix import Fixed, rewrite


@harness.loop(tools=[search, rewrite], returns=Fixed)
def fix_by_turns(view: LoopView) -> Decision:
    """Decide the next step, as the model says."""
    told = [{"role": "system", "content": view.brief}] if view.brief else []
    return Decision.from_openai(model_fix.complete([*told, *view.messages("openai")]))
