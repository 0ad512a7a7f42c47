"""Declarations of feeds: what is accepted, and what bad input is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.feeds.declare import KafkaFeed, PostgresFeed, feed_of
from sources.config.loader import load_pipeline
from sources.errors import InputError
from tests.extensions import needs
from tests.sources.config.test_loader import refusal, write

POSTGRES = {"name": "serving", "type": "postgres", "dsn": "host=db user=feeder", "table": "delays"}
REDIS = {"name": "online", "type": "redis", "url": "redis://cache:6379/0", "prefix": "delays:"}


def test_feeds_are_read_and_found_by_name(tmp_path: Path) -> None:
    loaded = load_pipeline(write(tmp_path, feeds=[POSTGRES, REDIS]), {"TOPIC": "t"})
    assert isinstance(feed_of(loaded, "serving"), PostgresFeed)
    assert feed_of(loaded, "online").max_lag.total_seconds() == 600
    with pytest.raises(InputError, match="has no feed `other`") as caught:
        feed_of(loaded, "other")
    assert "serving, online" in caught.value.hint


@pytest.mark.parametrize(
    ("feed", "told"),
    [
        ({**POSTGRES, "tabel": "x"}, "feeds.0.tabel: unknown field; did you mean `table`?"),
        pytest.param(
            {**POSTGRES, "dsn": "host=db password=secret"},
            "`dsn` contains a password",
            marks=needs("postgres"),
        ),
        ({**POSTGRES, "table": "a.b.c"}, "feeds.0.table"),
        ({**REDIS, "url": "redis://me:secret@cache"}, "`feeds[0].url` is a URL with a password"),
        ({**REDIS, "prefix": ""}, "feeds.0.prefix"),
        ({"name": "k", "type": "kafka"}, "feeds.0.topic: this field is needed"),
        ({"name": "p", "type": "python", "function": "f"}, "feeds.0.function"),
        ({"name": "x", "type": "mongo"}, "feeds.0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, feed: dict[str, Any], told: str) -> None:
    text = refusal(tmp_path, feeds=[feed])
    assert told in text
    assert "secret" not in text


def test_files_of_a_feed_start_at_the_pipelines_own_folder(tmp_path: Path) -> None:
    feed = {"name": "k", "type": "kafka", "topic": "t", "security": {"protocol": "SSL", "ca": "x"}}
    loaded = load_pipeline(write(tmp_path, feeds=[feed]), {"TOPIC": "t"})
    found = feed_of(loaded, "k")
    assert isinstance(found, KafkaFeed)
    assert found.security is not None
    assert found.security.ca == str(tmp_path / "x")


def test_two_feeds_of_a_name_are_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, feeds=[POSTGRES, {**REDIS, "name": "serving"}])
    assert "`feeds` has two feeds of the name `serving`" in text


def test_a_feed_is_no_part_of_what_a_generation_keeps(tmp_path: Path) -> None:
    environment = {"TOPIC": "t"}
    without = load_pipeline(write(tmp_path), environment).contract()
    assert load_pipeline(write(tmp_path, feeds=[REDIS]), environment).contract() == without


def test_a_table_whose_files_stay_as_they_are_has_no_feeds(tmp_path: Path) -> None:
    marked = {"path": "out", "mode": "merge", "key": ["id"]}
    properties = {"delta.enableDeletionVectors": "true"}
    text = refusal(tmp_path, feeds=[REDIS], sink={**marked, "properties": properties})
    assert "each version would be loaded whole" in text
    without = {"delta.enableDeletionVectors": "false"}
    write(tmp_path, feeds=[REDIS], sink={**marked, "properties": without})


def test_a_table_that_keeps_every_version_has_no_feeds(tmp_path: Path) -> None:
    kept = {
        "path": "out",
        "mode": "merge",
        "key": ["id"],
        "sequence": "n",
        "deleted": "gone",
        "deletes": "soft",
        "history": "changed",
    }
    text = refusal(tmp_path, feeds=[REDIS], sink=kept)
    assert "`sink.history: changed` keeps every version" in text
