"""Each integration runs the conformance suite once per mode it has: sync, async, streamed, …"""

import pytest

pytest.register_assert_rewrite("integrations.conformance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" in metafunc.fixturenames and metafunc.cls is not None:
        metafunc.parametrize("mode", metafunc.cls.modes, scope="class")
