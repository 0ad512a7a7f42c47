"""The audit: proof of a pipeline's target from raw input, without Spark, plan or state.

What the target must hold is computed anew by DuckDB from every file and every record there is,
then compared row for row with what it does hold. The ledger of the hand-over is counted anew too;
that alone takes the decided offsets from the state.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sources.errors import InputError

if TYPE_CHECKING:
    from sources.document import LoadedPipeline
    from sources.pipeline import Sink

EXAMPLES = 10
# The live run may share the machine; DuckDB spills what does not fit to disk.
MEMORY_LIMIT = "2GB"


@dataclass(frozen=True)
class AuditExample:
    """One row, or one value of a row, that is not as it must be; values as JSON has them.

    Attributes:
        key: The row's key columns.
        column: The column that differs; None where whole rows are missing or too many.
        expected: The value computed; without a column, how many rows of this key there must be.
        found: The value in the target; without a column, how many rows it holds.
    """

    key: dict[str, Any]
    column: str | None
    expected: Any
    found: Any


@dataclass(frozen=True)
class LedgerLine:
    """One partition of a hand-over, as history and topic show it now.

    Attributes:
        source: The source that was handed over to.
        topic, partition: Which.
        start: First offset read, as decided.
        first_offset: Of the first record from ``start`` on that the topic holds now.
        seam_rows: Rows that the topic holds in the seam.
        delivered: Those of them that history holds, and that were therefore to be removed.
        removed: What the run counted; None while the seam is not passed, or is not filtered.
        before_start: Rows that the topic holds before ``start`` and history does not: they are in
            neither. None where no key tells.
        agrees: Whether nothing is in neither, and the run counted the same.
    """

    source: str
    topic: str
    partition: int
    start: int
    first_offset: int | None
    seam_rows: int
    delivered: int | None
    removed: int | None
    before_start: int | None
    agrees: bool


@dataclass(frozen=True)
class BadLine:
    """The bad records of one source, which do not stop its runs.

    Attributes:
        source: Its name.
        policy: ``drop`` or ``quarantine``.
        found: Bad records that the topic holds now, from the start offsets on, or that the planned
            files hold.
        counted: How many the runs dropped or put into quarantine; None if they never ran.
        lacking: Of those found, how many the quarantine table does not hold; None for ``drop``.
        agrees: Whether all of them were dropped, or put into quarantine, and no other.
    """

    source: str
    policy: str
    found: int
    counted: int | None
    lacking: int | None
    agrees: bool


@dataclass(frozen=True)
class InputRows:
    """How many rows were read.

    Attributes:
        sources: By name of the source.
        distinct: Of all of them together, each key once.
    """

    sources: dict[str, int]
    distinct: int


@dataclass(frozen=True)
class AuditReport:
    """What the comparison found; all counts are rows.

    Attributes:
        pipeline: Its name.
        expected: Rows that the target must hold.
        found: Rows that it holds.
        missing: Expected rows that it does not hold.
        duplicated: Copies too many of expected rows.
        different: Rows held as often as expected in which another column differs.
        unexpected: Rows whose key is not expected at all.
        examples: Up to :data:`EXAMPLES` for each of these four words, in order of the key.
        input_rows: What was read.
        ledger: Each hand-over, one line a partition, counted anew from files and topics.
        bad_records: One line for each source that may have bad records.
        notes: What a reader of the numbers should know, in words.
        seconds: How long it took.
    """

    pipeline: str
    expected: int
    found: int
    missing: int
    duplicated: int
    different: int
    unexpected: int
    examples: dict[str, list[AuditExample]]
    input_rows: InputRows
    ledger: list[LedgerLine]
    bad_records: list[BadLine]
    notes: list[str]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the target is proved; nothing expected of input that has rows proves nothing."""
        wrong = self.missing + self.duplicated + self.different + self.unexpected
        wrong += sum(not line.agrees for line in self.ledger)
        wrong += sum(not line.agrees for line in self.bad_records)
        return wrong == 0 and (self.expected > 0 or self.input_rows.distinct == 0)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it, ``ok`` included."""
        return {**asdict(self), "ok": self.ok, "seconds": round(self.seconds, 3)}


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
    from orchestration.audit_compare import compare  # noqa: PLC0415
    from orchestration.audit_files import AuditFiles  # noqa: PLC0415
    from orchestration.audit_inputs import create_inputs  # noqa: PLC0415
    from orchestration.audit_ledger import recount  # noqa: PLC0415
    from orchestration.audit_sides import create_sides  # noqa: PLC0415
    from orchestration.audit_sql import open_database  # noqa: PLC0415

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
    from orchestration.audit_sql import listed, quoted  # noqa: PLC0415

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
