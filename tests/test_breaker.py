import pytest

from focusctx.breaker import Breaker


@pytest.fixture
def now() -> list[float]:
    return [0.0]


def breaker_of(now: list[float], *, failures: int = 2, pause: float = 10, patience: float = 30) -> Breaker:
    return Breaker(failures, pause, patience, lambda: now[0])


def test_opens_after_failures_in_a_row_and_closes_again(now: list[float]) -> None:
    breaker = breaker_of(now)
    breaker.failed(1)
    breaker.succeeded()
    breaker.failed(1)
    assert breaker.seconds_left() == 0
    breaker.failed(1)
    assert breaker.seconds_left() == 10
    now[0] = 12
    assert breaker.seconds_left() == 0
    breaker.failed(1)  # still failing: one more is enough
    assert breaker.seconds_left() == 10


def test_opens_after_one_failure_that_took_the_whole_deadline(now: list[float]) -> None:
    breaker = breaker_of(now, failures=3)
    breaker.failed(30)
    assert breaker.seconds_left() == 30, "at least as long as was lost"
    now[0] = 31
    assert breaker.seconds_left() == 0


def test_slow_failures_add_up_until_one_succeeds(now: list[float]) -> None:
    breaker = breaker_of(now, failures=9)
    breaker.failed(20)
    breaker.succeeded()
    breaker.failed(20)
    assert breaker.seconds_left() == 0
    breaker.failed(10)
    assert breaker.seconds_left() == 10


def test_without_a_pause_it_never_opens(now: list[float]) -> None:
    breaker = breaker_of(now, failures=1, pause=0)
    breaker.failed(30)
    assert breaker.seconds_left() == 0
