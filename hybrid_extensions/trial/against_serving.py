"""Comparison of a sample's table with the same keys in the serving table.

It means something only where each row of the table is made of rows with the same values in the
columns of the sample; otherwise the reason is returned instead.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from deltalake import DeltaTable

from hybrid_extensions.comparison.compared_tables import create_target_rows, open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, count_rows, open_database
from hybrid_extensions.generations.comparison.compare_generations import (
    GenerationComparison,
    compare_tables,
)
from sources.config.loader import LoadedPipeline
from sources.config.table.sampled_share import Sample
from sources.errors import InputError
from sources.planning.transform_analysis import TransformAnalysis, read_analysis
from sources.serving import read_serving, target_of

SAMPLE = "the sample"
"""What the comparison calls the sample's table."""


class Compared(NamedTuple):
    """Comparison with the serving table, or the reason why there is none; one of the two is None.

    Attributes:
        comparison: The differences.
        reason: Why a comparison would mean nothing: a sentence.
    """

    comparison: GenerationComparison | None = None
    reason: str | None = None


def compare_with_serving(loaded: LoadedPipeline, side: LoadedPipeline, sample: Sample) -> Compared:
    """Compare a sample's table with the rows of the same keys in the serving table.

    Args:
        loaded: The pipeline.
        side: The pipeline of the sample, whose table is complete.
        sample: The sample.

    Raises:
        InputError: A table can't be read.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    name = read_serving(loaded).generation
    serving, made = open_target(target_of(loaded, name)), open_target(side.target)
    if serving is None or made is None:
        return Compared(reason="No table of the pipeline serves yet.")
    analysis = read_analysis(side.require_generation())
    if not serving.get_add_actions().num_rows:
        return Compared(reason=f"The table that serves, that of {name}, has no rows yet.")
    reason = (
        _why_not_by_columns(side, sample)
        or _why_not_by_transform(side, sample, analysis)
        or _why_not_by_tables(side, sample, {name: serving, SAMPLE: made})
    )
    if reason is not None:
        return Compared(reason=reason)
    within = sample.duckdb_condition(side.pipeline.event_time.column)
    try:
        return Compared(compare_tables(side, {name: serving, SAMPLE: made}, within))
    except InputError as error:
        # What is tried may have another type on purpose, and all else that was found stands.
        if error.fields.get("field") != "audit.sql":
            raise
        return Compared(reason=error.message)


def _why_not_by_columns(side: LoadedPipeline, sample: Sample) -> str | None:
    """Return why rows of the table may be made of rows that the sample has only in part."""
    sink = side.pipeline.sink
    others = [name for name in sample.by if name not in sink.key]
    if sink.mode == "append" or not others:
        return None
    return (
        f"A row of the table is made of rows with different values of `{others[0]}`, which is not "
        f"in `sink.key` ({', '.join(sink.key)}), so the sample has only a part of them. Choose "
        f"`--by` among these columns for a comparison."
    )


def _why_not_by_transform(
    side: LoadedPipeline, sample: Sample, analysis: TransformAnalysis | None
) -> str | None:
    """Return why the transform keeps rows of a sample from being those of the whole."""
    sink, name = side.pipeline.sink, side.pipeline.transform.name
    if analysis is None or analysis.columns is None:
        return f"`transform: {name}` could not be analyzed, so it is unknown what its rows are of."
    returned = {column.name: column.inputs for column in analysis.columns}
    needed = [*sample.by]
    if sample.since is not None or sample.until is not None:
        if analysis.stateful or sink.mode != "append":
            return (
                "`--since` and `--until` leave out rows that rows of the table are made of, too, "
                "such as those of a window that begins before."
            )
        needed.append(side.pipeline.event_time.column)
    for column in needed:
        if returned.get(column) != [column]:
            return (
                f"`transform: {name}` does not pass on column `{column}`, by which the sample is "
                "taken, so its rows can't be found in the table that serves."
            )
    others = [column for column in sample.by if column not in sink.key]
    if analysis.stateful and others:
        return (
            f"`transform: {name}` keeps state, and `{others[0]}` is not in `sink.key` "
            f"({', '.join(sink.key)}): it may combine rows of the sample with others. Choose "
            "`--by` among these columns for a comparison."
        )
    return None


def _why_not_by_tables(
    side: LoadedPipeline, sample: Sample, tables: dict[str, DeltaTable]
) -> str | None:
    """Return why rows of the sample can't be found in the tables."""
    needed = dict.fromkeys([*side.pipeline.sink.key, *sample.by])
    if sample.since is not None or sample.until is not None:
        needed[side.pipeline.event_time.column] = None
    for name, table in tables.items():
        there = [field.name for field in table.schema().fields]
        if lacking := [column for column in needed if column not in there]:
            return f"The table of {name} has no column `{lacking[0]}`."
    within = sample.duckdb_condition(side.pipeline.event_time.column)
    with (
        TemporaryDirectory(prefix="hybrid-try-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        create_target_rows(connection, "found", tables[SAMPLE], list(needed))
        if count_rows(connection, f"audit.found WHERE ({within}) IS NOT TRUE"):
            return (
                f"`transform: {side.pipeline.transform.name}` changes values of "
                f"{', '.join(sample.by)}, by which the sample is taken, so its rows can't be found "
                "in the table that serves."
            )
    return None
