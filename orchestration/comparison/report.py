"""Report of an audit: when it has passed, failed or is unknown; counts, recounts, examples."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sources.common.counting import counted

EXAMPLES = 10
"""Largest number of examples in a report, for each kind of difference."""

Outcome = Literal["agrees", "differs", "unknown"]
"""Result of a recount; ``unknown`` if it could not be made, which is never as good as agreement."""


def example_text(value: Any) -> str:
    """Return a value as JSON, with texts unquoted unless empty, for examples in messages.

    What JSON lacks, such as a date, is its Python text in double quotes.
    """
    is_seen = isinstance(value, str) and value
    return value if is_seen else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class AuditExample:
    """Row, or value of a row, that differs from what is expected.

    Values are in the form that JSON has for them.

    Attributes:
        key: Values of the row's key columns, by name.
        column: The column that differs; None where whole rows are missing or superfluous.
        expected: The computed value; without a column, the expected number of rows of this key.
            For a key that is ambiguous, the lowest and the highest of the values that its rows
            have in the input.
        found: The value in the target; without a column, its number of rows of this key. None for
            a key that is ambiguous.
    """

    key: dict[str, Any]
    column: str | None
    expected: Any
    found: Any

    @property
    def key_text(self) -> str:
        """The key as text, such as ``id=5, origin=JFK``."""
        return ", ".join(f"{name}={example_text(value)}" for name, value in self.key.items())

    def __str__(self) -> str:
        """Return the example as text, such as ``id=5: `paid` is 3 instead of 4``."""
        key = self.key_text
        if self.column is None:
            return f"{key}: {counted(self.found, 'row')} instead of {self.expected:,}"
        if self.found is None and isinstance(self.expected, list):
            lowest, highest = map(example_text, self.expected)
            return f"{key}: `{self.column}` may be {lowest} or {highest}"
        found, expected = example_text(self.found), example_text(self.expected)
        return f"{key}: `{self.column}` is {found} instead of {expected}"


@dataclass(frozen=True)
class LedgerLine:
    """Recount of one topic partition of a hand-over, from present history and topic.

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
            so that neither source delivers them; None where no key decides it. With
            ``sink.sequence``, a row that a later version replaces counts as delivered.
        outcome: ``agrees`` if no row is missing from both sources, and ``removed`` equals
            ``delivered``; ``unknown`` if one of the two could not be counted.
        reason: What differs, or why it is unknown; None if all agrees.
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
    outcome: Outcome
    reason: str | None = None


@dataclass(frozen=True)
class BadLine:
    """Recount of a source's bad records of one kind, and what the runs did with them.

    Attributes:
        source: Name of the source.
        policy: What is declared for them: by ``on_bad_record``, by ``event_time.outside``, or by
            ``on_violation``.
        found: Bad records that the audit finds in the topic from the start offsets on, or in the
            planned files.
        counted: Bad records that the runs counted; None if there was no run.
        lacking: How many of those found are not in the quarantine table; None for ``drop``, or if
            there was no run.
        outcome: ``agrees`` if the runs met exactly these records, and the quarantine holds all of
            them; ``unknown`` if no run has counted, or if Kafka has deleted records since.
        reason: What differs, or why it is unknown; None if all agrees.
        kind: ``unreadable``, ``outside`` if their event time does not count, or ``rule.<name>`` if
            they break that rule.
    """

    source: str
    policy: str
    found: int
    counted: int | None
    lacking: int | None
    outcome: Outcome
    reason: str | None = None
    kind: str = "unreadable"


@dataclass(frozen=True)
class InputRows:
    """Number of rows of raw input that the audit read.

    Attributes:
        sources: Rows by name of the source.
        distinct: Rows of all sources together, each key counted once.
    """

    sources: dict[str, int]
    distinct: int


def in_words(outcome: Literal["passed", "failed", "unknown"], expected: int) -> str:
    """Return the outcome of an audit as a sentence.

    Args:
        outcome: That of the audit.
        expected: Rows that the target has to hold.
    """
    match outcome:
        case "passed":
            rows = counted(expected, "row")
            return f"The table is right: {rows}, each as DuckDB computes it from all of the input."
        case "failed":
            return "The table differs from what its input makes it."
        case "unknown":
            return "Nothing wrong was found, but not all of it could be checked."


@dataclass(frozen=True)
class AuditReport:
    """Report of an audit: its result, in which all counts are rows.

    Attributes:
        pipeline: Name of the pipeline.
        expected: Rows that the target has to hold, by the independent computation.
        found: Rows that it holds.
        missing: Expected rows that the target does not hold.
        duplicated: Superfluous copies of expected rows.
        different: Rows that occur as often as expected, but differ in a column outside the key.
        unexpected: Rows whose key is not expected at all.
        ambiguous: Keys of which the input has rows that differ, while nothing says which of them
            counts: no ``sink.sequence`` is declared, or its values are equal.
        examples: Up to :data:`EXAMPLES` examples for each of ``missing``, ``duplicated``,
            ``different``, ``unexpected`` and ``ambiguous``, ordered by key.
        input_rows: Rows of raw input.
        ledger: The recount of each hand-over, one line for each topic partition.
        bad_records: One line for each source that drops or quarantines bad records, one for each in
            which event times do not count, and one for each rule that leaves rows out.
        unchecked: Sentences about what could not be checked, and why. As long as there is one,
            the target is not proved.
        notes: Sentences that qualify the numbers.
        seconds: Duration of the audit.
    """

    pipeline: str
    expected: int
    found: int
    missing: int
    duplicated: int
    different: int
    unexpected: int
    ambiguous: int
    examples: dict[str, list[AuditExample]]
    input_rows: InputRows
    ledger: list[LedgerLine]
    bad_records: list[BadLine]
    unchecked: list[str]
    notes: list[str]
    seconds: float

    @property
    def outcome(self) -> Literal["passed", "failed", "unknown"]:
        """Whether the target is proved correct, proved wrong, or neither.

        ``unknown`` if nothing wrong was found, but something could not be checked: see
        ``unchecked`` and the reasons of the recounts.
        """
        rows = self.missing + self.duplicated + self.different + self.unexpected + self.ambiguous
        recounts = {line.outcome for line in self.ledger}
        recounts |= {line.outcome for line in self.bad_records}
        if rows or "differs" in recounts:
            return "failed"
        return "unknown" if self.unchecked or "unknown" in recounts else "passed"

    @property
    def ok(self) -> bool:
        """Whether the target is proved correct: ``outcome`` is ``passed``."""
        return self.outcome == "passed"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-compatible dictionary, with ``ok`` and ``outcome``."""
        computed = {"ok": self.ok, "outcome": self.outcome, "seconds": round(self.seconds, 3)}
        return {**asdict(self), **computed}
