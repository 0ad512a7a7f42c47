"""A driver in whose place of Spark is a model: micro-batches, checkpoint and commits, one by one.

The run around it, its lock, heartbeats, hand-over, start on the target and guard are the product's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.ledger import require_ledger
from sources.planning.context import PipelineContext
from sources.serving import target_of
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.pipeline_run import PipelineRun
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.sink import sink
from spark_jobs.inside.sink.appending.append_once import append_once
from spark_jobs.table.commit_position import CommitPositions
from tests.simulation.kernel import MS, Process, S, SimulatedEvent, active
from tests.simulation.topic import ALL, NAME
from tests.simulation.world import current_world

COLUMNS = StructType([StructField("id", StringType()), StructField("at", TimestampType())])


class SparkError(Exception):
    """A query fails as Spark's do: with an error that is not the product's."""


class _Rows:
    """What a target learns of a DataFrame before it is written."""

    columns = COLUMNS.names
    schema = COLUMNS


class Launch(NamedTuple):
    """What a driver is told when it is launched."""

    loaded: LoadedPipeline
    sources: Sequence[str]
    launch_id: str
    generation: str


def main(files: list[list[int]], launch: Launch, process: Process) -> int:
    """Do what the job's main function does; return the exit status."""
    stop = SimulatedEvent()
    process.on_term = stop.set
    kernel = active()
    kernel.sleep(kernel.random.randrange(100 * MS, 4 * S))
    run = PipelineRun(
        launch.sources,
        launch.launch_id,
        cast("Any", stop),
        cast("Any", lambda: files),
        {},
        generation=launch.generation,
    )
    try:
        return run.run(launch.loaded)
    except HybridError as error:
        kernel.tell(f"ends: {type(error).__name__}: {error.message}")
        return 2
    except (SparkError, DeltaError, OSError) as error:
        kernel.tell(f"ends: {type(error).__name__}: {error}")
        return 1


def run_bounded(
    files: list[list[int]],
    context: PipelineContext,
    source: str,
    reporter: Reporter,
    stop: SimulatedEvent,
    _: object = None,
) -> int:
    """Read history to its end, as the product's function of this name does by Spark."""
    query = Query(files, context, source, reporter)
    done = query.history_read()
    while done < len(files) and not stop.is_set():
        reporter.require_lock()
        done += 1
        index = {"reservoirVersion": 0, "index": done - 1}
        if done == len(files):
            index = {"reservoirVersion": 1, "index": -1}
        query.batch([index, None])
        query.look()
        reporter.update(batches=1, batch_id=query.number)
    query.guard.keep()
    if done < len(files):
        reporter.ended("stopped")
        return 3
    context.switch_state.finish(context.plan.files_of(source).end)
    reporter.ended("finished")
    return 0


def run_unbounded(
    files: list[list[int]],
    context: PipelineContext,
    source: str,
    reporter: Reporter,
    stop: SimulatedEvent,
    _: object = None,
) -> int:
    """Follow the topic until it is stopped, as the product's function of this name does."""
    kernel = active()
    context.switch_state.require_turn(source)
    query = Query(files, context, source, reporter)
    query.begin_topic()
    while not stop.is_set():
        reporter.require_lock()
        ends = current_world().topic.ends()
        if any(ends[at] > query.reached[at] for at in ALL):
            query.batch([query.places[0], {NAME: {str(at.partition): ends[at] for at in ALL}}])
            query.reached = ends
        query.look()
        now = now_ms()
        reporter.update(
            idle=True,
            batches=1,
            batch_id=query.number,
            committed_at_ms=now,
            advanced_at_ms=now,
            offsets=query.reached,
        )
        stop.wait(kernel.random.randrange(6, 14))
    query.guard.keep()
    reporter.ended("stopped")
    return 0


class Query:
    """The one query of a launch: what Spark keeps in memory, and what it writes.

    Attributes:
        number: The last micro-batch that this query knows as committed; None before the first one.
        places: Up to where it has read each source.
        reached: The first unread offset of each partition.
    """

    def __init__(
        self, files: list[list[int]], context: PipelineContext, source: str, reporter: Reporter
    ) -> None:
        self._files = files
        self._context = context
        self._source = source
        self._checkpoint = context.generation.checkpoint
        self._table = target_of(context.loaded, context.generation.name)
        self.guard = sink.prepare_table(
            context.pipeline.sink, self._table, cast("DataFrame", _Rows()), context.generation
        )
        reporter.update(state="running")
        self._require_query_id()
        self._positions = CommitPositions(context.generation, ["history", "live"])
        self.number = offset_log.last_committed(self._checkpoint)
        planned = offset_log.last_planned(self._checkpoint)
        self.places: list[Any] = [None, None]
        if self.number is not None:
            self.places = self._places_of(self.number)
        self._starts = dict.fromkeys(ALL, 0)
        self.reached = dict(self._starts)
        self._seam = dict.fromkeys(ALL, 0)
        if planned is not None and planned != self.number:
            self._begin_seam()
            self._write(planned, self._places_of(planned))

    def history_read(self) -> int:
        """Return how many files are read."""
        return offset_log.position_in_plan(self.places[0], [len(self._files)])

    def begin_topic(self) -> None:
        """Fix where the topic begins, at the first start."""
        self._begin_seam()
        starts = self._context.switch_state.require_start(self._source).offsets()
        known = offset_log.initial_kafka_offsets(self._checkpoint, 1)
        if known is None:
            nested = {NAME: {str(at.partition): starts[at] for at in ALL}}
            self._create("sources/1/0", f"v1\n{json.dumps(nested)}")
        elif known != starts:
            raise SparkError(f"the checkpoint has other starting offsets: {known}, not {starts}")
        self.reached = {**starts, **offset_log.kafka_offsets(self.places[1])}

    def batch(self, places: list[Any]) -> None:
        """Do a micro-batch."""
        number = 0 if self.number is None else self.number + 1
        lines = ["-" if place is None else json.dumps(place) for place in places]
        self._create(f"offsets/{number}", "\n".join(["v1", "{}", *lines]))
        self._write(number, places)

    def look(self) -> None:
        """Let the guard look at the target."""
        self.guard.look(self.number)

    def _write(self, number: int, places: list[Any]) -> None:
        rows = self._rows(self.places, places)
        self.guard.before(number)
        append_once(
            self._table,
            self._context.generation,
            number,
            lambda _: self._files_of(rows),
            self._positions,
        )
        self._create(f"commits/{number}", "v1\n{}")
        self.number, self.places = number, places

    def _files_of(self, rows: list[int]) -> list[AddAction]:
        name = f"part-{active().random.getrandbits(64):016x}.parquet"
        data = json.dumps(rows).encode()
        self._table.documents.put(self._table.location(name), data)
        return [AddAction(name, len(data), {}, now_ms(), True, "{}")] if rows else []

    def _rows(self, old: list[Any], new: list[Any]) -> list[int]:
        """Return the numbers of the rows between two positions."""
        sizes = [len(self._files)]
        first, last = (offset_log.position_in_plan(each[0], sizes) for each in (old, new))
        rows = [number for file in self._files[first:last] for number in file]
        held = {number for file in self._files for number in file}
        begin = {**self._starts, **offset_log.kafka_offsets(old[1])}
        end = offset_log.kafka_offsets(new[1])
        for at in ALL:
            records = current_world().topic.records[at.partition]
            for offset in range(begin[at], end.get(at, 0)):
                number = records[offset].number
                if offset >= self._seam[at] or number not in held:
                    rows.append(number)
        return rows

    def _begin_seam(self) -> None:
        start = self._context.switch_state.start_of("live")
        if start is None:
            return
        self._starts = start.offsets()
        topic = self._context.pipeline.topic_source("live")
        entries = require_ledger(self._context.generation, topic).entries
        self._seam = {at: entries[at.partition].seam_end for at in ALL}

    def _places_of(self, number: int) -> list[Any]:
        return offset_log.offsets_of(self._checkpoint, number)

    def _require_query_id(self) -> None:
        if offset_log.query_id(self._checkpoint) is None:
            made = f"query-{active().random.getrandbits(64):016x}"
            self._create("metadata", json.dumps({"id": made}))

    def _create(self, name: str, text: str) -> None:
        """Create a file of the checkpoint, as Spark does with the product's file manager."""
        path, data = self._checkpoint.location(name), text.encode()
        if self._checkpoint.documents.put_if_absent(path, data) is None:
            raise SparkError(f"Multiple streaming queries are concurrently using {name}")
