"""The page: complete, self-contained, and safe whatever the trace holds."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from focusctx import Focus
from focusctx.cli.options import setup_of
from focusctx.cli.report import Entry, page
from focusctx.cli.report.markup import Markup, tag, together
from focusctx.drafts import ScriptedDraft
from helpers import histories

EVIL = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:alert(3)>&lt;"
VOID = {"meta"}


class Reader(HTMLParser):
    """Every element with its attributes, the texts, and whether all that opens closes again."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.texts.append(data)


def event(replies, messages=None, **settings):
    """Compress by whole steps, unless `levels` are wanted."""
    given = {"budget": 0, "levels": False, "target": None, **settings}
    focus = Focus(ScriptedDraft(replies), **given)
    return Entry("run.json", focus.compress(messages or histories.run(5)), setup_of(focus))


PLAN = "Step: finish it | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: it failed before"


def test_it_shows_every_span_and_what_became_of_it():
    reader = Reader(page([event([PLAN])]))
    assert reader.open == []
    spans = [
        (found["id"], found["data-fate"]) for name, found in reader.elements if "data-fate" in found and name == "li"
    ]
    fates = ["rescued", "kept", "dropped", "dropped", "pinned"]
    assert spans == [(f"c1-s{index}", fate) for index, fate in enumerate(fates, 1)]
    text = "".join(reader.texts)
    for number in range(1, 6):
        assert f"thought {number}" in text
        assert f"result {number}" in text
    evidence = ("needed by sketches 1-3: finish it", "rescued by sketches 1-3: it failed before", "Pinned: newest span")
    for said in (*evidence, "Do the task.", "scripted", "defensive (FOCUS-D)", "This holds if:", PLAN):
        assert said in text


def test_users_words_stand_where_they_were_said():
    messages = [*histories.run(3), {"role": "user", "content": "Never mail Edda."}, *histories.step(4)]
    text = page([event(["Step: x | Depends on: [s_1]"], messages)])
    assert text.index('id="c1-s3"') < text.index("Never mail Edda.") < text.index('id="c1-s4"')


def test_links_find_their_targets_and_ids_are_unique():
    reader = Reader(page([event([PLAN]), event([PLAN])]))
    ids = [found["id"] for _, found in reader.elements if "id" in found]
    assert len(ids) == len(set(ids))
    targets = {found["href"] for name, found in reader.elements if name == "a"}
    assert targets <= {f"#{key}" for key in ids}
    assert {"#c1", "#c2"} <= targets


def test_it_loads_nothing_and_runs_only_its_own_script():
    text = page([event([PLAN])])
    reader = Reader(text)
    assert not re.search(r"https?://|@import|url\(", text)
    assert not {"link", "img", "iframe", "object", "base", "form"} & {name for name, _ in reader.elements}
    assert not [found for _, found in reader.elements if "src" in found]
    policy = next(found["content"] for _, found in reader.elements if "http-equiv" in found)
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy


def hostile():
    messages = [{"role": "system", "content": EVIL}, {"role": "user", "content": EVIL}]
    for number in range(1, 5):
        calls = [histories.call(number, name=EVIL, arguments=EVIL)]
        messages.append({"role": "assistant", "content": EVIL, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": EVIL})
    return messages


@pytest.mark.parametrize("reply", [f"Step: {EVIL} | Depends on: [s_1]\nRescued Spans: [s_2] | Reason: {EVIL}", EVIL])
def test_hostile_text_stays_text(reply):
    entry = event([reply], hostile())
    reader = Reader(page([Entry(EVIL, entry.result, entry.setup)]))
    assert reader.open == []
    assert [name for name, _ in reader.elements].count("script") == 1
    assert "img" not in {name for name, _ in reader.elements}
    assert not [key for _, found in reader.elements for key in found if key.startswith("on")]
    assert not [found for _, found in reader.elements if "javascript" in (found.get("href") or "")]
    # Each span shows its thought, action and observation, word for word.
    assert "".join(reader.texts).count(EVIL) >= 4 * 3


def test_markup_is_made_only_by_tags():
    assert (
        tag("b", "<i>", class_="a'\"<", hidden=True, title=None) == '<b class="a&#x27;&quot;&lt;" hidden>&lt;i&gt;</b>'
    )
    assert together(tag("i", 5), None, "&") == "<i>5</i>&amp;"
    assert not isinstance("<b>" + tag("b"), Markup)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (lambda: event(["gibberish"]), "Not compressed: "),
        (lambda: event([PLAN], budget=99_999), "Nothing was due: the history fits the budget of 99,999."),
        (lambda: event(["Step: all | Depends on: [s_1-s_5]"]), "every step is needed"),
        (lambda: event([PLAN], histories.run(1)), "Warning: over budget, but no span may be dropped"),
        (lambda: event(["Step: x | Depends on: [s_1, s_77]"]), "cites steps that do not exist: s_77"),
        (lambda: event([PLAN], defensive=False), "optimistic (FOCUS-O)"),
    ],
)
def test_what_happened_is_said_first(entry, said):
    text = "".join(Reader(page([entry()])).texts)
    assert said in text


LOG = "".join(f"line {number}: all quiet in the eastern wing\n" for number in range(40))


def with_levels(**settings):
    """An event that leaves an excerpt, a record and a dropped step."""
    book = [*histories.step(3, LOG)]
    book[0] = {**book[0], "tool_calls": [histories.call(3, name="book_room", arguments='{"room": 7}')]}
    messages = [*histories.run(1), *histories.step(2, LOG), *book, *histories.step(4, LOG), *histories.step(5)]
    plan = "Step: read on | Depends on: [s_2.3]"
    return event([plan], messages, **{"levels": True, "target": 130, **settings})


def test_excerpts_and_records_have_their_places_in_the_picture():
    entry = with_levels()
    fates = [decision.fate for decision in entry.result.decisions]
    assert {"excerpt", "record", "dropped"} <= set(fates)
    before, after = _bars(page([entry]))
    assert [fate for _, fate, _ in before[1:]] == fates
    assert [fate for _, fate, _ in after[1:]] == [fate for fate in fates if fate != "dropped"]
    assert sum(tokens for _, _, tokens in before) == entry.result.tokens_before
    assert sum(tokens for _, _, tokens in after) == entry.result.tokens_after


def test_whoever_counts_otherwise_sees_sizes_that_add_up():
    entry = with_levels(tokens=len, target=1200)
    assert entry.result.shortened
    _, after = _bars(page([entry]))
    assert sum(tokens for _, _, tokens in after) == entry.result.tokens_after


def test_what_was_left_out_is_behind_marks_that_need_no_script():
    text = page([with_levels()])
    reader = Reader(text)
    assert reader.open == []
    assert "as the agent sees it" in text
    gaps = [found for name, found in reader.elements if name == "details" and found.get("class") == "gap"]
    assert gaps
    assert all("open" not in found for found in gaps)
    shown = "".join(reader.texts)
    assert "lines left out]" in shown
    assert "[… 1 later step left out: look]" in shown, "the agent sees it behind the result of s_3"
    for line in LOG.splitlines():
        assert shown.count(line) >= 3, "every step's original is there"
    assert "needed by sketches 1-3 (s_2.3): read on" in shown
    assert "cites s_2.3" in shown
    assert "steps shown in part" in shown
    assert "steps left as a record" in shown
    assert "target130 tokens" in shown
    assert "book_room changed something" in shown.lower()
    assert "would have kept it whole: " in shown


def test_dropped_spans_are_gone_from_the_second_bar():
    before, after = _bars(page([event([PLAN])]))
    assert [name for name, fate, _ in before if fate == "dropped"] == ["s_3", "s_4"]
    assert [name for name, _, _ in after] == ["the", "s_1", "s_2", "s_5"]


def _bars(text):
    """Of each segment its name, what became of it, and its tokens."""
    bars = []
    for _, found in Reader(text).elements:
        if found.get("class") == "bar":
            bars.append([])
        elif (found.get("class") or "").startswith("segment "):
            name, fate = found["title"].split(":")[0].split(" ")[0], found["class"].removeprefix("segment ")
            bars[-1].append((name, fate, int(found["style"].removeprefix("flex-grow:"))))
    return bars


def test_a_result_of_another_time_has_no_setup():
    result = event([PLAN]).result
    text = "".join(Reader(page([Entry("old.json", result)])).texts)
    assert "budget δ" not in text
    assert "usable sketches3 of 3" in text


def test_a_page_of_spans_without_messages():
    from focusctx import History, Span

    spans = tuple(Span(index, thought=f"idea {index}", observation="seen") for index in (1, 2, 3))
    focus = Focus(ScriptedDraft(["Step: x | Depends on: [s_1]"]), budget=0, target=None)
    result = focus.compress(History(goal="g", spans=spans))
    assert json.loads(result.to_json())["dropped"] == [2]
    assert "idea 2" in page([Entry("spans", result)])
