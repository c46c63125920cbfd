import re
from dataclasses import fields
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest

from focusctx import ConfigError, Focus, FocusConfig
from focusctx.config import FocusSettings


def test_the_papers_settings() -> None:
    paper = FocusConfig.paper()
    assert (paper.rollouts, paper.threshold, paper.temperature, paper.budget) == (3, 0.3, 0.7, 4096)
    assert (paper.tokens, paper.prompt, paper.defensive) == ("cl100k_base", "paper", True)
    assert (paper.levels, paper.target) == (False, None)
    assert FocusConfig.paper(budget=2048).budget == 2048


def test_the_keyword_arguments_of_focus_are_the_knobs() -> None:
    assert FocusSettings.__annotations__.keys() == {knob.name for knob in fields(FocusConfig)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", -1), ("rollouts", 0), ("threshold", 0), ("threshold", 1.1), ("temperature", -0.1),
        ("target", 0), ("target", -0.1), ("levels", 2), ("prompt", "melt"),
        ("observations", "maybe"), ("deadline", 0), ("confidence", 1), ("m_max", 0),
        ("draft_window", 3), ("sketch_tokens", 0), ("breaker_failures", 0), ("breaker_pause", -1),
        ("pin", 3), ("pin", "s_3"), ("observations", 3), ("observations", None), ("tokens", 3), ("tokens", None),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{value}"):
        FocusConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("budget", "4096", "a whole number"),
        ("budget", 4096.5, "a whole number"),
        ("rollouts", 2.5, "a whole number"),
        ("target", "3", "a number or None"),
        ("seed", "x", "a whole number"),
        ("seed", None, "a whole number"),
        ("threshold", "0.3", "a number"),
        ("target", inf, "a finite number or None"),
        ("levels", "no", "True or False"),
        ("budget", True, "a whole number"),
        ("seed", False, "a whole number"),
        ("threshold", True, "a number"),
        ("m_max", inf, "a finite number"),
        ("temperature", nan, "a finite number"),
        ("deadline", inf, "a finite number"),
        ("breaker_pause", -inf, "a finite number"),
        ("m_max", 10**400, "a finite number"),
        ("defensive", "no", "True or False"),
        ("defensive", 0, "True or False"),
        ("defensive", None, "True or False"),
        ("prompt", True, "'focusctx' or 'paper'"),
        ("prompt", ["paper"], "'focusctx' or 'paper'"),
        ("observations", "maybe", "'auto' or 'never' or 'always' or a function"),
        ("pin", "s_3", "a function or None"),
        ("tokens", 3, "a text or a function"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_by_name(name: str, value: Any, kind: str) -> None:
    for make in (FocusConfig, FocusConfig().with_changes):
        with pytest.raises(ConfigError, match=f"^{name} must be {kind}, got {re.escape(repr(value))}$"):
            make(**{name: value})


def test_numbers_of_other_libraries_are_numbers() -> None:
    assert FocusConfig(threshold=Fraction(1, 3), temperature=1).threshold == Fraction(1, 3)  # type: ignore[arg-type]


def test_every_setting_refuses_what_is_none_of_its_types() -> None:
    """New settings are checked without another rule."""
    for knob in fields(FocusConfig):
        with pytest.raises(ConfigError, match=f"^{knob.name} must be .*, got <object object at"):
            FocusConfig(**{knob.name: object()})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("ahead", nan, "a finite number"),
        ("ahead", True, "a number"),
        ("ahead", 0, "above 0 and at most 1"),
        ("ahead", 1.5, "above 0 and at most 1"),
        ("growth", inf, "a finite number"),
        ("growth", -0.5, "0 or more"),
        ("growth", "0.2", "a number"),
        ("recall", "no", "True or False"),
        ("frozen", 1, "True or False"),
        ("tenant", None, "a text"),
        ("tenant", 3, "a text"),
        ("model", 3, "a text or None"),
        ("clock", 3, "a function"),
    ],
)
def test_an_option_of_a_session_that_will_not_do_is_refused_by_name(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be {allowed}, got {re.escape(repr(value))}$"):
        Focus("offline").session(**{name: value})


def test_an_unknown_option_of_a_session_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'recal'; known: ahead, "):
        Focus("offline").session(recal=True)  # type: ignore[call-arg]
