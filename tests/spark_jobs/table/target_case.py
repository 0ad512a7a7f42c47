"""A generation with its target, its checkpoint and its state, written without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sources.serving import owner_properties
from spark_jobs.table.ownership.belonging import TargetSide
from spark_jobs.table.ownership.target_guard import TargetGuard, confirm_start, epoch_transaction
from spark_jobs.table.ownership.target_records import announce_start
from tests.e2e.case import moment
from tests.orchestration.supervision.live_case import LiveCase

QUERY = "5a0c0a5e-0000-4000-8000-000000000000"
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


class TargetCase(LiveCase):
    """One pipeline of files whose batches are committed by hand, in the order in which Spark does.

    Args:
        folder: An empty folder.
        mode: ``append`` or ``merge``: under which transaction id a batch is written.
    """

    def __init__(self, folder: Path, mode: str = "append") -> None:
        super().__init__(folder, sink_mode=mode)
        self.folder = folder
        self.is_append = mode == "append"
        self.out = str(folder / "out")

    @property
    def checkpoint(self) -> Path:
        return self.generation.checkpoint.root

    @property
    def side(self) -> TargetSide:
        return TargetSide.of(self.loaded, self.generation)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.out)

    def start(self) -> TargetGuard:
        """What a driver does before its query starts."""
        record = announce_start(self.side)
        DeltaTable.create(
            self.out,
            SCHEMA,
            mode="ignore",
            configuration=dict(owner_properties(self.generation)),
            raise_if_key_not_exists=False,
            commit_properties=epoch_transaction(self.side, record),
        )
        return confirm_start(self.side, record)

    def plan_batch(self, number: int) -> None:
        """Spark's offsets of a batch, before it runs."""
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(f'{{"id":"{QUERY}"}}')
        (self.checkpoint / "offsets" / str(number)).write_text("v1\n{}\n-\n-")

    def write_batch(self, number: int, rows: int = 1) -> None:
        """The sink's commit of a batch; its ids begin at 100 times its number."""
        writer = QUERY if self.is_append else self.generation.info.transaction_id
        done = CommitProperties(app_transactions=[Transaction(writer, number)])
        ids = range(100 * number, 100 * number + rows)
        at = pa.array([moment(n) for n in ids], SCHEMA.field("at").type)
        table = pa.table({"id": pa.array(ids, pa.int64()), "at": at})
        write_deltalake(self.out, table, mode="append", commit_properties=done)

    def end_batch(self, number: int) -> None:
        """Spark's commit of a batch, after the sink's."""
        (self.checkpoint / "commits").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "commits" / str(number)).write_text("v1\n{}")

    def batches(self, *numbers: int) -> None:
        for number in numbers:
            self.plan_batch(number)
            self.write_batch(number)
            self.end_batch(number)

    def run(self, *numbers: int) -> None:
        """One run: start, batches, and what its driver records at the end."""
        guard = self.start()
        self.batches(*numbers)
        guard.look()
        guard.keep()

    def foreign_rows(self) -> None:
        """Somebody else's INSERT."""
        table = pa.table(
            {"id": pa.array([-1], pa.int64()), "at": pa.nulls(1, SCHEMA.field("at").type)}
        )
        write_deltalake(self.out, table, mode="append")

    def copy(self, what: Path, name: str) -> Path:
        """A backup of a folder."""
        backup = self.folder / name
        shutil.copytree(what, backup)
        return backup

    def put_back(self, backup: Path, what: Path) -> None:
        """Restore a folder from its backup."""
        shutil.rmtree(what, ignore_errors=True)
        shutil.copytree(backup, what)
