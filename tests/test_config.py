import re
from dataclasses import fields
from typing import Any

import pytest

from focusctx import ConfigError, FocusConfig
from focusctx.config import Settings


def test_the_papers_settings() -> None:
    paper = FocusConfig.paper()
    assert (paper.rollouts, paper.threshold, paper.temperature, paper.budget) == (3, 0.3, 0.7, 4096)
    assert (paper.tokens, paper.dropped, paper.defensive) == ("cl100k_base", "remove", True)
    assert (paper.fill, paper.limit) == (0, None)
    assert FocusConfig.paper(budget=2048).budget == 2048


def test_the_keyword_arguments_of_focus_are_the_knobs() -> None:
    assert Settings.__annotations__.keys() == {knob.name for knob in fields(FocusConfig)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", -1), ("rollouts", 0), ("threshold", 0), ("threshold", 1.1), ("temperature", -0.1),
        ("fill", 1.5), ("fill", -0.1), ("limit", 0),
        ("dropped", "melt"), ("observations", "maybe"), ("deadline", 0), ("confidence", 1), ("m_max", 0),
        ("draft_window", 3), ("sketch_tokens", 0), ("breaker_failures", 0), ("breaker_pause", -1),
        ("pin", 3), ("pin", "s_3"), ("observations", 3), ("observations", None), ("tokens", 3), ("tokens", None),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{value}"):
        FocusConfig(**{name: value})


def test_skeletons_of_everything_and_a_hard_limit_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="limit must be None beside dropped='skeleton'"):
        FocusConfig(limit=1000, dropped="skeleton")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("budget", "4096", "a whole number"),
        ("budget", 4096.5, "a whole number"),
        ("rollouts", 2.5, "a whole number"),
        ("limit", "3", "a whole number"),
        ("seed", "x", "a whole number"),
        ("seed", None, "a whole number"),
        ("threshold", "0.3", "a number"),
        ("fill", "x", "a number"),
    ],
)
def test_a_number_of_the_wrong_kind_is_said_by_name(name: str, value: Any, kind: str) -> None:
    for make in (FocusConfig, FocusConfig().with_changes):
        with pytest.raises(ConfigError, match=f"^{name} must be {kind}, got {re.escape(repr(value))}$"):
            make(**{name: value})
