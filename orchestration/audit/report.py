"""The audit's result as a document: what the command line prints and ``--json`` returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EXAMPLES = 10
"""Largest number of examples in a report, for each kind of difference."""


@dataclass(frozen=True)
class AuditExample:
    """One row, or one value of a row, that differs from what is expected.

    Values are in the form that JSON has for them.

    Attributes:
        key: Values of the row's key columns, by name.
        column: The column that differs; None where whole rows are missing or superfluous.
        expected: The computed value; without a column, the expected number of rows of this key.
        found: The value in the target; without a column, its number of rows of this key.
    """

    key: dict[str, Any]
    column: str | None
    expected: Any
    found: Any


@dataclass(frozen=True)
class LedgerLine:
    """The recount of one topic partition of a hand-over, from history and topic as they are now.

    Attributes:
        source: Name of the source that starts at this hand-over.
        topic, partition: The topic partition.
        start: First offset read, as decided at the hand-over.
        first_offset: Offset of the first record from ``start`` on that the topic holds now; None
            if there is none.
        seam_rows: Rows that the topic holds in the seam.
        delivered: How many of them history holds by the rule of the seam, so that the run has to
            remove them.
        removed: How many the run removed by its own count; None until the run has passed the seam,
            or if the seam is not filtered.
        before_start: Rows that the topic holds before ``start`` and that history does not hold,
            so that neither source delivers them; None where no key decides it.
        agrees: Whether no row is missing from both sources, and ``removed`` equals ``delivered``.
            Also true where Kafka has deleted part of the seam, so that nothing can be compared.
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
    """The bad records of one source that drops or quarantines them, and what the runs did.

    Attributes:
        source: Name of the source.
        policy: ``drop`` or ``quarantine``, as declared by ``on_bad_record``.
        found: Bad records that the audit finds in the topic from the start offsets on, or in the
            planned files.
        counted: Bad records that the runs counted; None if there was no run.
        lacking: How many of those found are not in the quarantine table; None for ``drop``, or if
            there was no run.
        agrees: Whether the runs met exactly these records, and the quarantine holds all of them.
            Where Kafka has deleted records since, the runs may have counted more.
    """

    source: str
    policy: str
    found: int
    counted: int | None
    lacking: int | None
    agrees: bool


@dataclass(frozen=True)
class InputRows:
    """Number of rows of raw input that the audit read.

    Attributes:
        sources: Rows by name of the source.
        distinct: Rows of all sources together, each key counted once.
    """

    sources: dict[str, int]
    distinct: int


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit; all counts are rows.

    Attributes:
        pipeline: Name of the pipeline.
        expected: Rows that the target has to hold, by the independent computation.
        found: Rows that it holds.
        missing: Expected rows that the target does not hold.
        duplicated: Superfluous copies of expected rows.
        different: Rows that occur as often as expected, but differ in a column outside the key.
        unexpected: Rows whose key is not expected at all.
        examples: Up to :data:`EXAMPLES` examples for each of ``missing``, ``duplicated``,
            ``different`` and ``unexpected``, ordered by key.
        input_rows: Rows of raw input.
        ledger: The recount of each hand-over, one line for each topic partition.
        bad_records: One line for each source that drops or quarantines bad records.
        notes: Sentences that qualify the numbers, such as which columns were not compared.
        seconds: Duration of the audit.
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
        """Whether the target is proved correct: no difference, and every recount agrees; computed.

        False if no row is expected although the input has rows: that would prove nothing.
        """
        wrong = self.missing + self.duplicated + self.different + self.unexpected
        wrong += sum(not line.agrees for line in self.ledger)
        wrong += sum(not line.agrees for line in self.bad_records)
        return wrong == 0 and (self.expected > 0 or self.input_rows.distinct == 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-compatible dictionary, with ``ok``."""
        return {**asdict(self), "ok": self.ok, "seconds": round(self.seconds, 3)}
