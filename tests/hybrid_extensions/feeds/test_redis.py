"""Keys of a real Redis or Valkey server as a second sink."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from hybrid_extensions.servers.redis_server import LocalRedis
from sources.errors import InputError, StateError, UnavailableError
from tests.hybrid_extensions.feeds.feed_case import FeedCase, from_texts, row


class Keys(FeedCase):
    """A pipeline that feeds keys of Redis."""

    def __init__(self, folder: Path, server: LocalRedis, **declared: Any) -> None:
        self.prefix = f"{uuid.uuid4().hex[:8]}:"
        self.client = redis.Redis.from_url(
            server.url, password=server.password, decode_responses=True
        )
        feed = {
            "name": "serving",
            "type": "redis",
            "url": server.url,
            "prefix": self.prefix,
            "password_variable": "SERVING_PASSWORD",
        }
        self.feed = {**feed, **declared}
        super().__init__(folder, self.feed)

    def hashes(self) -> dict[str, dict[str, str]]:
        names = self.client.scan_iter(f"{self.prefix}*")
        return {name.removeprefix(self.prefix): self.client.hgetall(name) for name in names}  # type: ignore[misc]

    def rows(self) -> list[dict[str, Any]]:
        return [from_texts(dict(each)) for each in self.hashes().values()]


@pytest.fixture
def case(
    tmp_path: Path, redis_server: LocalRedis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Keys]:
    monkeypatch.setenv("SERVING_PASSWORD", redis_server.password)
    made = Keys(tmp_path, redis_server)
    made.write(row(n) for n in range(100))
    yield made
    made.client.close()


def test_a_load_then_changes_and_deletes_make_the_keys_equal(case: Keys) -> None:
    assert case.deliver().kind == "load"
    assert case.difference(case.rows()) == []
    case.write(row(n, 1) for n in range(50, 120))
    case.delete("id < 10")
    done = case.deliver()
    assert (done.kind, done.rows) == ("changes", 80)
    assert case.difference(case.rows()) == []
    hashes = case.hashes()
    assert (hashes["20:a"]["__version"], hashes["60:a"]["__version"]) == ("1", "3")


def test_the_names_of_keys_are_the_values_of_the_key(case: Keys) -> None:
    case.write([row(1000, part="x:y%"), row(1001, part="")])
    case.deliver()
    assert {"1000:x%3Ay%25", "1001:"} < case.hashes().keys()


def test_texts_arrive_as_they_are(case: Keys) -> None:
    texts = ["", " ", "\\", 'a,"b"', "two\nlines", "ä€😀", "a\0b", "%25:", "%-"]
    case.write(row(n, 1, part=text) for n, text in enumerate(texts, 1000))
    case.deliver()
    assert case.difference(case.rows()) == []
    assert case.compare(1000).agrees


def test_a_delivery_that_was_interrupted_is_completed_as_it_was(
    case: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.deliver()
    case.write([row(1, 1), row(2, 1)])
    with case.follower() as follower:
        monkeypatch.setattr(redis.Redis, "register_script", _ending(redis.Redis.register_script))
        with pytest.raises(UnavailableError):
            follower.deliver()
    monkeypatch.undo()
    monkeypatch.setenv(
        "SERVING_PASSWORD", case.client.connection_pool.connection_kwargs["password"]
    )
    assert case.hashes()["1:a"]["n"] == "1"
    # It changes back, so the changes from the version before would not have it.
    case.write([row(1, 0)])
    case.deliver()
    assert case.difference(case.rows()) == []


def _ending(register: Any) -> Any:
    """Scripts of the server, whose caller ends before what was delivered is recorded."""

    def registered(self: Any, script: str) -> Any:
        run = register(self, script)

        def called(keys: list[str], args: list[Any]) -> Any:
            if "delivered" in args:
                raise UnavailableError("The process ended here.", "It is a test.")
            return run(keys=keys, args=args)

        return called

    return registered


@pytest.mark.parametrize("what", ["promotion", "made again", "flushed"])
def test_a_load_leaves_no_stale_key(case: Keys, what: str) -> None:
    case.deliver()
    if what == "promotion":
        case.delete("id > 30")
        case.own("second")
    elif what == "made again":
        shutil.rmtree(case.target)
        case.write(row(n, 1) for n in range(5))
    else:
        for name in [*case.client.scan_iter(f"{case.prefix}*"), f"hybrid-feed:{case.prefix}"]:
            case.client.delete(name)
    assert case.deliver().kind == "load"
    assert case.difference(case.rows()) == []


def test_a_follower_that_was_replaced_writes_nothing_more(case: Keys) -> None:
    with case.follower() as slow:
        slow.deliver()
        case.write([row(1, 1)])
        # Another follower begins.
        case.deliver()
        case.write([row(1, 2)])
        before = case.hashes()
        with pytest.raises(StateError, match="Another follower feeds `serving` now"):
            slow.deliver()
        assert case.hashes() == before


def test_an_older_version_never_replaces_a_newer_one(case: Keys) -> None:
    case.deliver()
    name = f"{case.prefix}1:a"
    case.client.hset(name, mapping={"__version": "1000", "n": "77"})
    case.write([row(1, 1)])
    case.deliver()
    assert case.client.hget(name, "n") == "77"


def test_keys_of_others_are_not_deleted(case: Keys) -> None:
    case.client.set(f"{case.prefix}theirs", "x")
    with pytest.raises(InputError, match="keys that no feed has written, such as"):
        case.deliver()
    case.client.delete(f"{case.prefix}theirs")
    case.deliver()
    case.declare({**case.feed, "name": "other"})
    with pytest.raises(InputError, match=r"fed by `delays.serving`, not by `delays.other`"):
        case.deliver()


@pytest.mark.parametrize("is_longer", [True, False])
def test_feeds_whose_prefixes_overlap_are_refused(case: Keys, is_longer: bool) -> None:
    case.deliver()
    other = f"{case.prefix}eu:" if is_longer else case.prefix[:-1]
    case.declare({**case.feed, "name": "other", "prefix": other})
    with pytest.raises(InputError, match=f"overlap with those of another feed, `{case.prefix}"):
        case.deliver()


def test_a_load_deletes_no_key_that_others_add_later(case: Keys) -> None:
    case.deliver()
    name = f"{case.prefix}theirs"
    case.client.hset(name, "value", "x")
    case.deliver(reload=True)
    assert case.client.hgetall(name) == {"value": "x"}
    assert not case.compare(1000).agrees


def test_what_others_changed_is_found_and_repaired(case: Keys) -> None:
    case.deliver()
    assert case.compare(1000).agrees
    case.client.hset(f"{case.prefix}1:a", "n", "77")
    case.client.delete(f"{case.prefix}2:a")
    found = case.compare(1000)
    assert (found.different, found.sink_rows) == (2, 99)
    assert set(found.examples) == {f"{case.prefix}1:a", f"{case.prefix}2:a"}
    case.deliver(reload=True)
    assert case.compare(1000).agrees


def test_a_wrong_password_is_not_shown(case: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVING_PASSWORD", "guessed-secret")
    with pytest.raises(InputError, match="refuses feed `serving`") as caught:
        case.deliver()
    assert "guessed-secret" not in str(caught.value)


def test_a_server_that_is_down_is_waited_for(case: Keys) -> None:
    case.declare({**case.feed, "url": "redis://127.0.0.1:1/0"})
    with pytest.raises(UnavailableError, match="does not answer feed `serving`"):
        case.deliver()


def test_a_server_that_removes_keys_by_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru"}
    with LocalRedis(settings) as server:
        monkeypatch.setenv("SERVING_PASSWORD", server.password)
        case = Keys(tmp_path, server)
        case.write([row(1)])
        with pytest.raises(InputError, match="maxmemory-policy allkeys-lru"):
            case.deliver()
