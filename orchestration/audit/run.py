"""The audit: proof of a pipeline's target from raw input, without Spark, plan or state.

What the target must hold is computed anew by DuckDB from every file and every record there is,
then compared row for row with what it does hold. The ledger of the hand-over is counted anew too;
that alone takes the decided offsets from the state.
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

# The live run may share the machine; DuckDB spills what does not fit to disk.
MEMORY_LIMIT = "2GB"


def audit(loaded: LoadedPipeline) -> AuditReport:
    """Compute what a pipeline's target must hold and compare it with what it holds.

    Topics are read up to the end offsets that stand when the audit starts, the target as it is
    afterwards: rows that are produced meanwhile may show up as ``unexpected``, and rows that the
    live run has not yet written as ``missing``.

    Raises:
        InputError: Input, query or target can't be read, or can't be compared.
    """
    started = time.monotonic()
    # DuckDB, delta-rs and librdkafka take half a second to import.
    from orchestration.audit.compare import compare  # noqa: PLC0415
    from orchestration.audit.files import AuditFiles  # noqa: PLC0415
    from orchestration.audit.inputs import create_inputs  # noqa: PLC0415
    from orchestration.audit.ledger import recount  # noqa: PLC0415
    from orchestration.audit.sides import create_sides  # noqa: PLC0415
    from orchestration.audit.sql import open_database  # noqa: PLC0415

    query = _expected_query(loaded)
    with (
        TemporaryDirectory(prefix="hybrid-audit-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        files = AuditFiles(loaded, Path(scratch))
        inputs = create_inputs(connection, loaded, files)
        notes = create_sides(connection, loaded, query)
        comparison = compare(connection, loaded.pipeline.sink.key, EXAMPLES)
        ledger, remarks = recount(connection, loaded, files)
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
        bad_records=inputs.bad,
        notes=[*inputs.notes, *notes, *remarks],
        seconds=time.monotonic() - started,
    )


def _last_changes(sink: Sink) -> str:
    """The rows that changes leave, each key's last one in the order of the sink."""
    from orchestration.audit.sql import listed, quoted  # noqa: PLC0415

    order = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in sink.order)
    last = (
        f"SELECT * FROM input QUALIFY row_number() OVER "
        f"(PARTITION BY {listed(sink.key)} ORDER BY {order}) = 1"
    )
    if sink.deleted is None or not sink.removes_rows:
        return last
    gone = quoted(sink.deleted)
    return f"SELECT * EXCLUDE ({gone}) FROM ({last}) WHERE NOT coalesce({gone}, false)"


def _expected_query(loaded: LoadedPipeline) -> str | None:
    """The text of ``audit.sql``; None where every input row is expected as it is.

    Of a sink that orders changes, the last one of each key is expected as it is.
    """
    pipeline = loaded.pipeline
    if pipeline.audit is None:
        if pipeline.sink.mode == "append":
            return None
        if pipeline.sink.sequence:
            return _last_changes(pipeline.sink)
        message = f"Pipeline `{pipeline.name}` merges, and declares no `audit`."
        hint = "Declare `audit: {sql: …}`: a DuckDB query that computes the target from `input`."
        raise InputError(message, hint)
    path = loaded.locate(pipeline.audit.sql)
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"`audit.sql: {pipeline.audit.sql}` can't be read: {error}."
        raise InputError(message, "Correct the path; it starts at the pipeline's file.") from None
