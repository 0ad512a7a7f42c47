"""The audit: computes the target from all raw input and compares it with the target row by row.

DuckDB computes the expected rows from every file and every record, without Spark, plan or
checkpoint. The ledger of each hand-over and the bad records are recounted as well; the package's
docstring says which decisions of the runs those recounts use.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from orchestration.audit.report import EXAMPLES, AuditReport, InputRows
from sources.errors import InputError

if TYPE_CHECKING:
    from sources.config.loader import LoadedPipeline
    from sources.config.sink import Sink

# The live run may share the machine; beyond this, DuckDB spills to disk.
MEMORY_LIMIT = "2GB"


def audit(loaded: LoadedPipeline) -> AuditReport:
    """Compare a pipeline's target with an independent computation from all of its input.

    Topics are read up to their end offsets at the start of the audit, the target as it is after
    that. While a pipeline runs, records produced meanwhile may therefore be reported as
    ``unexpected``, and rows that the live run has not written yet as ``missing``.

    Raises:
        InputError: A file, a record, ``audit.sql`` or the target can't be read, or the columns of
            the target and of the computation do not match.
        UnavailableError: A broker or a store does not answer.
    """
    started = time.monotonic()
    # DuckDB, delta-rs and librdkafka take half a second to import.
    from orchestration.audit.compare import compare  # noqa: PLC0415
    from orchestration.audit.files import AuditFiles  # noqa: PLC0415
    from orchestration.audit.inputs import create_inputs  # noqa: PLC0415
    from orchestration.audit.ledger import recount_ledgers  # noqa: PLC0415
    from orchestration.audit.sides import create_sides  # noqa: PLC0415
    from orchestration.audit.sql import open_database  # noqa: PLC0415

    query = _expected_query(loaded)
    with (
        TemporaryDirectory(prefix="hybrid-audit-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        files = AuditFiles(loaded, Path(scratch))
        inputs = create_inputs(connection, loaded, files)
        side_notes = create_sides(connection, loaded, query)
        comparison = compare(connection, loaded.pipeline.sink.key, EXAMPLES)
        ledger, ledger_notes = recount_ledgers(connection, loaded, files)
    return AuditReport(
        pipeline=loaded.pipeline.name,
        expected=comparison.expected,
        found=comparison.found,
        missing=comparison.counts["missing"],
        duplicated=comparison.counts["duplicated"],
        different=comparison.counts["different"],
        unexpected=comparison.counts["unexpected"],
        examples=comparison.examples,
        input_rows=InputRows(inputs.rows, inputs.distinct),
        ledger=ledger,
        bad_records=inputs.bad_records,
        notes=[*inputs.notes, *side_notes, *ledger_notes],
        seconds=time.monotonic() - started,
    )


def _last_change_query(sink: Sink) -> str:
    """Return SQL for the rows that remain when only the last change of each key counts.

    Changes are ordered by ``sink.order``, nulls first. A key whose last change is a delete has no
    row, if the sink removes rows.
    """
    from orchestration.audit.sql import column_list, quoted  # noqa: PLC0415

    order = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in sink.order)
    last = (
        f"SELECT * FROM input QUALIFY row_number() OVER "
        f"(PARTITION BY {column_list(sink.key)} ORDER BY {order}) = 1"
    )
    if sink.deleted is None or not sink.removes_rows:
        return last
    deleted = quoted(sink.deleted)
    return f"SELECT * EXCLUDE ({deleted}) FROM ({last}) WHERE NOT coalesce({deleted}, false)"


def _expected_query(loaded: LoadedPipeline) -> str | None:
    """Return the DuckDB query that computes the expected rows of the target.

    Returns:
        The text of ``audit.sql``, if declared. Without it: None for a sink that appends (every row
        of ``input`` is expected unchanged), the last change of each key for a sink with
        ``sequence``.

    Raises:
        InputError: The sink merges in another way and there is no ``audit.sql``, or its file can't
            be read.
    """
    pipeline = loaded.pipeline
    if pipeline.audit is None:
        if pipeline.sink.mode == "append":
            return None
        if pipeline.sink.sequence:
            return _last_change_query(pipeline.sink)
        message = (
            f"Pipeline `{pipeline.name}` declares `sink.mode: {pipeline.sink.mode}`, but neither "
            "`audit` nor `sink.sequence`: the audit can't tell which rows the target has to hold."
        )
        hint = (
            "Declare `audit: {sql: FILE}` with a DuckDB query that computes the target from "
            "`input`, or `sink.sequence` if the last change of each key is the row."
        )
        raise InputError(message, hint, pipeline=pipeline.name, field="audit")
    path = loaded.locate(pipeline.audit.sql)
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"`audit.sql: {pipeline.audit.sql}` can't be read: {error}."
        hint = (
            "Correct `audit.sql`, or write the file in UTF-8; a relative path starts at the folder "
            "of the pipeline's file."
        )
        raise InputError(message, hint, field="audit.sql", file=str(path)) from None
