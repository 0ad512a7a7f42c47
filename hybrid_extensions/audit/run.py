"""Audit of a table: expected rows against those that are there, ledgers and bad records recounted.

DuckDB computes the expected rows from every file and every record, without Spark, plan or
checkpoint; :func:`hybrid_extensions.comparison.compare_tables.compare` says which rows are lost,
doubled, unexpected or different. The ledger of each hand-over and the bad records are recounted as
well; the package's docstring says which decisions of the runs those recounts use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from orchestration.comparison.report import EXAMPLES, AuditReport, InputRows
from sources.common.counting import counted
from sources.errors import InputError

if TYPE_CHECKING:
    from sources.common.positions import EndPosition
    from sources.config.loader import LoadedPipeline
    from sources.config.pipeline import Pipeline

_COUNTS = ("expected", "found", "missing", "duplicated", "different", "unexpected", "ambiguous")


def audit(loaded: LoadedPipeline) -> AuditReport:
    """Compare a pipeline's target with an independent computation from all of its input.

    Nothing is written, but to a temporary folder. Where an expression that only Spark evaluates
    decides about rows, nothing is compared, and the report says why its answer is ``unknown``.

    Topics are read up to their end offsets at the start of the audit, the target as it is after
    that. So while a live run writes the table, as many rows may differ as there were records to be
    read or written meanwhile: whether these are right is then ``unknown``. So it is, too, for as
    many rows as there are records that a paused or ended live run has not read. It blocks until all
    input is read. An adopted table, or a snapshot still being read, is ``unknown``.

    Returns:
        The report. Differences raise nothing: its ``outcome`` is ``failed``.

    Raises:
        InputError: A file, a record, ``audit.sql`` or the target can't be read, or the columns of
            the target and of the computation do not match.
        StateError: The declaration changed in a way that the checkpoint can't follow, another
            generation has replaced this one in the target, or the state is damaged.
        UnavailableError: A broker or a store does not answer.
    """
    started = time.monotonic()
    import duckdb  # noqa: PLC0415 - it takes long to import

    from hybrid_extensions.audit.computed.proven_expressions import NotProvenError  # noqa: PLC0415
    from hybrid_extensions.comparison.copied_rows import KEY_TWICE, has_key_twice  # noqa: PLC0415
    from sources.common.sql.proven_expressions import undecided_value  # noqa: PLC0415

    try:
        return _compare(loaded, started)
    except NotProvenError as error:
        why = f"{error}."
    except (duckdb.Error, InputError) as error:
        value = undecided_value(error)
        if value is None and not has_key_twice(error):
            raise
        why = f"{KEY_TWICE}." if value is None else f"there is {value}."
    return AuditReport(
        pipeline=loaded.pipeline.name,
        **dict.fromkeys(_COUNTS, 0),
        examples={},
        input_rows=InputRows({}, 0),
        ledger=[],
        bad_records=[],
        unchecked=[f"Nothing was compared: {why}"],
        notes=[],
        seconds=time.monotonic() - started,
    )


def _compare(loaded: LoadedPipeline, started: float) -> AuditReport:
    """Return the report of a comparison that began at a moment of the monotonic clock."""
    # DuckDB, delta-rs and librdkafka take half a second to import.
    from hybrid_extensions.audit.computed.expected_query import expected_query  # noqa: PLC0415
    from hybrid_extensions.audit.computed.proven_expressions import NotProvenError  # noqa: PLC0415
    from hybrid_extensions.audit.computed.snapshot_rows import settle_snapshot_rows  # noqa: PLC0415
    from hybrid_extensions.audit.expected_and_target import create_sides, with_rounded  # noqa: PLC0415
    from hybrid_extensions.audit.inputs import create_inputs  # noqa: PLC0415
    from hybrid_extensions.audit.readers.file_views import AuditFiles  # noqa: PLC0415
    from hybrid_extensions.audit.records_in_flight import records_in_flight  # noqa: PLC0415
    from hybrid_extensions.audit.recount.recounted_ledger import recount_ledgers  # noqa: PLC0415
    from hybrid_extensions.audit.unknown_differences import without_in_flight, without_unproven  # noqa: PLC0415
    from hybrid_extensions.comparison.compare_tables import compare  # noqa: PLC0415
    from hybrid_extensions.comparison.compared_tables import require_own_rows  # noqa: PLC0415
    from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database  # noqa: PLC0415
    from sources.planning.context import PipelineContext  # noqa: PLC0415
    from sources.planning.files.open_snapshot import open_in_words  # noqa: PLC0415
    from sources.state.adopted_table import read_adopted  # noqa: PLC0415
    from spark_jobs.run_state.repairs import read_repairs  # noqa: PLC0415

    repaired: list[str] = []
    require_own_rows(loaded)
    if (context := PipelineContext.find(loaded)) is not None:
        # It knows the places of tables that are declared by their names.
        loaded = context.loaded
        repaired = [each.version for each in read_repairs(context.generation).repairs]
        if (adopted := read_adopted(context.generation)) is not None:
            version = f"version {adopted.table_version} of the table"
            message = f"{version} was adopted, and no input of this pipeline says what is in it"
            raise NotProvenError(message)
        if (reading := open_in_words(context)) is not None:
            raise NotProvenError(reading)
    query = expected_query(loaded)
    pipeline = loaded.pipeline
    with (
        TemporaryDirectory(prefix="hybrid-audit-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
        AuditFiles(loaded, Path(scratch)).naming_originals() as files,
    ):
        ends: list[EndPosition] = []
        if context is not None and pipeline.captures_tables:
            ends = [part.end for part in context.plan.files]
        in_flight = records_in_flight(context)
        inputs = create_inputs(connection, loaded, files, ends)
        if in_flight is not None:
            in_flight.before_target()
        unchecked, side_notes = create_sides(connection, loaded, query, inputs.unproven)
        unchecked = [*inputs.unchecked, *unchecked]
        settle_snapshot_rows(connection, pipeline, repaired)
        comparison = compare(
            connection,
            pipeline.sink.row_key,
            EXAMPLES,
            {} if pipeline.audit is None else pipeline.audit.tolerance,
            without=_not_compared(pipeline, inputs.ambiguous),
        )
        comparison, doubt = without_unproven(comparison, with_rounded(connection, query))
        unchecked += doubt
        if in_flight is not None:
            comparison, doubt = without_in_flight(comparison, in_flight)
            unchecked += doubt
        ledger, ledger_unchecked = recount_ledgers(connection, loaded, files)
    if not comparison.expected and inputs.distinct:
        unchecked.append(f"No row is expected, although the input has {inputs.distinct:,}.")
    return AuditReport(
        pipeline=pipeline.name,
        expected=comparison.expected,
        found=comparison.found,
        missing=comparison.counts["missing"],
        duplicated=comparison.counts["duplicated"],
        different=comparison.counts["different"],
        unexpected=comparison.counts["unexpected"],
        ambiguous=inputs.ambiguous,
        examples={**comparison.examples, "ambiguous": inputs.examples},
        input_rows=InputRows(inputs.rows, inputs.distinct),
        ledger=ledger,
        bad_records=inputs.bad_records,
        unchecked=[*unchecked, *ledger_unchecked],
        notes=[*inputs.notes, *side_notes, *_hints(comparison.rounded, inputs.ambiguous)],
        seconds=time.monotonic() - started,
    )


def _not_compared(pipeline: Pipeline, ambiguous: int) -> str | None:
    """Return the table of keys whose rows are not compared, because any of several may be right.

    None if there are none, or if ``audit.sql`` or another key makes rows of the target from them.
    """
    is_by_key = pipeline.sink.sequence is not None or set(pipeline.key) == set(pipeline.sink.key)
    return "audit.ambiguous" if ambiguous and pipeline.audit_sql is None and is_by_key else None


def _hints(rounded: Mapping[str, int], ambiguous: int) -> list[str]:
    """Return sentences about what to declare, for differences that a declaration may explain.

    Args:
        rounded: Rows that differ by rounding only, by column.
        ambiguous: Keys whose rows differ in the input.
    """
    from hybrid_extensions.comparison.compare_tables import ROUNDING  # noqa: PLC0415

    hints = [
        f"Column `{name}`: {counted(count, 'row differs', 'rows differ')} by at most "
        f"{ROUNDING:g} of the value, as sums and averages do that add the same numbers in "
        "another order. If it is one, declare "
        f"`audit: {{sql: …, tolerance: {{{name}: {ROUNDING:g}}}}}`."
        for name, count in rounded.items()
    ]
    if ambiguous:
        hints.append(
            f"Of {counted(ambiguous, 'key')}, the input has rows that differ, and nothing says "
            "which of them counts. If the last one does, declare `sink.mode: merge` and the "
            "column that orders them as `sink.sequence`; otherwise correct `key`, or leave "
            "the column that differs out with `select`."
        )
    return hints
