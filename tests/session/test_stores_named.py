"""Naming a store: from a URL to the store, or an error that says what is wrong with it."""

import builtins

import pytest

from focusctx.errors import ConfigError, MissingExtraError
from focusctx.session.store import MemoryStore
from focusctx.session.stores import store_from
from focusctx.session.stores.redis import RedisStore
from focusctx.session.stores.sqlite import SQLiteStore


def test_store_from_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(store_from(), MemoryStore)
    assert isinstance(store_from("memory"), MemoryStore)
    relative, absolute = store_from("sqlite:///focus.db"), store_from(f"sqlite:///{tmp_path}/other.db")
    assert isinstance(relative, SQLiteStore)
    assert (relative.path, absolute.path) == (tmp_path / "focus.db", tmp_path / "other.db")
    assert isinstance(store_from("redis://localhost:1/0"), RedisStore)
    assert isinstance(store_from("rediss://localhost:1/0?ttl=60"), RedisStore)
    own = MemoryStore()
    assert store_from(own) is own


@pytest.mark.parametrize(
    "url",
    ["", "sqlite", "sqlite:focus.db", "sqlite://focus.db", "sqlite:///", "sqlite:///:memory:", "redis:localhost",
     "postgres://me:secret@host/db", "focus.db", None, 3],
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms_there_are(url):
    with pytest.raises(ConfigError, match="sqlite:////folder") as caught:
        store_from(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("query", ["ttl=soon", "ttl=0", "ttl=-1", "colour=red", "socket_timeout=long"])
def test_a_wrong_redis_option_is_refused(query):
    with pytest.raises(ConfigError) as caught:
        store_from(f"redis://:secret@localhost:1/0?{query}")
    assert "secret" not in str(caught.value)


def test_redis_is_an_extra(monkeypatch):
    load = builtins.__import__

    def without_redis(name, globals=None, locals=None, fromlist=(), level=0):
        if level == 0 and name.split(".")[0] == "redis":
            raise ImportError(name)
        return load(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_redis)
    with pytest.raises(MissingExtraError, match=r"focusctx\[redis\]"):
        store_from("redis://localhost:1/0")
