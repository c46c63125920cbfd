"""The real stores: a SQLite file, and a Redis server that is started here when its program is installed."""

import pytest
import redis

from focusctx.session.stores import store_from
from helpers.stored import redis_binary, redis_server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    if redis_binary() is None:
        pytest.skip("no redis-server on PATH (scripts/redis installs it)")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store_url(request, tmp_path):
    """Where an empty store is."""
    if request.param == "memory":
        return "memory"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'focus.db'}"
    url = request.getfixturevalue("redis_url")
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture
def store(store_url):
    store = store_from(store_url)
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "redis"])
def shared_url(request, tmp_path):
    """Where a store is that several processes can use. On Redis it holds what other tenants left there."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'focus.db'}"
    return request.getfixturevalue("redis_url")


@pytest.fixture(scope="session", params=["memory", "sqlite", "redis"])
def lasting_store(request, tmp_path_factory):
    """One store for all the examples of a property test; each takes tenants of its own."""
    if request.param == "memory":
        url = "memory"
    elif request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'focus.db'}"
    else:
        url = request.getfixturevalue("redis_url")
    store = store_from(url)
    yield store
    store.close()
