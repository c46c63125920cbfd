"""Text ReAct: actions and observations in plain text, in the words that agents use."""

from itertools import count

from hypothesis import strategies as st

from .parts import SAID, Draw, Event, Ids, Json, booleans, events, one_of, texts, words

ACTIONS = ("```bash\nls\n```", "Action: search[x]", "<tool_call>{}</tool_call>", "```python\n```\nand so on")
OBSERVATIONS = (
    "<returncode>0</returncode>\n<output>\n{}\n</output>",
    "<returncode>-1</returncode>",
    "<returncode>0</returncode><warning>cut</warning>\n<output_head>{}</output_head>",
    "<tool_response>{}</tool_response>",
    "Observation: {}",
    "Observation 3: {}",
    "OBSERVATION:\n{}",
    "Tool output:\n```\n{}\n```",
    "exitcode: 0 (execution succeeded)\nCode output: {}",
)


@st.composite
def react_histories(draw: Draw) -> list[Json]:
    """Plain text only, so the list reads the same in all three formats."""
    ids = map(str, count())
    rules = "Answer with one action, such as:\n```bash\nls\n```"
    opening = one_of(
        draw,
        [{"role": "system", "content": rules}, {"role": "user", "content": draw(words)}],
        [{"role": "user", "content": SAID + rules}],
    )
    ending = [{"role": "assistant", "content": draw(texts)}] if draw(booleans) else []
    return opening + events(draw, ids, _REACT_EVENTS) + ending


def _react_step(draw: Draw, ids: Ids) -> list[Json]:
    observation = one_of(draw, *OBSERVATIONS).replace("{}", draw(texts))
    return [
        {"role": "assistant", "content": f"THOUGHT: {draw(texts)}\n{one_of(draw, *ACTIONS)}"},
        {"role": "user", "content": observation},
    ]


def _react_talk(draw: Draw, ids: Ids) -> list[Json]:
    return [{"role": "assistant", "content": "May I?"}, {"role": "user", "content": draw(words)}]


_REACT_EVENTS: list[Event] = [_react_step, _react_step, _react_step, _react_talk]
