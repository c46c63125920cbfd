import asyncio

import pytest

from focusctx.drafts import ScriptedDraft
from focusctx.errors import ConfigError, DraftError, DraftTimeout
from focusctx.types import Reply, Usage


async def test_replies_come_in_order_across_calls_and_start_again(prompt, collect):
    draft = ScriptedDraft(["a", "b", Reply("c", Usage(requests=1, input_tokens=7), truncated=True)])
    first, _ = await collect(draft, prompt, 2)
    second, _ = await collect(draft, prompt, 2)
    assert [reply.text for reply in first] == ["a", "b"]
    assert [reply.text for reply in second] == ["c", "a"]
    assert second[0].truncated
    assert second[0].usage.input_tokens == 7
    assert first[0].usage == Usage(requests=1)


async def test_it_remembers_what_it_was_asked(prompt, collect):
    draft = ScriptedDraft(["a"])
    await collect(draft, prompt, 3)
    assert draft.prompts == [prompt]


async def test_an_exception_is_raised_at_its_place(prompt, collect):
    draft = ScriptedDraft(["a", OSError("gone"), "c", "d"])
    replies, error = await collect(draft, prompt, 3)
    assert [reply.text for reply in replies] == ["a"]
    assert isinstance(error, DraftError)
    assert isinstance(error.__cause__, OSError)
    # That call had taken three; the next one goes on behind them.
    assert [reply.text for reply in (await collect(draft, prompt, 1))[0]] == ["d"]


async def test_a_draft_error_is_raised_as_it_is(prompt, collect):
    late = DraftTimeout("late")
    draft = ScriptedDraft([late])
    for _ in range(2):
        assert (await collect(draft, prompt, 1))[1] is late


async def test_two_calls_at_once_get_their_own_replies(prompt, collect):
    draft = ScriptedDraft(["a", "b", "c", "d"], delay=0.001)
    (one, _), (two, _) = await asyncio.gather(collect(draft, prompt, 2), collect(draft, prompt, 2))
    assert ["".join(reply.text for reply in replies) for replies in (one, two)] == ["ab", "cd"]


@pytest.mark.parametrize("script", [[], "abc", [3], ["a", None]])
def test_a_script_that_is_none_is_refused(script):
    with pytest.raises(ConfigError):
        ScriptedDraft(script)
