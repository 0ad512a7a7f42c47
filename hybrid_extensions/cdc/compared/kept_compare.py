"""State document `compare.json`: ranges compared with the database, whether the table is wrong."""

from __future__ import annotations

from orchestration.capture.interface import KeptComparison
from sources.common.counting import counted
from sources.common.state_document import Part, Record
from sources.common.times import iso
from sources.state.generation import Generation

_NAME = "compare.json"
_AGAIN = "`hybrid compare P` looks whether all are equal now."


class ComparedRange(Part):
    """Range of a target's rows, by key, that was compared with the database's table.

    Attributes:
        first: Lowest value of the key's first column, as text, inclusive; None for the table's
            begin.
        until: First value behind the range, as text, exclusive; None for the table's end.
        at_ms: When it was compared, in ms since 1970.
        rows: Number of rows of the database table in it.
        differing: Number of keys whose rows differ, or that only one of the tables has.
        examples: Some of those keys as text, and which columns differ; never values of these.
    """

    first: str | None
    until: str | None
    at_ms: int
    rows: int
    differing: int
    examples: list[str]


class KeptCompare(KeptComparison, Record):
    """State document of a generation: how far its table was compared with the database's.

    Attributes:
        begun_ms: When the present pass over the table began, in ms since 1970.
        at: Value of the key's first column from which the pass resumes, as text; None if it begins
            again.
        finished_ms: When the last pass over the whole table ended, in ms since 1970; None if none
            has.
        ranges: The latest comparison of each range, in the order in which they were made.
        postponed: Why the last attempt was postponed; None if it was not.
        repaired_ms: When the last repair of all rows that differ began, in ms since 1970; None if
            none was made.
    """

    begun_ms: int
    at: str | None = None
    finished_ms: int | None = None
    ranges: list[ComparedRange]
    postponed: str | None = None
    repaired_ms: int | None = None

    @property
    def differing(self) -> int:
        """Number of keys that differed when their range was last compared.

        Keys that were repaired since count until their range is compared again.
        """
        return sum(each.differing for each in self.ranges)

    @property
    def is_wrong(self) -> bool:
        """Whether keys are known to differ: those of a range that was compared since a repair.

        Differences that were found before the last repair of all do not count.
        """
        repaired_ms = self.repaired_ms or 0
        return any(each.differing and each.at_ms >= repaired_ms for each in self.ranges)

    @property
    def is_answered(self) -> bool:
        """Whether the whole table was compared once, no repair since, and the last attempt went.

        Also true if keys are known to differ.
        """
        is_known = self.is_wrong or not self.differing
        return self.finished_ms is not None and self.postponed is None and is_known

    @property
    def examples(self) -> list[str]:
        """Examples of differing keys of all ranges, as text; empty if none differs.

        In the order of the ranges.
        """
        return [text for each in self.ranges for text in each.examples]

    @property
    def text(self) -> str:
        """Result for people, in a sentence or two."""
        rows = sum(each.rows for each in self.ranges)
        if self.finished_ms is not None:
            done = f"The whole table was last compared with the database at {iso(self.finished_ms)}"
        else:
            done = f"The table has not been compared as a whole yet, since {iso(self.begun_ms)}"
        so_far = "" if self.at is None else f"; the present pass is at {self.at}"
        found = f" Of {counted(rows, 'row')} all are equal." if self.ranges else ""
        if self.differing:
            keys = counted(self.differing, "key differs", "keys differ")
            some = f": {'; '.join(self.examples[:3])}" if self.examples else ""
            found = f" Of {counted(rows, 'row')} {keys}{some}."
            if not self.is_wrong:
                found += f" Rows that differ were repaired since: {_AGAIN}"
        later = "" if self.postponed is None else f" Postponed: {self.postponed}."
        return f"{done}{so_far}.{found}{later}"


def read_compare(generation: Generation) -> KeptCompare | None:
    """Return the recorded comparisons of a generation; None if there are none.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_NAME, KeptCompare)


def keep_compare(generation: Generation, kept: KeptCompare) -> None:
    """Write the results of comparisons to the state, replacing the document there.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, kept)


def keep_whole(generation: Generation, whole: ComparedRange, begun_ms: int) -> None:
    """Write a comparison of the whole table to the state, replacing those of its ranges.

    The present pass begins again, and it is no longer postponed. Those of ranges compared since
    ``begun_ms`` stay: they may have seen later rows.

    Args:
        generation: State of the generation.
        whole: Result for the whole table.
        begun_ms: When that comparison began, in ms since 1970.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    before = read_compare(generation)
    later = [] if before is None else [each for each in before.ranges if each.at_ms >= begun_ms]
    kept = KeptCompare(
        begun_ms=begun_ms,
        finished_ms=whole.at_ms,
        ranges=[whole, *later],
        repaired_ms=None if before is None else before.repaired_ms,
    )
    keep_compare(generation, kept)


def keep_repaired(generation: Generation, begun_ms: int) -> None:
    """Write to the state that all rows that differ were repaired; do nothing without comparisons.

    Args:
        generation: State of the generation.
        begun_ms: When the repair began, in ms since 1970.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if (before := read_compare(generation)) is not None:
        keep_compare(generation, before.model_copy(update={"repaired_ms": begun_ms}))
