"""How a table differs from that of all rows in one piece, by key: counts, three rows of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hybrid_extensions.comparison.compare_tables import compare
from hybrid_extensions.comparison.compared_tables import create_target_rows, open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from orchestration.comparison.report import AuditExample
from sources.common.counting import counted
from sources.storage.folder import Folder

_SHOWN = 3
_WORDS = {
    "missing": "missing",
    "duplicated": "too often",
    "different": "different",
    "unexpected": "that should not be there",
}


class SeamAssertionError(AssertionError):
    """Failure of :func:`hybrid_testing.seam.across_seam`: what differs, and at which cut.

    Args:
        message: The failure in words.
        cut: Number of rows of history at the first cut that shows it; None if no cut is needed.
        counts: Rows by kind of difference: ``missing``, ``duplicated``, ``different`` and
            ``unexpected``; empty if a run failed.

    Attributes:
        cut: As given.
        counts: As given.
    """

    def __init__(
        self, message: str, cut: int | None = None, counts: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(message)
        self.cut = cut
        self.counts = dict(counts or {})


@dataclass(frozen=True)
class Differences:
    """How one table differs from another one.

    Attributes:
        counts: Rows by kind of difference, without the kinds that there are none of; empty if the
            tables are equal.
        lines: The same in words, with the first rows of each kind.
    """

    counts: dict[str, int]
    lines: list[str]


def differences(
    expected: Folder, found: Folder, key: Sequence[str], tolerance: Mapping[str, float]
) -> Differences:
    """Compare two tables by key as the audit compares a target with its computation.

    Args:
        expected: Folder of one Delta table.
        found: Folder of another one, with the same columns.
        key: Columns that identify a row; all columns if rows may repeat.
        tolerance: By floating-point column: by which part of its value it may differ.

    Raises:
        InputError: The Delta log of one of the tables can't be read.
        UnavailableError: The store of one of the tables does not answer.
    """
    with (
        TemporaryDirectory(prefix="hybrid-testing-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        for name, folder in (("expected", expected), ("found", found)):
            table = open_target(folder)
            assert table is not None  # a run that ended has created it
            columns = [field.name for field in table.schema().fields]
            create_target_rows(connection, name, table, columns)
        result = compare(connection, list(key), _SHOWN, tolerance)
    counts = {kind: count for kind, count in result.counts.items() if count}
    return Differences(
        counts, [_line(kind, counts[kind], result.examples[kind]) for kind in counts]
    )


def _line(kind: str, count: int, examples: Sequence[AuditExample]) -> str:
    first = "; ".join(_shown(example) for example in examples)
    return f"{counted(count, 'row')} {_WORDS[kind]}: {first}{'; …' if count > _SHOWN else ''}"


def _shown(example: AuditExample) -> str:
    row = ", ".join(f"{name}={value}" for name, value in example.key.items())
    if example.column is None:
        return f"({row})"
    return f"({row}) has {example.column}={example.found} instead of {example.expected}"
