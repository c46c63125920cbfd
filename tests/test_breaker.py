from focusctx.breaker import Breaker


def test_opens_after_failures_in_a_row_and_closes_again() -> None:
    now = [0.0]
    breaker = Breaker(2, 10, lambda: now[0])
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    assert breaker.seconds_left() == 0
    breaker.failed()
    assert breaker.seconds_left() == 10
    now[0] = 12
    assert breaker.seconds_left() == 0
    breaker.failed()  # still failing: one more is enough
    assert breaker.seconds_left() == 10
