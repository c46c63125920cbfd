"""Compare each store with the one in memory, tenant by tenant; messages come back unchanged."""

import copy
import itertools
import json
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.session.store import MemoryStore, Spelled, Totals
from helpers.stored import event, span
from helpers.thorough import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),  # half surrogate pairs too
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = ["a", "b", "c", "d\"'", "é{x}:☃"]
ROOTS = ["r", "a"]
EVENTS = ["e", "f", "a"]
key_lists = st.lists(st.sampled_from(KEYS), max_size=6)
event_lists = st.lists(st.sampled_from(EVENTS), max_size=4)


@st.composite
def commits(draw):
    key = draw(st.sampled_from(EVENTS))
    gone = draw(st.lists(st.sampled_from(KEYS), max_size=3))
    one = st.dictionaries(st.text(), JSON, max_size=3)
    spans = [span(each, key, messages=tuple(draw(st.lists(one, max_size=2)))) for each in gone]
    return "commit", draw(st.sampled_from(ROOTS)), event(key, *gone, when=draw(st.floats(0, 2e9))), spans


totals = st.tuples(st.integers(0, 9), st.sampled_from([-1.5, 0.0, 0.125])).map(
    lambda drawn: Totals(events=drawn[0], saved=drawn[1])
)
operations = st.one_of(
    commits(),
    st.tuples(st.just("restore"), st.sampled_from(ROOTS), st.sampled_from(KEYS)),
    st.tuples(st.just("add"), totals),
    st.tuples(st.just("restored"), key_lists),
    st.tuples(st.just("archived"), event_lists),
    st.tuples(st.just("events"), event_lists),
    st.tuples(st.just("totals")),
)  # fmt: skip


def observe(store, tenant, operation):
    """Return the operation's answer and the conversations it changes, as text: 1, 1.0 and True differ."""
    name, *values = operation
    before = [store.version(tenant, root) for root in ROOTS]
    answer = getattr(store, name)(tenant, *values)
    after = [store.version(tenant, root) for root in ROOTS]
    grown = [new > old for new, old in zip(after, before, strict=True)]
    return repr(sorted(answer) if isinstance(answer, frozenset) else answer), grown


numbers = itertools.count()
names = st.sampled_from(["", "t", "{t}", "t:span", "naïve ☃", "\ud800", "'; DROP TABLE spans; --", "t" * 2000])


@settings(max_examples=examples(80))
@given(first=names, second=names, steps=st.lists(st.tuples(st.integers(0, 1), operations), max_size=14))
def test_each_tenant_sees_what_it_would_see_alone_in_memory(lasting_store, first, second, steps):
    number = next(numbers)
    tenants = [f"{first}{number}", f"{second}{number}:"]
    models = [MemoryStore(), MemoryStore()]
    for who, operation in steps:
        assert observe(lasting_store, tenants[who], operation) == observe(models[who], "alone", operation)
    look = [("restored", KEYS), ("archived", EVENTS), ("events", EVENTS), ("totals",)]
    for who, operation in itertools.product((0, 1), look):
        assert observe(lasting_store, tenants[who], operation) == observe(models[who], "alone", operation)


ANY = JSON | st.just(float("nan")) | st.sampled_from([float("inf"), -0.0, 10**400, "\ud83d", "𝄞", "\x00\u2028"])
MESSAGES = st.dictionaries(st.text(st.characters(exclude_categories=())), ANY, max_size=4)


@settings(max_examples=examples(100))
@given(message=MESSAGES, reason=st.text(st.characters(exclude_categories=())))
def test_messages_come_back_as_they_were(lasting_store, message, reason):
    tenant = f"verbatim {next(numbers)}"
    kept = span("a", messages=(message, message), reason=reason)
    lasting_store.commit(tenant, "r", event("e1", "a"), [kept])
    assert repr(lasting_store.archived(tenant, ["e1"])) == repr([kept])


@settings(max_examples=examples(100))
@given(message=MESSAGES, ascii=st.booleans(), indent=st.sampled_from([None, 2]))
def test_a_message_is_stored_in_the_bytes_it_came_in(lasting_store, message, ascii, indent):
    """Messages that were stored are read back unchanged."""
    tenant = f"spelled {next(numbers)}"
    came = json.dumps(message, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")
    spelled = Spelled(json.loads(came), came)
    lasting_store.commit(tenant, "r", event("e1", "a"), [span("a", messages=(spelled,))])
    (found,) = lasting_store.archived(tenant, ["e1"])
    assert repr(found.messages) == repr((json.loads(came),)) == repr((dict(spelled),))


def test_a_copy_of_a_spelled_message_may_be_edited():
    spelled = Spelled({"role": "user", "content": ["a"]}, b'{"role":"user","content":["a"]}')
    for made in (copy.copy(spelled), copy.deepcopy(spelled), pickle.loads(pickle.dumps(spelled)), spelled.copy()):
        assert made == spelled
        assert type(made) is dict
