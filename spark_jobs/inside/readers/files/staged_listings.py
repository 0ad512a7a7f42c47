"""Bad rows of a listing of Parquet files, which the driver stages once per listing.

Spark leaves such rows out by a condition, so no task meets them. They are staged for the first
micro-batch after the listing, and then collected like all others
(:mod:`spark_jobs.inside.readers.staged_bad_records`).
"""

from __future__ import annotations

from sources.common.state_document import Record
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.readers.staged_bad_records import staging_folder


class StagedListing(Record):
    """Marker in the state that the bad rows of a listing are being or were staged.

    Attributes:
        batch: Number of the micro-batch that they are staged for.
    """

    batch: int


def folder_to_stage(generation: Generation, source: str, what: str) -> Folder | None:
    """Return the folder in which a listing's bad rows have to be staged; None if they were.

    Call it while no micro-batch of these files can begin. They are staged for the next micro-batch;
    after a crash it returns that folder again, until the micro-batch is committed.

    Args:
        generation: State of the generation.
        source: Name of the source.
        what: Which rows of which listing, such as ``outside-0``.

    Raises:
        StateError: The document of the listing is damaged, or the state can't be written.
        UnavailableError: The state's store does not answer.
    """
    committed = offset_log.last_committed(generation.checkpoint)
    done = -1 if committed is None else committed
    name = f"bad/{source}-{what}.json"
    staged = generation.read(name, StagedListing)
    if staged is not None and staged.batch <= done:
        return None
    # Noted first: a run that was interrupted in between has not begun a micro-batch.
    staged = generation.put_if_absent(name, StagedListing(batch=done + 1))
    return staging_folder(generation, source).folder(str(staged.batch))
