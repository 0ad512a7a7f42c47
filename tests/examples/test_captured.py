"""The databases of the demo are followed with Kafka Connect and without Kafka, through crashes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.captured import KINDS
from examples.change_feed import LogFeed
from examples.shop import execute, make_shop
from hybrid_extensions.change_log.segments import Segments
from sources.storage.folder import Folder

pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_is_followed_without_kafka_though_both_crash(kind: str, tmp_path: Path) -> None:
    with ExitStack() as cleanup:
        database = cleanup.enter_context(KINDS[kind](tmp_path, None))
        make_shop(database.dsn, 50)
        database.capture(["stock"])
        assert isinstance(database.feed, LogFeed)
        database.crash_connector()
        execute(database.dsn, "UPDATE stock SET pieces = 7")
        database.wait_until_read()
        database.crash_server()
        execute(database.dsn, "UPDATE stock SET pieces = 8 WHERE sku <> 'nobody buys this'")
        database.wait_until_read()
        segments, topic = Segments(Folder(tmp_path / "log")), f"shop.{database.schema}.stock"
        offset, found = segments.start(topic), 0
        while offset < segments.end(topic):
            rows = segments.read(topic, offset, 1 << 20)
            found += sum(
                b'"pieces":8' in (value or b"").replace(b" ", b"") for value in rows.values
            )
            offset += len(rows.values)
        assert found >= 50
