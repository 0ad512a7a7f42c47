"""Files of history that become files of the target as copies, as a plan counts them."""

from __future__ import annotations

from pydantic import Field

from sources.common.positions import Part
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.extensions import contributions, none_adds
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


def plan_copies(
    loaded: LoadedPipeline, source: FileSource, listing: FileListing
) -> CopiedFiles | None:
    """Count which files of a bounded source are copied as they are; None if none are to be.

    None without ``sink.copy_files``, and with ``sample``, which needs a look at each row.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        listing: Its splits and columns.

    Raises:
        InputError: ``sink.copy_files`` is declared, and not one file can be copied: names the
            reason, and the file; or no installed extension copies files.
    """
    if not loaded.pipeline.sink.copy_files or loaded.pipeline.sample is not None:
        return None
    field = "sink.copy_files"
    if (plan := next(contributions("copied_files"), None)) is None:
        raise none_adds("copies files of history", f"remove `{field}`", field=field)
    copied: CopiedFiles = plan(loaded, source, listing)
    return copied
