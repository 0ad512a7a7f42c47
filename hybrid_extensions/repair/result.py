"""Result of a repair: rows that differ, files rewritten, keys left as they are; in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hybrid_extensions.repair.differences import Differences
from orchestration.display import size
from sources.common.counting import counted, counted_as


@dataclass(frozen=True)
class RepairResult:
    """Result of a repair, or of its dry run.

    Attributes:
        table: Name of the database table, ``schema.table``.
        generation: Name of the generation whose table was compared.
        found: Rows that differ.
        files, bytes: Number and size of the target's files with such rows, which are rewritten.
        is_applied: Whether the rows were written; False for a dry run.
        version: Version of the target with the repaired rows; None if none was written.
        changed: Number of keys that were changed after they were compared, and were left as they
            are.
    """

    table: str
    generation: str
    found: Differences
    files: int
    bytes: int
    is_applied: bool
    version: int | None = None
    changed: int = 0

    @property
    def ok(self) -> bool:
        """Whether no key is left with an impossible position, which a repair can't correct."""
        return not self.found.impossible

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dictionary, with ``ok``."""
        return {**asdict(self), "found": self.found._asdict(), "ok": self.ok}

    @property
    def text(self) -> str:
        """Sentences about what was found and done."""
        found = self.found
        if not found.to_repair:
            told = f"No row of `{self.table}` has to be repaired."
        else:
            told = (
                f"`{self.table}`: {counted(found.missing, 'row is', 'rows are')} missing, "
                f"{found.different:,} different, {found.extra:,} extra."
            )
            done = counted_as(self.files, "was", "were") if self.is_applied else "would be"
            files = counted(self.files, "file")
            told += f" {files} ({size(self.bytes)}) {done} rewritten."
            if self.version is not None:
                told += (
                    f" Version {self.version} of the target has the repaired rows; "
                    "`hybrid compare P` proves it."
                )
        if left := found.newer + self.changed:
            stay = "key was changed meanwhile and stays as it is. Repair again to compare it, too."
            more = "keys were changed meanwhile and stay as they are. Repair again to compare them."
            told += f" {counted(left, f'other {stay}', f'other {more}')}"
        if found.impossible:
            told += (
                f" {counted(found.impossible, 'key has', 'keys have')} a position behind the end "
                "of the database's log, which no change has, and no change to come would win over: "
                "nothing was done about it. Begin a new generation with a new snapshot: "
                "`hybrid rerun P`."
            )
        return told
