"""What an audit found, as a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EXAMPLES = 10
"""Of each kind of wrong row, at most."""


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
