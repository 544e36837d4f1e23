"""A brief in Chinese."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.core.briefs.numbers import finished_numbers, ranges
from jumar.core.briefs.records import Asked, Brief, DoneStep, Doubt, Drift, KeyResult, Standing, Trouble

_STATES = {"done": "已完成", "now": "当前", "to do": "未开始"}
_STATUS = {
    "queued": "它正在排队，等待被接手。",
    "running": "",
    "waiting": "它正在等待。",
    "paused": "它已暂停。",
    "failed": "它已失败。",
    "completed": "它已完成。",
    "cancelled": "它已取消。",
}
_CLASSES = {
    "transient": "暂时性错误",
    "rate-limited": "被限流",
    "permanent": "永久性错误",
    "polluted": "状态被污染",
    "partial": "部分完成",
    "budget": "预算耗尽",
    "cancelled": "被取消",
}
_ADVICE = {
    "transient": "这类错误可能会自行消失，可以原样重试该调用。",
    "rate-limited": "对方要求降低调用频率：请先等待，再原样重试。",
    "permanent": "原样重试仍会失败：请修改参数，或者换一种做法。",
    "polluted": "产出的内容不可用，已经撤回：请重新生成，确认无误后再写入。",
    "partial": "其中一部分已经完成：只需处理剩下的部分。",
    "budget": "预算已经用完：请申请追加，或者减少开销。",
    "cancelled": "它是被主动放弃的：确有必要时才重新调用。",
}
_MEND = "原因消除之前，重来仍会同样失败。"
_ASKED = {
    "approval": "有人批准调用 {call}",
    "resolve": "有人确认调用 {call} 是否真的发生过",
    "ask": "有人回答问题{question}（调用 {call}）",
    "budget": "有人追加预算（调用 {call}）",
    "undo": "有人决定是否重新撤销（调用 {call}）",
}
_DOUBTS = {
    "open": "这一点会在发出任何新调用之前先弄清楚。",
    "happened": "现已确认它发生过，结果已有记录。",
    "again": "它已被重新发出，结果已有记录。",
    "failed": "最终结果是失败：",
    "rejected": "有人裁定不再执行：",
}


class Chinese:
    """Chinese, simplified."""

    def heading(self, brief: Brief) -> str:
        whose = f"代理 {brief.agent}，任务 {brief.task}"
        if not brief.recoveries:
            told = f"本次运行（{whose}）到目前为止没有中断过。"
        else:
            told = f"本次运行（{whose}）在中断之后继续，到目前为止已被接手 {brief.recoveries} 次。"
        if not brief.calls:
            return f"{told}目前还没有任何记录。"
        return told + _STATUS[brief.status]

    def rolled_back(self, version: int, forked_from: str | None) -> str:
        told = f"它曾被回滚到版本 {version}"
        if forked_from is not None:
            told = f"它由运行 {forked_from} 分叉而来，从版本 {version} 继续"
        return f"{told}：在那之后所做的事不再算数，但下文列为“仍然有效”的除外。"

    def finished(self, brief: Brief, count: int) -> str:
        return f"已完成 {count} {self._unit(brief)}，结果均有记录："

    def finished_step(self, brief: Brief, step: DoneStep) -> str:
        number = f"{step.number}. " if step.number else ""
        start = f"- 第 {step.number} 轮" if brief.unit == "turn" else f"- {number}{step.name}"
        results = "；".join(map(self._result, step.results))
        return f"{start}：{step.calls} 次调用" + (f"；{results}" if results else "")

    def _result(self, result: KeyResult) -> str:
        verb = "失败，原因是" if result.failed else "得到"
        return f"{result.tool}{self._given(result.args)}{verb}{self._quoted(result.result)}"

    def plan(self, steps: Sequence[str], missing: int) -> str:
        return f"计划：{'；'.join(steps)}{f'（另有 {missing} 项未列出）' if missing else ''}。"

    def planned_step(self, number: int, name: str, state: str) -> str:
        return f"{number}. {self._quoted(name)}（{_STATES[state]}）"

    def files(self, names: Sequence[str], missing: int, *, changed: bool) -> str:
        what = "已经改动的文件" if changed else "计划要改、但尚未被任何写操作改动的文件"
        return f"{what}：{'、'.join(map(self._quoted, names))}{f'，另有 {missing} 个未列出' if missing else ''}。"

    def unnamed(self, count: int) -> str:
        return f"另有 {count} 次写操作可能改动了文件，但在这里无法给出文件名。"

    def error(self, error: Trouble) -> str:
        where = f"（调用 {error.call_id}）" if error.call_id else ""
        what = f"{error.type}：{self._quoted(error.message)}" if error.message else error.type
        return f"上次出错的原因{where}：{what}，属于{_CLASSES[error.error_class]}。{error.advice}"

    def advice(self, error_class: str, *, of_call: bool) -> str:
        return _ADVICE[error_class] if of_call or error_class != "permanent" else _MEND

    def standing(self) -> str:
        return "以下操作已在外部生效并有记录，仍然有效，请勿重做："

    def standing_call(self, call: Standing) -> str:
        behind = "（发生在本次运行所接续的版本之后，仍然有效）" if call.left_behind else ""
        return f"- {call.call_id}：{call.tool}{self._given(call.args)}得到{self._quoted(call.result)}{behind}"

    def doubt(self, doubt: Doubt) -> str:
        told = self._quoted(doubt.told) + "。" if doubt.told else ""
        start = "目前不知道" if doubt.outcome == "open" else "中断时曾不知道"
        return f"{start}调用 {doubt.call_id}（{doubt.tool}）是否已经发生；{_DOUBTS[doubt.outcome]}{told}"

    def waiting(self) -> str:
        return "它正在等待："

    def asked(self, asked: Asked) -> str:
        return "- " + _ASKED[asked.kind].format(call=asked.call_id, question=self._quoted(asked.question))

    def drift(self) -> str:
        return "自上次快照以来，外部环境有以下变化，使用前请先核实："

    def drifted(self, drift: Drift) -> str:
        return f"- {drift.name}：原为{self._reading(drift.before)}，现为{self._reading(drift.now)}"

    def _reading(self, text: str | None) -> str:
        return "未知" if text is None else self._quoted(text)

    def earlier(self, count: int) -> str:
        return f"- （更早的 {count} 项未列出）"

    def more(self, count: int) -> str:
        return f"- （另有 {count} 项未列出）"

    def instruction(self, brief: Brief) -> str:
        if brief.status in ("completed", "cancelled"):
            return "本次运行没有剩余的工作。"
        if brief.plan_is_done:
            return "计划中的步骤均已完成：不要重复，请继续其后的工作。"
        unit = "轮" if brief.unit == "turn" else "步"
        name = f"（{self._quoted(brief.step_name)}）" if brief.step_name else ""
        go_on = f"请从第 {brief.step_number} {unit}{name}继续"
        numbers = finished_numbers(brief)
        if numbers:
            return f"{go_on}，不要重复第 {ranges(numbers, ' 至 ', '、')} {unit}。"
        if brief.calls and brief.unit == "step":
            return f"{go_on}；已有记录的调用会自动给出结果，不要重做。"
        return f"{go_on}。"

    def _unit(self, brief: Brief) -> str:
        return "轮" if brief.unit == "turn" else "个步骤"

    def _given(self, args: str) -> str:
        return f"（参数{self._quoted(args)}）" if args else " "

    def _quoted(self, text: str) -> str:
        inner = text.replace("」", "』")
        return f"「{inner}」"
