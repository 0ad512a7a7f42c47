"""Feeds of a table whose generations are promoted and rolled back."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.delivery_loop import deliver_once
from hybrid_extensions.feeds.follower import DeliveryOutcome
from hybrid_extensions.generations.switch import promotion
from sources.errors import InputError
from sources.generations import begin
from tests.orchestration.generations.generation_case import GenerationCase

OLD = {1: 10, 2: 20, 3: 30}
NEW = {2: 20, 3: 31, 4: 40}


class Fed(GenerationCase):
    """Its table is fed to PostgreSQL."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.dsn = dsn
        self.feed = {
            "name": "serving",
            "type": "postgres",
            "dsn": dsn,
            "table": "events",
            "password_variable": "SERVING_PASSWORD",
        }
        super().__init__(folder, lambda document: document.update(feeds=[self.feed]))

    def deliver(self) -> DeliveryOutcome:
        loaded = self.loaded
        return deliver_once(loaded, feeds_of(loaded)[0])

    def fed(self) -> dict[int, int]:
        password = os.environ["SERVING_PASSWORD"]
        with psycopg.connect(self.dsn, password=password) as connection:
            return dict(connection.execute("SELECT id, v FROM events").fetchall())


@pytest.fixture
def case(tmp_path: Path, database: str) -> Fed:
    """One that serves and is fed, and one that waits."""
    made = Fed(tmp_path, database)
    made.run(OLD)
    assert made.deliver().kind == "load"
    begin(made.loaded)
    made.run(NEW)
    return made


def test_the_sink_has_what_readers_see_after_each_switch(case: Fed) -> None:
    assert case.deliver().kind == "none"
    assert case.fed() == OLD
    for switch, rows in (
        (promotion.promote, NEW),
        (promotion.roll_back, OLD),
        (promotion.roll_back, NEW),
    ):
        switch(case.loaded)
        done = case.deliver()
        assert (done.kind, done.why) == ("load", "another generation serves")
        assert case.fed() == rows


def test_the_key_is_that_of_the_generation_that_serves(case: Fed) -> None:
    promotion.promote(case.loaded)
    case.deliver()
    case.write(sink={"path": "out", "mode": "append", "key": ["id", "v"]})
    begin(case.loaded)
    case.run(OLD)
    assert case.deliver().kind == "none"
    promotion.promote(case.loaded)
    with pytest.raises(InputError, match=r"no unique index on the columns .*: id, v"):
        case.deliver()
    assert case.fed() == NEW
