"""An attempt that is continued from what was kept of it, as by a sensor."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.cuts import attempt as attempt_module
from hybrid_extensions.cuts.attempt import Database, GivenUp, UnderWay
from hybrid_extensions.cuts.barrier import Barrier, read_barrier, write_barrier
from hybrid_extensions.cuts.publisher import advance
from hybrid_extensions.cuts.table import Cut, list_cuts
from sources.common.positions import TopicPartition
from sources.common.times import now_ms
from sources.errors import InputError, UnavailableError
from sources.storage.folder import Folder


class Table:
    """A table whose topic has one record, which ``is_read`` says."""

    follows = True

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.generation = Folder(folder / name)
        self.target = Folder(folder / name / "target")
        self.serving = "g1"
        self.is_read = False

    @property
    def context(self) -> Any:
        return SimpleNamespace(generation=SimpleNamespace(name=self.serving))

    def log_end(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.name, 0): 1}

    def unread(self, ends: dict[TopicPartition, int]) -> int:
        return 0 if self.is_read else sum(ends.values())

    def barrier(self) -> Barrier:
        found = read_barrier(self.generation)
        assert found is not None
        return found


class Shop:
    """Two tables, and a database whose log ends at 7."""

    def __init__(self, folder: Path) -> None:
        self.tables = [Table(folder, "a"), Table(folder, "b")]
        self.confirmed = 6
        self.group: Any = SimpleNamespace(
            tables=lambda: self.tables, folder=Folder(folder / "cuts"), database=None
        )

    def advance(self, found: Any) -> Cut | GivenUp | UnderWay:
        """A later look of another process, which has the text of what was kept."""
        kept = None if found is None else UnderWay.model_validate_json(found.model_dump_json())
        mark = Mark("7", "0-1-7", 7, datetime.now(UTC))
        asked = Database(lambda: mark, lambda: self.confirmed)
        return advance(self.group, kept, 60, asked)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(attempt_module, "version_of", lambda _: 3)
    return Shop(tmp_path)


def test_each_look_continues_where_the_one_before_left_off(shop: Shop) -> None:
    found = shop.advance(None)
    assert isinstance(found, UnderWay)
    assert (found.number, found.mark.text, found.ends) == (1, "0-1-7", {})
    assert {table.barrier().position for table in shop.tables} == {"7"}
    shop.confirmed = 7
    found = shop.advance(found)
    assert isinstance(found, UnderWay)
    assert found.ends["b"] == {TopicPartition("b", 0): 1}
    shop.tables[0].is_read = shop.tables[1].is_read = True
    found = shop.advance(found)
    assert isinstance(found, Cut)
    assert {name: each.version for name, each in found.tables.items()} == {"a": 3, "b": 3}
    assert list_cuts(shop.group.folder) == [found]
    assert not any(table.barrier().is_open for table in shop.tables)


def test_a_promotion_in_between_ends_the_attempt(shop: Shop) -> None:
    found = shop.advance(None)
    shop.tables[0].serving = "g2"
    found = shop.advance(found)
    assert isinstance(found, GivenUp)
    assert "Another generation" in found.why
    assert not shop.tables[1].barrier().is_open


def test_an_attempt_that_nobody_continued_in_time_is_given_up(shop: Shop) -> None:
    begun = shop.advance(None)
    assert isinstance(begun, UnderWay)
    late = begun.barrier.model_copy(update={"until_ms": now_ms() - 1})
    found = shop.advance(begun.model_copy(update={"barrier": late}))
    assert isinstance(found, GivenUp)
    assert "has not confirmed the position 0-1-7" in found.why


def test_the_attempt_of_another_process_is_left_alone(shop: Shop) -> None:
    other = Barrier(number=1, is_open=True, until_ms=now_ms() + 60_000, position="5")
    write_barrier(shop.tables[1].generation, other)
    found = shop.advance(None)
    assert isinstance(found, GivenUp)
    assert "Another process" in found.why
    assert shop.tables[1].barrier() == other
    assert read_barrier(shop.tables[0].generation) is None
    # One that ended without closing it is in the way until its time is over.
    write_barrier(shop.tables[1].generation, other.model_copy(update={"until_ms": now_ms() - 1}))
    assert isinstance(shop.advance(None), UnderWay)


def test_a_look_that_fails_leaves_no_barrier_that_nobody_waits_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Any:
        message = "no"
        raise UnavailableError(message, "wait")

    shop.confirmed = 7
    with monkeypatch.context() as patched:
        patched.setattr(Table, "log_end", fail)
        with pytest.raises(UnavailableError):
            shop.advance(None)
    assert not any(table.barrier().is_open for table in shop.tables)
    begun = shop.advance(None)
    monkeypatch.setattr(Table, "unread", lambda *_: fail(None))
    with pytest.raises(UnavailableError):
        shop.advance(begun)
    assert all(table.barrier().is_open for table in shop.tables)


def test_a_database_that_refuses_leaves_no_open_barrier(shop: Shop) -> None:
    def refuse() -> Mark:
        raise InputError("no", "nothing")

    with pytest.raises(InputError) as caught:
        advance(shop.group, None, 60, Database(refuse, lambda: 7))
    assert caught.value.effect.startswith("This attempt published no cut, and changed no table")
    assert not any(table.barrier().is_open for table in shop.tables)
