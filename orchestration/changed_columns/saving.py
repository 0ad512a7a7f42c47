"""What a generation that computes only changed columns reads and writes, against a full rerun."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from orchestration.display import size
from sources.changed_columns.documents import (
    ChangedColumns,
    PinnedVersion,
    is_unfinished,
    read_changed_columns,
)
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from sources.serving import target_of
from sources.state.generation import Generation
from spark_jobs.changed_columns.files import read_files, size_of
from spark_jobs.changed_columns.fitness import require_plain
from spark_jobs.changed_columns.kept import kept_context
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.table_snapshot import read_snapshot

# Bytes of a value, not compressed, by the Spark SQL type of a column that no file has yet.
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4}
_WIDTH, _TEXT_WIDTH = 8, 16


class Saving(BaseModel):
    """Bytes that are read and written if only changed columns are computed, and otherwise.

    Attributes:
        of: Name of the generation whose rows are taken.
        rows: Number of these rows.
        columns: Columns that are computed.
        inputs: Columns that they are computed from.
        decoded: Bytes of the inputs in the table's files.
        computed: Bytes of the computed columns: as the files have them; of a new column an estimate
            by its type.
        copied: Bytes of the other columns, which are copied as they are stored.
        read_by_rerun: Bytes of the files that a full rerun reads.
        records_of_rerun: Records of the topic that it reads besides.
        written_by_rerun: Bytes of the table that it writes.
    """

    model_config = ConfigDict(frozen=True)

    of: str
    rows: int
    columns: list[str]
    inputs: list[str]
    decoded: int
    computed: int
    copied: int
    read_by_rerun: int
    records_of_rerun: int
    written_by_rerun: int

    @property
    def share(self) -> float:
        """Bytes that are decoded and computed, as a fraction of those of a full rerun; computed.

        The records of the topic are not counted, so a full rerun is rather more.
        """
        full = self.read_by_rerun + self.written_by_rerun
        return (self.decoded + self.computed) / full if full else 1.0

    @property
    def text(self) -> str:
        """All of it in sentences; computed."""
        inputs = f" from {_named(self.inputs)}" if self.inputs else ""
        columns = _named(self.columns) if self.columns else "no column"
        records = (
            f" and {counted(self.records_of_rerun, 'record')} of Kafka"
            if self.records_of_rerun
            else ""
        )
        follows = " The live run continues right after these rows." if records else ""
        return (
            f"Takes the {counted(self.rows, 'row')} of {self.of}, and computes only "
            f"{columns}{inputs}: decodes {size(self.decoded)}, computes about "
            f"{size(self.computed)}, and copies {size(self.copied)} of other columns as they are "
            f"stored. That is {self.share:.1%} of a full rerun, which reads "
            f"{size(self.read_by_rerun)} of files{records}, and writes "
            f"{size(self.written_by_rerun)}.{follows}"
        )


def saving_in_words(loaded: LoadedPipeline, generation: Generation, plan: Plan) -> str | None:
    """Return what a generation saves by computing only changed columns, in sentences.

    Args:
        loaded: The pipeline.
        generation: The generation.
        plan: Its plan.

    Returns:
        None if it computes all columns from its sources.

    Raises:
        StateError: The rows can't be taken any more.
        InputError: The serving table can't be read.
    """
    if (made := read_changed_columns(generation)) is None:
        return None
    if not is_unfinished(generation):
        columns = _named([each.name for each in made.difference.changed]) or "no column"
        return f"Took the rows of {made.of}, and computed only {columns}."
    return find_saving(loaded, generation, made, plan).text


def find_saving(
    loaded: LoadedPipeline, generation: Generation, made: ChangedColumns, plan: Plan
) -> Saving:
    """Return the bytes of both ways, by the footers of the serving table's files as they are now.

    Args:
        loaded: The pipeline.
        generation: The generation that computes only changed columns.
        made: What it computes.
        plan: Its plan, by which a full rerun would read.

    Raises:
        StateError: The rows can't be taken any more.
        InputError: The serving table can't be read.
    """
    serving = kept_context(loaded, made.of)
    pinned = generation.read(PinnedVersion.NAME, PinnedVersion)
    folder = target_of(serving.loaded, made.of)
    table = read_snapshot(folder, None if pinned is None else pinned.table_version)
    require_plain(table, made.of)
    files = read_files(table)
    rows = sum(sum(each.groups) for each in files)
    known = {name for each in files for name in each.sizes}
    changed = made.difference.changed
    return Saving(
        of=made.of,
        rows=rows,
        columns=[each.name for each in changed],
        inputs=made.difference.inputs,
        decoded=size_of(files, made.difference.inputs),
        computed=sum(
            size_of(files, [each.name]) if each.name in known else rows * _width(each.type)
            for each in changed
        ),
        copied=size_of(files, made.difference.kept),
        read_by_rerun=sum(part.bytes for part in plan.files),
        records_of_rerun=_records(serving),
        written_by_rerun=sum(add["size"] for add in table.files),
    )


def _records(serving: PipelineContext) -> int:
    """Return how many records of the topic the serving generation has read."""
    last = serving.pipeline.sources[-1]
    start = serving.switch_state.start_of(last.name)
    if not isinstance(last, KafkaSource) or start is None:
        return 0
    place = serving.pipeline.hybrid_source().index(last.name)
    starts = start.offsets()
    reached = offset_log.reached(serving.generation.checkpoint, place)
    return sum(end - starts.get(at, 0) for at, end in reached.items())


def _width(kind: str) -> int:
    return _TEXT_WIDTH if kind in ("string", "binary") else _WIDTHS.get(kind, _WIDTH)


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)
