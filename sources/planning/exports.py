"""Exports of a generation: files that the sources of extensions' kinds are written to, once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import (
    Export,
    ExportedFiles,
    ExportedSource,
    ExportEnd,
    export_step,
)
from sources.config.source.file_option_conflicts import check_snapshot_sequence
from sources.errors import HybridError, InputError, RunError, StateError
from sources.extensions import distribution_of
from sources.state.generation import Generation, digests
from sources.storage.folder import Folder
from sources.storage.listing import is_data

_FOLDER = "exports"
_RESUMED = "resumed"


class ExportRecord(Record):
    """Record of a complete export, written after its files.

    Attributes:
        source: Name of the source.
        folder: Name of the folder of its files, in the folder of all attempts of this source.
        files: Size of each file in bytes, by its path in that folder.
        end: End position, as the source's kind reported it.
        taken_ms: When it was complete, in Unix milliseconds.
    """

    source: str
    folder: str
    files: dict[str, int]
    end: ExportEnd
    taken_ms: int


def find_export(generation: Generation, source: ExportedFiles) -> ExportRecord | None:
    """Return the complete export of a source; None if there is none.

    One that was made by another declaration of the source does not count.

    Raises:
        StateError: Its record is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.folder(_FOLDER).read(f"{_name(source)}.json", ExportRecord)


def take_export(
    loaded: LoadedPipeline,
    generation: Generation,
    source: ExportedFiles,
    report: Callable[[str], None],
) -> ExportRecord:
    """Export a source's rows to files of a generation; a complete export is left as it is.

    Called before planning. Of two processes that export at once, the one that ends first decides,
    and the files of the other are deleted.

    Args:
        loaded: The pipeline.
        generation: State of the generation, which keeps the files.
        source: The source.
        report: Called with each line of progress that the kind of source reports.

    Raises:
        InputError: The kind has written no file, has returned no end, or one that does not fit the
            pipeline.
        RunError: The kind failed with an error that is not a HybridError; those are raised as they
            are.
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    if (done := find_export(generation, source)) is not None:
        return done
    kind = source.kind
    every = generation.folder(_FOLDER).folder(_name(source))
    # No other attempt writes to this folder, unless the kind resumes.
    folder = every.folder(_RESUMED if kind.resumes else uuid.uuid4().hex[:12])
    end = _run(kind, Export(folder.called("export's folder"), loaded.locate, report))
    kept = find_export(generation, source)
    if kept is None:
        made = _complete(loaded, source, folder, end)
        kept = generation.folder(_FOLDER).put_if_absent(f"{_name(source)}.json", made)
    for name in every.folders():
        if name != kept.folder:
            every.folder(name).delete_all()
    return kept


def with_exports(loaded: LoadedPipeline, generation: Generation) -> LoadedPipeline:
    """Return a copy of a pipeline whose exported sources read the files of their exports.

    A source without a complete export is left as it is, without a path.

    Raises:
        StateError: The record of an export is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = {
        source.name: source.placed(_place(generation, source, record).url, record.end)
        for source in loaded.pipeline.exported_sources
        if (record := find_export(generation, source)) is not None
    }
    if not found:
        return loaded
    sources = [found.get(source.name, source) for source in loaded.pipeline.sources]
    return replace(loaded, pipeline=loaded.pipeline.model_copy(update={"sources": sources}))


def with_required_exports(loaded: LoadedPipeline, generation: Generation | None) -> LoadedPipeline:
    """Return a copy of a pipeline whose exported sources have files; refuse incomplete exports.

    Of the files, names and sizes are compared.

    Args:
        loaded: The pipeline.
        generation: The generation that is to be planned; None if it is still to be made.

    Raises:
        StateError: An export is not complete, or a file of it is missing, added or changed.
        UnavailableError: The state's store does not answer.
    """
    for source in loaded.pipeline.exported_sources:
        record = None if generation is None else find_export(generation, source)
        if generation is None or record is None:
            message = f"Source `{source.name}` is not exported yet, so its files can't be planned."
            hint = (
                f"Export it with `hybrid step P {export_step(source.name)}`, or run the whole "
                "chain with `hybrid run P`."
            )
            raise StateError(message, hint, pipeline=loaded.pipeline.name, source=source.name)
        _require_same_files(generation, source, record)
    return loaded if generation is None else with_exports(loaded, generation)


def _name(source: ExportedFiles) -> str:
    """Return the name of a source's export in the state; another declaration has another one."""
    digest = digests({"export": source.kind.contract()})["export"]
    return f"{source.name}-{digest}"


def _place(generation: Generation, source: ExportedFiles, record: ExportRecord) -> Folder:
    return generation.folder(_FOLDER).folder(_name(source)).folder(record.folder)


def _files(folder: Folder) -> dict[str, int]:
    """Return the sizes of the files of an export that are read, by their names."""
    begin = len(folder.url) + 1
    sizes = {each.path[begin:]: each.size for each in folder.documents.listing(folder.url)}
    return {name: size for name, size in sizes.items() if all(map(is_data, name.split("/")))}


def _run(kind: ExportedSource, export: Export) -> ExportEnd:
    """Call a kind; refuse what is no end."""
    try:
        end: Any = kind.export(export)
    except HybridError:
        raise
    # The code of others: whatever it raises is the answer.
    except Exception as error:
        message = (
            f"The export of source `{kind.name}` failed in the code of `type: {kind.type}`: "
            f"{type(error).__name__}: {error}."
        )
        raise RunError(message, _hint(kind), transient=False, source=kind.name) from error
    if not isinstance(end, ExportEnd):
        message = (
            f"The export of source `{kind.name}` returned {repr(end)[:200]}, which is no "
            "`ExportEnd`."
        )
        raise InputError(message, _hint(kind), source=kind.name)
    return end


def _complete(
    loaded: LoadedPipeline, source: ExportedFiles, folder: Folder, end: ExportEnd
) -> ExportRecord:
    """Return the record of an export that has ended; refuse one that can't be read."""
    _require_fitting(loaded, source, end)
    if not (files := _files(folder)):
        message = f"Source `{source.name}`: its export has written no file to read."
        raise InputError(message, _hint(source.kind), source=source.name, file=folder.url)
    return ExportRecord(
        source=source.name, folder=folder.name, files=files, end=end, taken_ms=now_ms()
    )


def _require_fitting(loaded: LoadedPipeline, source: ExportedFiles, end: ExportEnd) -> None:
    """Refuse an end that the next source can't be compared with."""
    pipeline = loaded.pipeline
    after = pipeline.source_after(source.name)
    try:
        if end.sequence is not None:
            check_snapshot_sequence(source.name, after, pipeline)
        if end.offsets is not None and (after is None or not after.has_hand_over):
            message = (
                f"source `{source.name}` ends at offsets of a topic, but no topic comes after it. "
                "Put a source with `type: kafka` right after it."
            )
            raise ValueError(message)
    except ValueError as error:
        text = f"{str(error)[0].upper()}{str(error)[1:]}"
        raise InputError(text, _hint(source.kind), source=source.name) from None


def _hint(kind: ExportedSource) -> str:
    return (
        f"Correct the declaration of the source, or {distribution_of(kind)}, which adds "
        f"`type: {kind.type}`; then export it again: `hybrid step P {export_step(kind.name)}`."
    )


def _require_same_files(
    generation: Generation, source: ExportedFiles, record: ExportRecord
) -> None:
    """Refuse files of an export that are no longer those that it has written."""
    folder = _place(generation, source, record)
    present = _files(folder)
    if not (others := dict(present.items() ^ record.files.items())):
        return
    name = min(others)
    path = folder.location(name)
    what = "was changed" if name in present and name in record.files else "is missing"
    message = f"File {path} of the export of source `{source.name}` {what}."
    hint = (
        f"Restore the file from a backup; or remove the folder {generation.location(_FOLDER)}, and "
        f"export again: `hybrid step P {export_step(source.name)}`."
    )
    if name not in record.files:
        message = f"File {path} was added to the export of source `{source.name}`."
        hint = "Move the file elsewhere; then plan again: `hybrid plan P`."
    raise StateError(message, hint, source=source.name, file=path)
