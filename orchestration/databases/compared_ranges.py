"""Results of comparisons with the database, range by range, in the generation's state."""

from __future__ import annotations

from sources.common.counting import counted
from sources.common.positions import Part, Record, iso
from sources.state.generation import Generation

_NAME = "compare.json"


class ComparedRange(Part):
    """Range of a table that was compared.

    Attributes:
        first: Lowest value of the key's first column, as text; None for the table's begin.
        until: First value behind the range, as text; None for the table's end.
        at_ms: When it was compared, in ms since 1970.
        rows: Rows of the database table in it.
        differing: Keys whose rows differ, or that only one of the tables has.
        examples: Some of them: the key, and which columns differ; never values of these.
    """

    first: str | None
    until: str | None
    at_ms: int
    rows: int
    differing: int
    examples: list[str]


class KeptCompare(Record):
    """State document of a generation: how far its table was compared, and the results.

    Attributes:
        begun_ms: When the present pass over the table began, in ms since 1970.
        at: Value of the key's first column with which the pass goes on, as text; None if it begins
            anew.
        finished_ms: When the last pass over the whole table ended; None if none has.
        ranges: The latest comparison of each range, in the order in which they were made.
        postponed: Why the last attempt did not go on; None if it did.
    """

    begun_ms: int
    at: str | None = None
    finished_ms: int | None = None
    ranges: list[ComparedRange]
    postponed: str | None = None

    @property
    def differing(self) -> int:
        """Number of keys that differed when their range was last compared."""
        return sum(each.differing for each in self.ranges)

    @property
    def is_answered(self) -> bool:
        """Whether the whole table was compared once, and the last attempt succeeded."""
        return self.finished_ms is not None and self.postponed is None

    @property
    def examples(self) -> list[str]:
        """Examples of differing keys."""
        return [text for each in self.ranges for text in each.examples]

    @property
    def text(self) -> str:
        """Result in a sentence or two."""
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
    """Write the results of comparisons to the state.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, kept)


def keep_whole(generation: Generation, whole: ComparedRange, begun_ms: int) -> None:
    """Write a comparison of the whole table to the state, replacing those of its ranges.

    Those that were made meanwhile stay, too: they may know what it has not seen.

    Args:
        generation: State of the generation.
        whole: What it found.
        begun_ms: When it began, in ms since 1970.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    before = read_compare(generation)
    later = [] if before is None else [each for each in before.ranges if each.at_ms >= begun_ms]
    kept = KeptCompare(begun_ms=begun_ms, finished_ms=whole.at_ms, ranges=[whole, *later])
    keep_compare(generation, kept)
