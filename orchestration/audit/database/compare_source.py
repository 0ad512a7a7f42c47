"""Comparison of the whole target with the table in its database, row by row.

The database's own tool writes its rows to a file, delta-rs reads the target, and DuckDB compares
them. No code is shared with the snapshot or with the runs that write the target, but for the form
of MySQL's JSON documents, which have no text of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from orchestration.audit.database.compared_sides import ComparedTable, compared_sides
from orchestration.audit.report import EXAMPLES
from orchestration.audit.sql import as_json, count_rows
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.planning.context import PipelineContext
from sources.serving import target_of


@dataclass(frozen=True)
class SourceComparison:
    """Differences between a database table (the source) and the target.

    A row that differs in one column is counted on both sides.

    Attributes:
        table: Name of the database table, ``schema.table``.
        rows: Rows of the database table.
        found: Rows of the target.
        only_in_source: Rows of the database table that the target does not hold with equal values.
        only_in_target: Rows of the target that the database table does not hold with equal values.
        examples: Up to :data:`orchestration.audit.report.EXAMPLES` rows of each side, as JSON.
        columns: Names of the columns that were compared.
    """

    table: str
    rows: int
    found: int
    only_in_source: int
    only_in_target: int
    examples: list[str]
    columns: list[str]

    @property
    def ok(self) -> bool:
        """Whether both tables hold equal rows, each row equally often."""
        return not self.only_in_source and not self.only_in_target

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-compatible dictionary, with ``ok``."""
        return {**asdict(self), "ok": self.ok}


def compare_with_source(loaded: LoadedPipeline) -> SourceComparison:
    """Compare a pipeline's target with the database table that it captures, as both are now.

    Changes that the live run has not merged yet are reported as differences.

    Raises:
        InputError: The pipeline captures no table, there is no target yet, or one of the two can't
            be read, such as for a database that does not answer or a wrong password.
        StateError: The declaration changed in a way that the checkpoint can't follow.
    """
    return compare_table(compared_table(loaded))


def compared_table(loaded: LoadedPipeline) -> ComparedTable:
    """Return the database table and the target that a pipeline declares, for a comparison.

    Columns that the generation's runs have adopted since are among them.

    Raises:
        InputError: The pipeline captures no table.
        StateError: The declaration changed in a way that the checkpoint can't follow.
        UnavailableError: The state's store does not answer.
    """
    if (context := PipelineContext.find(loaded)) is not None:
        # It knows the columns that were followed.
        loaded = context.loaded
    options, topic = _captured_table(loaded)
    table = topic.changes
    assert table is not None  # a `snapshot` before the topic needs it
    columns = table.current(topic.value_columns)
    return ComparedTable(
        options.dsn,
        table.table,
        {name: kind for name, kind in columns.items() if name not in table.gone_columns},
        target_of(loaded),
        {name: table.name_in_table(name) for name in table.renamed_columns},
        loaded.pipeline.sink.present,
    )


def compare_table(asked: ComparedTable) -> SourceComparison:
    """Compare a Delta table with a database table row by row, duplicates included.

    Args:
        asked: Both tables; only columns that the Delta table has are compared.

    Raises:
        InputError: The Delta table does not exist, or one of the tables can't be read.
    """
    with compared_sides(asked) as (connection, compared):
        source, found = count_rows(connection, "source"), count_rows(connection, "target")
        counts, examples = {}, []
        for side in ("source", "target"):
            counts[side] = count_rows(connection, f"only_{side}")
            rows = connection.execute(
                f"SELECT {as_json(compared)} FROM only_{side} ORDER BY ALL LIMIT {EXAMPLES}"
            ).fetchall()
            examples += [f"only in the {side}: {row[0]}" for row in rows]
    return SourceComparison(
        table=asked.table,
        rows=source,
        found=found,
        only_in_source=counts["source"],
        only_in_target=counts["target"],
        examples=examples,
        columns=compared,
    )


def _captured_table(loaded: LoadedPipeline) -> tuple[SnapshotOptions, KafkaSource]:
    """Return how to reach the database of the captured table, and the topic of its changes."""
    for source in loaded.pipeline.sources:
        topic = loaded.pipeline.topic_after(source.name)
        if isinstance(source, FileSource) and source.snapshot is not None and topic is not None:
            return source.snapshot, topic
    message = (
        f"Pipeline `{loaded.pipeline.name}` captures no database table: none of its sources "
        "declares a `snapshot` and is followed by the topic of the table's changes."
    )
    hint = "Compare the target with the pipeline's raw input instead: `hybrid audit P`."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="snapshot")
