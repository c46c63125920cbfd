"""Redis: expiry, and when things go wrong."""

import time
from contextlib import closing

import pytest
import redis

from focusctx.errors import StoreError
from focusctx.session.store import Totals
from focusctx.session.stores import store_from
from focusctx.session.stores.redis import RedisStore
from helpers.stored import event, free_port, redis_binary, redis_server, span


def ttls(url: str) -> dict[bytes, int]:
    with redis.Redis.from_url(url) as client:
        return {key: client.ttl(key) for key in client.scan_iter()}


@pytest.fixture
def empty_redis(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        yield redis_url


def test_everything_in_redis_expires(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1000")) as store:
        store.commit("t", "r", event("e1", "a", "b"), [span("a"), span("b")])
        store.restore("t", "r", "b")
        store.add("t", Totals(events=1))
        store.version("t", "never")
        store.restored("t", ["never"])
    left = ttls(empty_redis)
    assert len(left) == 5  # the event, its originals, the mark of the span, the version, the totals
    assert all(key.startswith(b"focusctx:{") for key in left)
    assert all(990 <= ttl <= 2000 for ttl in left.values())


def test_thirty_days_unless_told(empty_redis):
    with closing(store_from(empty_redis)) as store:
        store.add("t", Totals(events=1))
    (left,) = ttls(empty_redis).values()
    assert 30 * 86400 - 10 < left <= 30 * 86400


def test_asking_renews_and_an_event_never_outlives_its_originals(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1000")) as store, redis.Redis.from_url(empty_redis) as client:
        store.commit("t", "r", event("e1", "a", "b"), [span("a"), span("b")])
        store.restore("t", "r", "a")

        def left_after(ask) -> dict[str, int]:
            for key in client.scan_iter():
                client.expire(key, 50)
            ask()
            return {key.decode().split("}:")[1]: ttl for key, ttl in ttls(empty_redis).items()}

        def renewed(left: dict[str, int]) -> set[str]:
            return {key for key, ttl in left.items() if ttl > 50}

        assert renewed(left_after(lambda: store.restored("t", ["a", "b"]))) == {"restored:a"}
        assert renewed(left_after(lambda: store.events("t", ["e1"]))) == {"originals:e1", "event:e1"}
        assert renewed(left_after(lambda: store.version("t", "r"))) == {"version:r"}


def test_after_expiry_the_conversation_starts_anew_with_a_higher_version(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1")) as store:
        store.commit("t", "r", event("e1", "a"), [span("a")])
        before = store.version("t", "r")
        time.sleep(2.1)
        assert store.archived("t", ["e1"]) == []
        assert store.events("t", ["e1"]) == {}
        assert store.version("t", "r") == 0
        second = event("e1", "a", tokens_after=1)
        assert store.commit("t", "r", second, [span("a", text="new")]) == second
        assert store.archived("t", ["e1"]) == [span("a", text="new")]
        assert store.version("t", "r") > before


def test_no_server_is_an_error(monkeypatch):
    store = store_from(f"redis://:secret@127.0.0.1:{free_port()}/0")
    calls = [
        lambda: store.version("t", "r"),
        lambda: store.restored("t", ["a"]),
        lambda: store.events("t", ["a"]),
        lambda: store.archived("t", ["a"]),
        lambda: store.commit("t", "r", event("e1", "a"), [span("a")]),
        lambda: store.restore("t", "r", "a"),
        lambda: store.add("t", Totals(events=1)),
        lambda: store.totals("t"),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="Redis: ") as caught:
            call()
        assert "secret" not in str(caught.value)
    store.close()


@pytest.mark.skipif(redis_binary() is None, reason="no redis-server on PATH (scripts/redis installs it)")
class TestRedisServers:
    """Servers in states that the shared one must not be in."""

    def test_a_full_server_stores_nothing_of_a_commit(self, tmp_path):
        with redis_server(tmp_path, "--maxmemory", "3mb") as url, closing(store_from(url)) as store:
            stored = []

            def fill() -> None:
                for number in range(1000):
                    keys = [f"a{number}", f"b{number}"]
                    spans = [span(key, text="x" * 5000) for key in keys]
                    stored.append(store.commit("t", "r", event(f"e{number}", *keys), spans))

            with pytest.raises(StoreError, match="maxmemory"):
                fill()
            assert len(stored) > 0
            assert store.version("t", "r") > 0  # reading goes on
            events = [f"e{number}" for number in range(1000)]
            assert list(store.events("t", events).values()) == stored
            keys = [f"{letter}{number}" for number in range(len(stored)) for letter in "ab"]
            assert [each.key for each in store.archived("t", events)] == keys

    def test_a_cluster_finds_all_keys_of_a_call_on_one_node(self, tmp_path):
        with redis_server(tmp_path, "--cluster-enabled", "yes") as url:
            with redis.Redis.from_url(url) as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    time.sleep(0.05)
            single = store_from(url)
            many = RedisStore(redis.RedisCluster.from_url(url))
            for number, store in enumerate([single, many]):
                for tenant in (f"a}}{number}", f"{{b}}{number}"):
                    store.commit(tenant, "r", event("e1", "a", "{b}"), [span("a"), span("{b}")])
                    store.restore(tenant, "r", "a")
                    assert store.restored(tenant, ["a", "{b}"]) == {"a"}
                    assert store.archived(tenant, ["e1"]) == [span("a"), span("{b}")]
                    assert store.events(tenant, ["e1", "e2"]) == {"e1": event("e1", "a", "{b}")}
                    store.add(tenant, Totals(events=1))
                    assert store.totals(tenant) == Totals(events=1)
                    assert store.version(tenant, "r") > 0
                store.close()
            with redis.Redis.from_url(url) as client:
                assert len(client.client_list()) == 1, "both stores have closed their connections"
