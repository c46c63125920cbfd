"""The page: complete, self-contained, and safe whatever the trace holds."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from focusctx import Focus
from focusctx.cli.options import setup_of
from focusctx.cli.report import Entry, page
from focusctx.cli.report.markup import Markup, tag, together
from focusctx.drafts import ScriptedDraft
from helpers import histories

EVIL = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:alert(3)>&lt;"
VOID = {"meta", "img"}


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


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DATA = f"data:image/png;base64,{PIXEL}"


def chat_with(url):
    show = {
        "role": "user",
        "content": [{"type": "text", "text": "Like this:"}, {"type": "image_url", "image_url": {"url": url}}],
    }
    return [show, *histories.run(5)[1:]]


def claude_with(source):
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    image = {"type": "image", "source": source}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "seen " * 50}, image]}
    end = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    return [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "And this:"}, image]},
        end,
    ]


def responses_with(url):
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}
    return [{"role": "user", "content": "Go."}, call, output, {"role": "assistant", "content": "Done."}]


def shown(messages):
    reader = Reader(page([event([PLAN], messages)]))
    assert reader.open == []
    return [(found["alt"], found["src"]) for name, found in reader.elements if name == "img"], reader


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        (chat_with(DATA), ["image 1 of the task"]),
        (
            claude_with({"type": "base64", "media_type": "image/png", "data": PIXEL}),
            ["image 1 of s_1", "image 1 of the user"],
        ),
        (responses_with(DATA), ["image 1 of s_1"]),
    ],
    ids=["chat", "anthropic", "responses"],
)
def test_images_in_the_trace_are_shown(messages, names):
    found, _ = shown(messages)
    assert found == [(name, DATA) for name in names]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PHN2Zz4=",
        f"{DATA}' onerror='alert(1)",
        "file-123",
        None,
    ],
)
def test_other_images_are_named_and_never_fetched(url):
    found, reader = shown(chat_with(url))
    assert found == []
    assert "image 1 of the task: not in the trace, so not shown" in reader.texts


def test_levels_are_counted_as_in_explain():
    """A parallel step of which only calls stay is a record, and a pinned step is not rescued as well."""
    result = event([PLAN], levels=True, target=0.5).result
    decisions = [
        replace(result.decisions[0], fate="record"),
        replace(result.decisions[1], fate="excerpt"),
        *(replace(one, fate="pinned") for one in result.decisions[2:]),
    ]
    result = replace(
        result, compressed=True, decisions=decisions, kept=(3, 4, 5), pinned=(3, 4, 5), rescued=(3,), dropped=(),
        shortened={1: (-1,), 2: (1,)},
    )  # fmt: skip
    assert "3 kept whole (0 rescued, 3 pinned), 1 as excerpts, 1 as records, 0 dropped" in result.explain()
    reader = Reader(page([Entry("a", result), Entry("b", result)]))
    text = " ".join(reader.texts)
    assert "steps shown in part 1 of 5" in text
    assert "steps left as a record 1 of 5" in text
    rows = re.findall(r"\ba (?:[\d,]+ ){2}-?\d+% ((?:\d+ ){4})", text)
    assert rows == ["3 1 1 0 "]


def test_runs_are_named_by_their_ids(focusctx, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps({"id": name, "messages": histories.run(3)}) + "\n" for name in ("django-1", 7)))
    _, out, _ = focusctx("explain", path)
    assert f"django-1 ({path} line 1):" in out
    assert f"7 ({path} line 2):" in out
    focusctx("explain", path, "--out", tmp_path / "x.html")
    assert f"django-1 ({path} line 1)" in (tmp_path / "x.html").read_text()
