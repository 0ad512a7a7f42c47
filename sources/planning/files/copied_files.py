"""Files of history that become files of the target as copies, as a plan counts them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sources.common.state_document import Part
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.extensions import required
from sources.files.listing.split_table import FileListing


class RewrittenFiles(Part):
    """Files that can't be copied as they are and are rewritten, all for the same reason.

    Attributes:
        why: The reason, in words.
        files: Number of these files.
        such_as: Path of one of them.
    """

    why: str
    files: int
    such_as: str


class CopiedFiles(Part):
    """How many files of a source are copied into the target as they are, and which are not.

    Attributes:
        files: Number of copied files.
        bytes: Size of the copied files.
        rewritten: The files whose rows are rewritten instead, by reason.
    """

    files: int
    bytes: int
    rewritten: list[RewrittenFiles] = Field(default_factory=list)


def copying(pipeline: Pipeline, what: str) -> Any:
    """Return what an extension adds where files are copied; None if none are to be.

    None without ``sink.copy_files``, and with ``sample``, which needs a look at each row.

    Args:
        pipeline: The pipeline.
        what: The place: ``copied_files`` or ``copying_sink``.

    Raises:
        InputError: Files are to be copied, and no installed extension does that.
    """
    if not pipeline.sink.copy_files or pipeline.sample is not None:
        return None
    field = "sink.copy_files"
    return required(what, "copies files of history", f"remove `{field}`", field=field)


def plan_copies(
    loaded: LoadedPipeline, source: FileSource, listing: FileListing
) -> CopiedFiles | None:
    """Count which files of a bounded source are copied as they are; None if none are to be.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        listing: Its splits and columns.

    Raises:
        InputError: ``sink.copy_files`` is declared, and not one file can be copied: names the
            reason, and the file; or no installed extension copies files.
    """
    plan = copying(loaded.pipeline, "copied_files")
    copied: CopiedFiles | None = None if plan is None else plan(loaded, source, listing)
    return copied
