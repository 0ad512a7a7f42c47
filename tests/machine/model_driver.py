"""A driver without Spark: the same plan, checkpoint files and transactions, rows by Arrow.

Everything that is decided before Spark reads a row is the real code; what a micro-batch does is a
model of it, so that kills between its three writes (offsets, table, commit) can be placed exactly.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StringType, StructField, StructType, TimestampType

from sources.common.positions import Offsets, TopicPartition
from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, InputError, SeamError
from sources.hybrid import Boundedness
from sources.kafka.client.kafka_log import KafkaLog
from sources.ledger import SeamCount, count_name
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.serving import target_of
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.warm_switch import switch
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.query.query_sources import QueryDeclaration, declare_query
from spark_jobs.inside.sink import sink
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.table.history_files import keep_history_files
from tests.machine.drivers import NO_PROCESS
from tests.machine.interrupts import Interrupts, KilledError
from tests.machine.world import COLUMNS, World

_SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("at", TimestampType()),
        StructField("v", DoubleType()),
    ]
)


class ModelMachine:
    """Starts model drivers.

    Args:
        world: What the topic holds.
        interrupts: Kill them.
    """

    def __init__(self, world: World, interrupts: Interrupts) -> None:
        self.world = world
        self.interrupts = interrupts
        self.kills = 0

    def start(self, pipeline: Path, sources: list[str], launch_id: str, lock: int) -> ModelDriver:
        """Start a driver; it works once somebody looks at it, after its launch was recorded."""
        return ModelDriver(self, lock, lambda driver: driver.run(pipeline, sources, launch_id))


class ModelDriver:
    """A driver that reads when it is told to, in the caller's thread."""

    def __init__(
        self, machine: ModelMachine, lock: int, work: Callable[[ModelDriver], None]
    ) -> None:
        self.pid = NO_PROCESS
        self._work: Callable[[ModelDriver], None] | None = work
        self._machine = machine
        self._lock: int | None = lock
        self._query_lock: contextlib.ExitStack = contextlib.ExitStack()
        self._status: int | None = None
        self._reporter: Reporter | None = None
        self._query: ModelQuery | None = None

    def poll(self) -> int | None:
        if self._work is not None:
            work, self._work = self._work, None
            work(self)
        return self._status

    def wait(self) -> int:
        assert self._status is not None
        return self._status

    def stop(self) -> None:
        self._work = None
        self._machine.interrupts.tick("before SIGTERM")
        with self._machine.interrupts.elsewhere():
            if self._reporter is not None:
                self._reporter.ended("stopped")
            self._end(0)
        self._machine.interrupts.tick("after SIGTERM")

    def kill(self) -> None:
        self._work = None
        self._end(-9)

    def beat(self) -> None:
        """Write a heartbeat, as a driver does each second."""
        if self._reporter is not None:
            self._reporter.update()

    def run(self, pipeline: Path, sources: list[str], launch_id: str) -> None:
        """Do what the job's main function does."""
        with self._dies():
            context = PipelineContext.require(load_pipeline(pipeline))
            require_approved(context)
            self._query_lock.enter_context(QueryLock(context.generation))
            for source in sources:
                if source != sources[0] and not switch(context, launch_id, source):
                    break
                self._reporter = Reporter(context, source, launch_id, None)
                self._read(context, source)
                if context.pipeline.source(source).boundedness is not Boundedness.BOUNDED:
                    return
            self._end(0)

    def pump(self) -> None:
        """Let a live run read what has arrived."""
        assert self._query is not None
        assert self._reporter is not None
        with self._dies(is_running=True):
            self._query.follow(self._reporter)

    def _read(self, context: PipelineContext, source: str) -> None:
        assert self._reporter is not None
        self._query = None
        query = ModelQuery(context, source, self._machine)
        query.require_ready()
        if query.declared.is_bounded:
            self._reporter.update(state="running")
            query.read_history(self._reporter)
        else:
            self._query = query
            query.follow(self._reporter)

    @contextlib.contextmanager
    def _dies(self, *, is_running: bool = False) -> Iterator[None]:
        """Run what a driver does; whatever it raises ends the driver, not its launcher."""
        interrupts = self._machine.interrupts
        try:
            try:
                yield
            except Exception as error:
                if self._reporter is not None:
                    self._reporter.failed(report_of(error))
                self._end(2 if isinstance(error, HybridError) else 1)
                if not isinstance(error, HybridError) and not is_running:
                    # A launch has to say what is wrong; under a running query it is Spark that
                    # meets what people did to its files.
                    raise
        except KilledError:
            # The driver's process only: whoever launched it lives, and sees how it ended.
            interrupts.at, interrupts.is_dead = None, False
            self._machine.kills += 1
            self._end(-9)

    def _end(self, status: int) -> None:
        self._status = status
        self._reporter = self._query = None
        self._query_lock.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class ModelQuery:
    """The one query of a launch, on the generation's checkpoint."""

    def __init__(self, context: PipelineContext, source: str, machine: ModelMachine) -> None:
        self.declared: QueryDeclaration = declare_query(context, source)
        self._context = context
        self._source = source
        self._world = machine.world
        self._tick = machine.interrupts.tick
        self._checkpoint = context.generation.checkpoint
        self._table = target_of(context.loaded, context.generation.name)
        self._path = self._table.url

    def require_ready(self) -> None:
        """Check all that the query's builder checks before Spark reads a row."""
        for place in self.declared.places:
            try:
                place.stream(MagicMock())
            except HybridError:
                raise
            except Exception:
                continue
        rows = cast("DataFrame", _Rows())
        self._guard = sink.prepare_table(
            self._context.pipeline.sink, self._table, rows, self._context.generation
        )
        if not self.declared.is_bounded:
            keep_history_files(self._context.generation, self._table, self._context.loaded.target)

    def read_history(self, reporter: Reporter) -> None:
        """Read a bounded source of files to its end, rounds included."""
        place, context = self.declared.place, self._context
        self._replay()
        while True:
            entries = self._entries()
            sizes = [len(each) for each in entries]
            step = context.pipeline.source(self._source).batch.files or 1  # type: ignore[union-attr]
            while not offset_log.is_drained(self.declared.committed(), len(entries)):
                done = offset_log.position_in_plan(self.declared.committed(), sizes)
                version = next(v for v in range(len(sizes)) if done < sum(sizes[: v + 1]))
                upto = min(done + step, sum(sizes[: version + 1]))
                index = upto - sum(sizes[:version])
                is_all = index == sizes[version]
                offset = {
                    "reservoirVersion": version + is_all,
                    "index": -1 if is_all else index - 1,
                }
                self._batch(self._offsets(offset))
                reporter.update(batches=1)
            if place.next_round() is None:
                break
            self.declared = declare_query(context, self._source)
            place = self.declared.place
        assert place.end is not None
        context.switch_state.finish(place.end)
        reporter.ended("finished")

    def follow(self, reporter: Reporter) -> None:
        """Read all that the topic holds now, in one micro-batch."""
        # As a driver does every second.
        self._guard.look()
        self._replay()
        starts = self.declared.place.starts or {}
        initial = self._checkpoint.root / "sources" / "1" / "0"
        if not initial.exists():
            initial.parent.mkdir(parents=True, exist_ok=True)
            self._tick("before the initial offsets")
            initial.write_text("v1\n" + json.dumps(_nested(starts)))
        reached = {**starts, **offset_log.kafka_offsets(self.declared.committed())}
        ends = self._ends()
        reached = {at: reached.get(at, 0) for at in ends}
        self._require_there(reached, ends)
        if any(ends[at] > reached[at] for at in ends):
            self._batch(self._offsets(_nested(ends)))
        self._count_seam()
        now = now_ms()
        reporter.update(
            state="running",
            idle=True,
            batches=1,
            batch_id=offset_log.last_committed(self._checkpoint),
            committed_at_ms=now,
            advanced_at_ms=now,
            offsets=ends,
        )

    def _require_there(self, reached: Offsets, ends: Offsets) -> None:
        for at, first in reached.items():
            if self._world.deleted_to.get(at.partition, 0) > first or ends[at] < first:
                message = f"Some data may have been lost: {at} at offset {first}."
                hint = "Begin a new generation: `hybrid generation new P`."
                raise SeamError(message, hint)

    def _ends(self) -> Offsets:
        source = self._context.pipeline.source(self._source)
        assert isinstance(source, KafkaSource)
        return KafkaLog(source).log_end()

    def _entries(self) -> list[list[str]]:
        name = self._context.pipeline.sources[0].name
        parts = history_of(self._context.generation, self._context.plan, name).parts
        return [read_splits(part, self._context.generation)["path"].to_pylist() for part in parts]

    def _offsets(self, offset: Any) -> list[Any]:
        committed = offset_log.last_committed(self._checkpoint)
        places: list[Any] = [None, None]
        if committed is not None:
            places = [offset_log.offset_of(self._checkpoint, committed, n) for n in range(2)]
        places[self.declared.index] = offset
        return places

    def _replay(self) -> None:
        """Repeat a batch that was planned and not committed, as Spark does."""
        planned = offset_log.last_planned(self._checkpoint)
        if planned is not None and planned != offset_log.last_committed(self._checkpoint):
            self._write(planned)

    def _batch(self, places: list[Any]) -> None:
        committed = offset_log.last_committed(self._checkpoint)
        number = 0 if committed is None else committed + 1
        folder = self._checkpoint.root / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        self._query_id()
        self._tick("before the batch's offsets")
        lines = ["-" if place is None else json.dumps(place) for place in places]
        (folder / str(number)).write_text("\n".join(["v1", "{}", *lines]))
        self._write(number)

    def _write(self, number: int) -> None:
        """Write the rows of a planned batch to the table, once, then its commit."""
        self._tick("before the table's commit")
        name = self._query_id()
        rows = self._rows(number)
        written = DeltaTable(self._path).transaction_version(name)
        if written is None or written < number:
            commit = CommitProperties(app_transactions=[Transaction(name, number)])
            write_deltalake(self._path, rows, mode="append", commit_properties=commit)
        self._tick("between the table and the checkpoint")
        (self._checkpoint.root / "commits").mkdir(exist_ok=True)
        (self._checkpoint.root / "commits" / str(number)).write_text("v1\n{}")
        self._tick("after the batch's commit")

    def _query_id(self) -> str:
        if (known := offset_log.query_id(self._checkpoint)) is not None:
            return known
        self._checkpoint.root.mkdir(parents=True, exist_ok=True)
        made = str(uuid.uuid4())
        (self._checkpoint.root / "metadata").write_text(json.dumps({"id": made}))
        return made

    def _rows(self, number: int) -> pa.Table:
        """Return the rows between the offsets of the batch before and those of this one."""
        before = max((n for n in self._numbers() if n < number), default=None)
        old = [None, None]
        if before is not None:
            old = [offset_log.offset_of(self._checkpoint, before, n) for n in range(2)]
        new = [offset_log.offset_of(self._checkpoint, number, n) for n in range(2)]
        entries = self._entries()
        sizes = [len(each) for each in entries]
        paths = [path for part in entries for path in part]
        first, last = (offset_log.position_in_plan(each, sizes) for each in (old[0], new[0]))
        tables = [pq.read_table(path, columns=COLUMNS.names) for path in paths[first:last]]
        tables.append(self._live_rows(old[1], new[1]))
        return self._that_count(pa.concat_tables([each.cast(COLUMNS) for each in tables]))

    def _that_count(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose event time counts; under ``fail`` all of them have to."""
        expected = self._context.pipeline.event_time
        low, high = (
            pa.scalar(ms, pa.timestamp("ms", "UTC")) for ms in expected.bounds_ms(now_ms())
        )
        inside = pc.and_(pc.greater_equal(rows["at"], low), pc.less_equal(rows["at"], high))
        if expected.outside == "fail" and not pc.all(inside, min_count=0).as_py():
            message = "A record's event time is outside of its bounds."
            hint = "Correct the record, or declare `event_time.outside: drop`, and run again."
            raise InputError(message, hint, field="event_time.outside")
        return rows.filter(inside)

    def _numbers(self) -> list[int]:
        return [int(path.name) for path in (self._checkpoint.root / "offsets").iterdir()]

    def _live_rows(self, old: Any, new: Any) -> pa.Table:
        starts = self.declared.place.starts or {}
        begin = {**starts, **offset_log.kafka_offsets(old)}
        end = offset_log.kafka_offsets(new)
        seam = self.declared.place.seam
        held: set[str | None] = set()
        if seam is not None and seam.rule == "key":
            held = set(self._history_keys())
        rows = []
        for each in self._world.sent:
            at = TopicPartition(self._world.topic, each.partition)
            if not begin.get(at, 0) <= each.offset < end.get(at, 0):
                continue
            is_in_seam = seam is not None and each.offset < seam.seam_end.get(at, 0)
            if is_in_seam and each.row.id in held:
                continue
            rows.append(dict(zip(COLUMNS.names, each.row.as_tuple(), strict=True)))
        return pa.Table.from_pylist(rows, COLUMNS)

    def _history_keys(self) -> list[str | None]:
        paths = [path for part in self._entries() for path in part]
        tables = [pq.read_table(path, columns=["id"]) for path in paths]
        return [key for table in tables for key in table["id"].to_pylist()]

    def _count_seam(self) -> None:
        """Record what the seam filter removed, as the real run does once the seam is passed."""
        generation, seam = self._context.generation, self.declared.place.seam
        reached = offset_log.kafka_offsets(self.declared.committed())
        if seam is None or not seam.is_to_count() or not seam.is_passed(reached):
            return
        held = set(self._history_keys())
        rows: Offsets = {}
        removed: Offsets = {}
        for at, start in seam.start.offsets().items():
            own = [
                each.row.id
                for each in self._world.sent
                if each.partition == at.partition
                and start <= each.offset < seam.seam_end.get(at, 0)
            ]
            rows[at], removed[at] = len(own), sum(key in held for key in own)
        count = SeamCount(source=self._source, rows=rows, removed=removed)
        generation.put_if_absent(count_name(self._source), count)


class _Rows:
    """What a target learns of a DataFrame before it is written."""

    columns = COLUMNS.names
    schema = _SCHEMA


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    for at, offset in offsets.items():
        made.setdefault(at.topic, {})[str(at.partition)] = offset
    return made
