"""Result of an adoption or its dry run, as a document and in words: version, rows, offsets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sources.common.counting import counted


@dataclass(frozen=True)
class AdoptResult:
    """Result of an adoption, or of its dry run.

    Attributes:
        table: Address of the table.
        version: Version of it that is adopted.
        newest: Its newest version before.
        rows, files: Rows and files of that version.
        source: Source that continues from there.
        offsets: Its first offset of each partition, by topic.
        said: The micro-batch whose commit says so; None if it was declared.
        is_applied: Whether the table was adopted; False for a dry run.
        notes: Sentences about what no table tells, such as when removed rows were deleted.
    """

    table: str
    version: int
    newest: int
    rows: int
    files: int
    source: str
    offsets: dict[str, dict[int, int]]
    said: str | None
    is_applied: bool
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dictionary, with ``ok``, which is always true."""
        return {**asdict(self), "ok": True}

    @property
    def text(self) -> str:
        """Sentences about what was found and done.

        They end with the next command.
        """
        done = "is adopted" if self.is_applied else "would be adopted"
        told = (
            f"Version {self.version} of {self.table} {done}: {counted(self.rows, 'row')} in "
            f"{counted(self.files, 'file')}."
        )
        if self.version != self.newest:
            then = "were" if self.is_applied else "would be"
            told += f" Later versions, up to {self.newest}, {then} undone, as by a RESTORE."
        starts = ", ".join(
            f"{topic}/{partition} {offset}"
            for topic, parts in self.offsets.items()
            for partition, offset in parts.items()
        )
        told += f" `{self.source}` continues at these offsets: {starts}"
        told += " (declared)." if self.said is None else f" (as {self.said} says)."
        told = " ".join([told, *self.notes])
        way = "`hybrid run P` continues." if self.is_applied else "`--apply` adopts it."
        return f"{told} {way}"
