"""Tables on narrow terminals."""

from hypothesis import given
from hypothesis import strategies as st

from focusctx.cli.output import column_widths, parts_that_fit


@given(st.lists(st.integers(3, 40), min_size=2, max_size=14), st.integers(20, 200))
def test_every_column_is_in_one_part_and_every_part_has_the_names(widths: list[int], room: int) -> None:
    parts = parts_that_fit(widths, room)
    assert all(part[0] == 0 for part in parts)
    assert [place for part in parts for place in part[1:]] == list(range(1, len(widths)))
    for part in parts:
        assert sum(widths[place] for place in part) <= room or len(part) == 2  # a single column may be too wide


def test_widths_are_those_of_the_longest_cell() -> None:
    assert column_widths([["method", "a"], ["x", "1,000"]]) == [8, 7]
