"""Last audit of a generation, kept without rows: its text, recounts, and a person's acceptance."""

from __future__ import annotations

from typing import Literal

from orchestration.comparison.report import AuditReport, BadLine, LedgerLine, in_words
from orchestration.display import moment
from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline
from sources.serving import newest_generation, read_serving
from sources.state.generation import Generation, read_generation

AUDIT = "audit.json"
"""Name of the document."""


class Acceptance(Part):
    """Acceptance of a failed audit by a person.

    Attributes:
        at_ms: When, in ms since 1970.
        by: Who, as given; empty if unknown.
        why: The reason.
    """

    at_ms: int
    by: str
    why: str


class KeptAudit(Record):
    """Result of an audit, without examples of rows, which not everyone may see.

    Attributes:
        at_ms: When it was made, in ms since 1970.
        seconds: How long it took.
        outcome: ``passed``, ``failed`` or ``unknown``.
        input_rows: Rows of raw input, by source.
        expected, found, missing_rows, duplicated, different, unexpected, ambiguous: Numbers of
            rows, as in :class:`~orchestration.comparison.report.AuditReport`.
        ledger: The recount of each hand-over.
        bad_records: The recount of bad records.
        unchecked: What could not be checked; sentences.
        notes: What qualifies the numbers; sentences.
        accepted: That a person has accepted that it failed; None if nobody has.
        overtaken: What has replaced rows of the table since, other than its runs, and when; empty
            if nothing has.
    """

    at_ms: int
    seconds: float
    outcome: Literal["passed", "failed", "unknown"]
    input_rows: dict[str, int]
    expected: int
    found: int
    missing_rows: int
    duplicated: int
    different: int
    unexpected: int
    ambiguous: int
    ledger: list[LedgerLine]
    bad_records: list[BadLine]
    unchecked: list[str]
    notes: list[str]
    accepted: Acceptance | None = None
    overtaken: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether it failed and nobody has accepted the failure."""
        return self.outcome == "failed" and self.accepted is None

    @property
    def text(self) -> str:
        """Result and time of the audit in a few sentences."""
        found = in_words(self.outcome, self.expected)
        if self.outcome == "failed":
            counts = {
                "missing": self.missing_rows,
                "duplicated": self.duplicated,
                "different": self.different,
                "unexpected": self.unexpected,
                "ambiguous": self.ambiguous,
            }
            wrong = [f"{count:,} {name}" for name, count in counts.items() if count]
            found = f"{found[:-1]}: {', '.join(wrong) or 'its recounts differ'}."
        text = f"{found} Audited {moment(self.at_ms)} UTC."
        if self.overtaken:
            text = text.replace("is right", "was right").replace("computes", "computed")
            text = f"{text[:-1]}, before {self.overtaken}; not audited since."
        if self.accepted is not None:
            by = f" by {self.accepted.by}" if self.accepted.by else ""
            text += f" Accepted {moment(self.accepted.at_ms)} UTC{by}: {self.accepted.why}"
        return text

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was not checked, what qualifies the counts, and recounts.

        Empty if there is nothing to say.
        """
        lines: list[LedgerLine | BadLine] = [*self.ledger, *self.bad_records]
        return [*self.unchecked, *self.notes, *(each.reason for each in lines if each.reason)]

    @classmethod
    def of(cls, report: AuditReport, at_ms: int) -> KeptAudit:
        """Return the audit of a report in the form that is kept; nothing is written.

        Args:
            report: The audit's report.
            at_ms: When it was made, in ms since 1970.
        """
        return cls(
            at_ms=at_ms,
            seconds=report.seconds,
            outcome=report.outcome,
            input_rows=report.input_rows.sources,
            expected=report.expected,
            found=report.found,
            missing_rows=report.missing,
            duplicated=report.duplicated,
            different=report.different,
            unexpected=report.unexpected,
            ambiguous=report.ambiguous,
            ledger=report.ledger,
            bad_records=report.bad_records,
            unchecked=report.unchecked,
            notes=report.notes,
        )


def read_audit(generation: Generation) -> KeptAudit | None:
    """Return the last audit of a generation; None if there is none.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(AUDIT, KeptAudit)


def last_audit(loaded: LoadedPipeline) -> KeptAudit | None:
    """Return the last audit of the serving generation; None if there was none.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    if newest_generation(loaded) is None:
        return None
    return read_audit(read_generation(loaded.state, read_serving(loaded).generation))
