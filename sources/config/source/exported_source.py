"""Source of a kind that an extension adds: exported to files before the plan, then read as these.

The chain knows files and topics. Whatever else holds history writes it to files once per
generation, and says up to where they reach; from then on it is a file source as any other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from glob import escape
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationError

from sources.common.fields import Instant
from sources.common.positions import Offsets
from sources.common.state_document import Part
from sources.config.source.added_source import COMMON, AddedSource
from sources.config.source.file_source import FileSource
from sources.storage.folder import Folder

_NOT_OF_EXPORTS = {"converge", "discovery_interval", "path", "snapshot", "table", "version"}


class ExportEnd(Part):
    """Up to where an export reaches, as its kind reports it; all fields may be left out.

    Without any, the next source starts by the highest event time of the rows, as after other files.

    Attributes:
        offsets: Offset after the last record that the files hold, by partition of the next topic.
        sequence: Log position up to which the files hold every change; compared with the pipeline's
            ``sequence``.
        complete_through: Event time up to which the files hold every row.
    """

    offsets: Offsets | None = None
    sequence: int | None = None
    complete_through: Instant | None = None


@dataclass(frozen=True)
class Export:
    """What a kind gets to export a source.

    Attributes:
        folder: Folder for the files, in the store of the pipeline's state. Files are written with
            :meth:`~sources.storage.folder.Folder.replace_bytes`, each in one step; those whose
            names begin with ``_`` or ``.`` are not read.
        locate: Makes a path of the declaration absolute; relative ones start from the folder of the
            pipeline's file.
        report: Takes a line for people, such as one for each file.
    """

    folder: Folder
    locate: Callable[[str], str]
    report: Callable[[str], None]


class ExportedSource(AddedSource):
    """Base of a kind of source that an extension adds, and whose rows are exported to files.

    A kind is a subclass whose ``type`` is a ``Literal`` with its name, with its own fields.

    Attributes:
        resumes: Whether an export that was interrupted is continued in the same folder, with the
            files that it has written. By default it begins again in an empty one.
    """

    resumes: ClassVar[bool] = False

    @abstractmethod
    def export(self, export: Export) -> ExportEnd:
        """Write the source's rows to one or more files in a folder, and return where they end.

        Called before a generation's plan is made, until a call has returned; then never again for
        this generation. Two processes may call it at once. All rows have to be of one moment, that
        of the end: a row that is changed while it is exported would come twice, or not at all.

        Args:
            export: The folder to write to, and where to report progress.

        Raises:
            HybridError: The export failed; the next call begins again, or resumes. An error of
                another type is reported as a failure of this kind.
        """

    def reading(self) -> dict[str, Any]:
        """Return the fields of the file source that reads the files, at least ``format``.

        Parquet by default; JSON and CSV need a ``schema``. Formats of tables are not allowed.
        Called while the declaration is validated, before anything is exported.
        """
        return {"format": "parquet"}

    def contract(self) -> dict[str, object]:
        """Return the declared values that decide what is exported, by field.

        A generation refuses to continue with other values. By default these are all fields of the
        kind that differ from their defaults, so that a field added in a later version changes
        nothing.
        """
        return self.model_dump(mode="json", exclude_defaults=True, exclude=set(COMMON))

    def as_files(self) -> ExportedFiles:
        """Return the file source that reads the exported files; it has no path yet.

        Raises:
            ValueError: :meth:`reading` contradicts itself or the declared fields.
        """
        given = {name: getattr(self, name) for name in COMMON}
        try:
            return ExportedFiles.model_validate(
                {**given, **self.reading(), "type": "files", "kind": self}
            )
        except ValidationError as error:
            texts = [each["msg"].removeprefix("Value error, ") for each in error.errors()]
            raise ValueError(" ".join(texts)) from None


class ExportedFiles(FileSource):
    """File source that reads exported files; its path is set by :meth:`placed` after the export.

    Attributes:
        kind: The declaration of the kind that exports.
    """

    kind: ExportedSource = Field(exclude=True, repr=False)
    _end: ExportEnd | None = PrivateAttr(default=None)

    @property
    def exported_offsets(self) -> Offsets | None:
        """Offset after the last record that the files hold, by partition, as the export says.

        None before the export, and if it says none.
        """
        return None if self._end is None else self._end.offsets

    @property
    def shown_place(self) -> str:
        """Name of the kind, for display."""
        return self.kind.type

    def placed(self, folder: str, end: ExportEnd) -> ExportedFiles:
        """Return a copy of the source that reads the files of a complete export.

        Args:
            folder: Folder of its files, absolute or a URL.
            end: Up to where the export reaches.
        """
        through = self.complete_through or end.complete_through
        known = {
            "path": f"{escape(folder)}/*",
            "sequence": end.sequence,
            "complete_through": through,
        }
        copy = self.model_copy(update=known)
        copy._end = end
        return copy

    def plain(self) -> FileSource:
        """Return a copy as an ordinary file source, without the extension's kind.

        So that tasks, which may lack the extension, can unpickle it.
        """
        values = {name: getattr(self, name) for name in FileSource.model_fields}
        copy = FileSource.model_construct(self.model_fields_set - {"kind"}, **values)
        return copy.parsed() if self._is_parsed else copy

    def declaration(self) -> dict[str, Any]:
        """Return the fields, for a pipeline's file, of a file source over the exported files.

        Those that differ from their defaults, by their names in the file.
        """
        return self.plain().model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let tasks get a plain file source: they may lack the module of the kind."""
        return _same, (self.plain(),)

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        They are those of the export, whether its folder is known or not.
        """
        place = f"sources.{self.name}"
        read = self.kind.model_dump(mode="json", include={"complete_through", "select"})
        return {
            place: self.kind.type,
            f"{place}.export": self.kind.contract(),
            f"{place}.read": read,
        }

    def _check_place(self) -> None:
        """Accept the declaration without a place; refuse what is no folder of files with an end."""
        others = _NOT_OF_EXPORTS & self.model_fields_set
        if others or self.is_table:
            message = (
                f"`{min(others, default='format')}` can't be what `reading` of "
                f"`type: {self.kind.type}` returns: what is exported are files in one folder. "
                "Correct the kind."
            )
            raise ValueError(message)


def _same(source: FileSource) -> FileSource:
    return source


def export_step(source: str) -> str:
    """Return the name of the step that exports a source, which is also that of its asset.

    Args:
        source: Name of the source.
    """
    return f"{source}_export"
