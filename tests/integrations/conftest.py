"""Each integration runs the conformance suite once per mode it has: sync, async, streamed, …

Tests that take long run in the first and the last mode only: their parameter is `edge`.
"""

import pytest

pytest.register_assert_rewrite("integrations.conformance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "edge" in metafunc.fixturenames and metafunc.cls is not None:
        metafunc.parametrize("edge", dict.fromkeys([metafunc.cls.modes[0], metafunc.cls.modes[-1]]))
    if "mode" in metafunc.fixturenames and metafunc.cls is not None:
        metafunc.parametrize("mode", metafunc.cls.modes, scope="class")
