"""Cuts of a real PostgreSQL under load; connector and drivers are models, the publisher is not.

The connector reads pgoutput as Debezium does, and numbers changes as it does. It delivers to
partitions that lag behind each other, and confirms what it has delivered.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import psycopg
import pyarrow as pa
import pytest

from examples.transfers import INVARIANTS, MAKE, TABLES, Transfers
from hybrid_extensions.cuts import attempt as attempt_module
from hybrid_extensions.cuts.attempt import Attempt, GivenUp, database_of
from hybrid_extensions.cuts.barrier import (
    BarrierStep,
    Crossing,
    read_barrier,
    read_crossing,
    step,
    write_crossing,
)
from hybrid_extensions.cuts.table import TableVersion
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.storage.folder import Folder
from tests.services.captured_database import captured_database
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow
PARTITIONS = 2
CUTS = 10


class Change(NamedTuple):
    position: str
    key: int
    row: tuple[int, ...] | None


class Table:
    """A table, its topic, and a driver that merges micro-batches by the rule of the barriers."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.generation = Folder(folder / name)
        self.target = Folder(folder / name / "target")
        self.topic: list[list[Change]] = [[] for _ in range(PARTITIONS)]
        self.committed = [0] * PARTITIONS
        self.versions: list[dict[int, Change]] = [{}]

    def log_end(self) -> dict[int, int]:
        return {part: len(each) for part, each in enumerate(self.topic)}

    def unread(self, ends: dict[int, int]) -> int:
        return sum(max(end - self.committed[part], 0) for part, end in ends.items())

    def run(self, stop: threading.Event) -> None:
        batch = 0
        while not stop.wait(0.01):
            ends = [len(each) for each in self.topic]
            parts = zip(self.topic, self.committed, ends, strict=True)
            changes = [change for each, begin, end in parts for change in each[begin:end]]
            time.sleep(0.02)
            self._merge(batch, changes)
            self.committed = ends
            batch += 1

    def _merge(self, batch: int, changes: list[Change]) -> None:
        barrier = read_barrier(self.generation)
        while barrier is not None and barrier.is_open and barrier.position is None:
            barrier = read_barrier(self.generation)
        if barrier is None or not barrier.is_open or barrier.position is None:
            self._commit(changes)
            return
        before = [each for each in changes if each.position < str(barrier.position)]
        behind = [each for each in changes if each.position >= str(barrier.position)]
        answered = read_crossing(self.generation, barrier.number)
        decided = step(batch, len(before), len(behind), answered, is_barred=False)
        answer = Crossing(number=barrier.number, batch=batch)
        if decided is BarrierStep.LATE:
            write_crossing(self.generation, answer.model_copy(update={"failure": "late"}))
        if decided is BarrierStep.SPLIT:
            self._commit(before)
        if decided in (BarrierStep.SPLIT, BarrierStep.CROSS):
            version = len(self.versions) - 1
            write_crossing(self.generation, answer.model_copy(update={"table_version": version}))
        self._commit(behind if decided is BarrierStep.SPLIT else changes)

    def _commit(self, changes: list[Change]) -> None:
        rows = dict(self.versions[-1])
        for change in changes:
            known = rows.get(change.key)
            if known is None or change.position >= known.position:
                rows[change.key] = change
        self.versions.append(rows)

    def content(self, version: int) -> pa.Table:
        rows = [each.row for each in self.versions[version].values() if each.row is not None]
        columns = TABLES[self.name]
        values: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in columns]
        return pa.table(
            {name: pa.array(each, pa.int64()) for name, each in zip(columns, values, strict=True)}
        )


class Connector:
    """Reads a slot from where it was confirmed, delivers, and confirms."""

    def __init__(self, dsn: str, slot: str, tables: dict[str, Table]) -> None:
        self._dsn, self._slot, self._tables = dsn, slot, tables
        self._last = 0

    def run(self, stop: threading.Event) -> None:
        chance = random.Random(0)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not stop.wait(0.02):
                self._deliver(connection, chance)

    def _deliver(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        found = connection.execute(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint, data FROM pg_logical_slot_peek_binary_changes("
            "%s, NULL, 300, 'proto_version', '1', 'publication_names', 'p', 'messages', 'true')",
            [self._slot],
        ).fetchall()
        names: dict[int, str] = {}
        arriving: dict[tuple[str, int], list[Change]] = {}
        confirmed = None
        for lsn, data in found:
            kind = data[:1]
            if kind == b"R":
                (relation,) = struct.unpack(">I", data[1:5])
                names[relation] = data[5:].split(b"\0")[1].decode()
            elif kind in (b"I", b"U", b"D"):
                name = names[struct.unpack(">I", data[1:5])[0]]
                row = _tuple(data, kind)
                place = name, row[0] % PARTITIONS
                position = f"{self._last:016x}{lsn:016x}"
                change = Change(position, row[0], None if kind == b"D" else row)
                arriving.setdefault(place, []).append(change)
            elif kind == b"C" or (kind == b"M" and data[1] == 0):
                self._last = confirmed = lsn
        for name, part in chance.sample(list(arriving), len(arriving)):
            self._tables[name].topic[part].extend(arriving[name, part])
            if chance.random() < 0.3:
                time.sleep(0.02)
        if confirmed is not None:
            connection.execute(
                "SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)",
                [self._slot, confirmed],
            )


def _tuple(data: bytes, kind: bytes) -> tuple[int, ...]:
    """The new row of a change, or the key of a deleted one."""
    at = 5
    if kind == b"U" and data[at : at + 1] in (b"K", b"O"):
        _, at = _values(data, at + 1)
    return _values(data, at + 1)[0]


def _values(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    (count,) = struct.unpack(">H", data[at : at + 2])
    at += 2
    values = []
    for _ in range(count):
        is_text = data[at : at + 1] == b"t"
        at += 1
        if is_text:
            (length,) = struct.unpack(">I", data[at : at + 4])
            values.append(int(data[at + 4 : at + 4 + length]))
            at += 4 + length
    return tuple(values), at


@pytest.fixture
def options(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[SnapshotOptions]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with captured_database(postgres, MAKE[:3]) as (dsn, slot):
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in MAKE[3:]:
                connection.execute(statement)
        yield SnapshotOptions(dsn=dsn, slot=slot)


def test_invariants_over_three_tables_hold_in_every_cut(
    options: SnapshotOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {name: Table(name, tmp_path) for name in TABLES}
    targets = {each.target.url: each for each in tables.values()}
    monkeypatch.setattr(attempt_module, "version_of", lambda at: len(targets[at.url].versions) - 1)
    stop = threading.Event()
    runs = [Connector(options.dsn, str(options.slot), tables).run]
    runs += [each.run for each in tables.values()]
    threads = [threading.Thread(target=each, args=(stop,)) for each in runs]
    given_up: list[str] = []
    torn = 0
    try:
        for thread in threads:
            thread.start()
        with Transfers(options.dsn, 4) as transfers:
            cuts = [cut(tables, options, given_up) for _ in range(CUTS)]
            for _ in range(CUTS):
                time.sleep(0.05)
                torn += bool(broken(tables, {n: len(t.versions) - 1 for n, t in tables.items()}))
        # The database is quiet from here on.
        last = cut(tables, options, given_up)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(  # noqa: T201 - figures for the documentation
        f"{CUTS + 1} cuts, {len(given_up)} attempts given up, {transfers.committed} transactions; "
        f"newest versions torn in {torn} of {CUTS} looks"
    )
    assert [broken(tables, each) for each in [*cuts, last]] == [{}] * (CUTS + 1)
    with psycopg.connect(options.dsn) as connection:
        for name, version in last.items():
            ours = tables[name].content(version).sort_by("id").to_pylist()
            rows = connection.execute(f"SELECT * FROM {name} ORDER BY id").fetchall()
            assert [tuple(each.values()) for each in ours] == rows


def cut(tables: dict[str, Table], options: SnapshotOptions, given_up: list[str]) -> dict[str, int]:
    """The versions of the next cut."""
    members: list[Any] = list(tables.values())
    while True:
        attempt = Attempt(members, database_of(options), 60)
        try:
            attempt.open()
            found = outcome(attempt)
        finally:
            attempt.close()
        if not isinstance(found, GivenUp):
            return {name: each.version for name, each in found.items()}
        given_up.append(found.why)


def outcome(attempt: Attempt) -> dict[str, TableVersion] | GivenUp:
    """What an attempt comes to."""
    looks: list[dict[str, TableVersion] | GivenUp | None] = []

    def is_known() -> bool:
        looks.append(attempt.look())
        return looks[-1] is not None

    wait_for(is_known, "a cut, or why there is none", 120)
    found = looks[-1]
    assert found is not None
    return found


def broken(tables: dict[str, Table], versions: dict[str, int]) -> dict[str, Any]:
    """By invariant: how many rows break it."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA public")
        for name, version in versions.items():
            connection.register(f"_{name}", tables[name].content(version))
            connection.execute(f"CREATE VIEW public.{name} AS SELECT * FROM _{name}")
        found = {name: connection.execute(sql).fetchall()[0][0] for name, sql in INVARIANTS.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
