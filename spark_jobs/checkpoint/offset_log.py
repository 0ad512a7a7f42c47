"""Offsets in Spark's checkpoint: planned, committed, initial; watermark; damaged files refused.

Layout: ``offsets/N`` is written before micro-batch N runs, ``commits/N`` after it. An offset file
holds a version, the batch's metadata and one line for each source in plan order; ``-`` stands for
a source that never had an offset.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sources.common.positions import Offsets, flatten
from sources.errors import StateError
from sources.storage.folder import Folder

_WAY_OUT = (
    "Restore the checkpoint's files from a backup. If they are lost, compute the table again in a "
    "new generation: `hybrid generation new P`, `hybrid run P`, `hybrid generation promote P`."
)

# Raised where text is no JSON, or JSON of another form.
_NO_VALUE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def _latest(checkpoint: Folder, folder: str) -> int | None:
    names = (name.rpartition("/")[2] for name in checkpoint.names(f"{folder}/*"))
    return max((int(name) for name in names if name.isdigit()), default=None)


def last_planned(checkpoint: Folder) -> int | None:
    """Return the number of the last micro-batch in the checkpoint's ``offsets``; None without any.

    Its offsets are written; if it is not committed, Spark repeats it at the next start.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    return _latest(checkpoint, "offsets")


def last_committed(checkpoint: Folder) -> int | None:
    """Return the number of the last micro-batch in the checkpoint's ``commits``, or None.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    return _latest(checkpoint, "commits")


def committed_at_ms(checkpoint: Folder, batch_id: int) -> int | None:
    """Return when a micro-batch was committed, in ms since 1970, by its file under ``commits``.

    None if the micro-batch is not committed, or Spark has removed its file.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    found = checkpoint.document(f"commits/{batch_id}")
    return None if found is None else found.modified_ms


def offset_of(checkpoint: Folder, batch_id: int, place: int) -> Any:
    """Return up to where a micro-batch reads a source, by the checkpoint's ``offsets``.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.
        place: Number of the source's fixed position in the query's union, from 0.

    Returns:
        Spark's end offset, decoded from JSON; None if the source never had one, or the file has no
        such place.

    Raises:
        StateError: The micro-batch's file is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    found = offsets_of(checkpoint, batch_id)
    return None if place >= len(found) else found[place]


def offsets_of(checkpoint: Folder, batch_id: int) -> list[Any]:
    """Return up to where a micro-batch reads each source, in the order of their places.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.

    Returns:
        Spark's end offsets, decoded from JSON; None for a source that never had one.

    Raises:
        StateError: The micro-batch's file is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    return [None if line == "-" else json.loads(line) for line in _lines(checkpoint, batch_id)[2:]]


def watermark_ms(checkpoint: Folder, batch_id: int) -> int:
    """Return the event-time watermark of a micro-batch, in ms since 1970; 0 if there was none.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.

    Raises:
        StateError: The micro-batch's file is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    return int(json.loads(_lines(checkpoint, batch_id)[1])["batchWatermarkMs"])


def clock_ms(checkpoint: Folder, batch_id: int) -> int:
    """Return the value of ``current_timestamp`` in a micro-batch, in ms since 1970.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.

    Raises:
        StateError: The micro-batch's file is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    return int(json.loads(_lines(checkpoint, batch_id)[1])["batchTimestampMs"])


def kept_settings(checkpoint: Folder, batch_id: int) -> dict[str, str]:
    """Return the settings of Spark that the checkpoint keeps with a micro-batch, by name.

    Spark has taken them over from the first micro-batch, whatever the session's settings are.
    Empty if the file holds none.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.

    Raises:
        StateError: The micro-batch's file is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    found: dict[str, str] = json.loads(_lines(checkpoint, batch_id)[1]).get("conf", {})
    return found


def _lines(checkpoint: Folder, batch_id: int) -> list[str]:
    """Return the lines of a micro-batch's offset file; refuse one that is missing or damaged."""
    name = f"offsets/{batch_id}"
    data = checkpoint.read_bytes(name)
    if data is None:
        path = checkpoint.location(name)
        message = (
            f"Checkpoint file {path} is missing, so it is unknown up to where micro-batch "
            f"{batch_id} read its sources."
        )
        raise StateError(message, _WAY_OUT, file=path)
    lines = data.decode(errors="replace").splitlines()
    if not _is_whole(lines):
        raise _damaged(checkpoint, name, f"up to where micro-batch {batch_id} read its sources")
    return lines


def _damaged(checkpoint: Folder, name: str, unknown: str) -> StateError:
    """Return the error for a file of the checkpoint that is damaged.

    Args:
        checkpoint: The checkpoint's folder.
        name: Path of the file in it.
        unknown: What is unknown without the file: end of a sentence.
    """
    path = checkpoint.location(name)
    message = (
        f"Checkpoint file {path} is damaged, as after a power failure, so it is unknown {unknown}."
    )
    return StateError(message, _WAY_OUT, file=path)


def _is_whole(lines: Sequence[str]) -> bool:
    """Return whether a file has a version, the micro-batch's metadata, and a line per source."""
    if len(lines) < 3 or not lines[0].startswith("v"):
        return False
    try:
        return all(isinstance(json.loads(line), dict) for line in lines[1:] if line != "-")
    except (ValueError, RecursionError):
        return False


def committed_offset(checkpoint: Folder, place: int) -> Any:
    """Return up to where a source is read and committed, by the checkpoint as it is now.

    Args:
        checkpoint: The checkpoint's folder.
        place: Number of the source's fixed position in the query's union, from 0.

    Returns:
        Spark's end offset, decoded from JSON; None if no micro-batch was committed, or the source
        never had an offset.

    Raises:
        StateError: The file with the offsets of the last committed micro-batch is missing or
            damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    batch_id = last_committed(checkpoint)
    return None if batch_id is None else offset_of(checkpoint, batch_id, place)


def kafka_offsets(offset: Any) -> Offsets:
    """Convert Spark's offset of a Kafka source to the first unread offset of each partition.

    Args:
        offset: Spark's offset, decoded from JSON; None leads to an empty result.
    """
    return {} if offset is None else flatten(offset)


def next_offsets(checkpoint: Folder, place: int) -> Offsets:
    """Return the first offset of each partition that no committed micro-batch has read.

    Args:
        checkpoint: The checkpoint's folder.
        place: Place of the Kafka source, that is its fixed position in the query's union, from 0.

    Returns:
        Empty if the source was never read.

    Raises:
        StateError: The file with the offsets of the last committed micro-batch is missing or
            damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    return kafka_offsets(committed_offset(checkpoint, place))


def is_drained(offset: Any, versions: int) -> bool:
    """Return whether a source has been read to the end of its plan, a Delta log, and committed.

    Delta's offset moves beyond a version when the version's last file has been read.

    Args:
        offset: The source's committed offset (:func:`committed_offset`); None leads to False.
        versions: Number of versions of its Delta log, those of the plan and of each round (a
            further listing of its folder) together.
    """
    return offset is not None and offset["reservoirVersion"] >= versions


def position_in_plan(offset: Any, entries: Sequence[int]) -> int:
    """Return how many entries of a plan's Delta log an offset covers; all if it is past the last.

    Args:
        offset: The source's committed offset (:func:`committed_offset`); None leads to 0.
        entries: Number of entries (files) in each version of its Delta log.
    """
    if offset is None:
        return 0
    version = int(offset["reservoirVersion"])
    if version >= len(entries):
        return sum(entries)
    return sum(entries[:version]) + max(int(offset["index"]) + 1, 0)


def initial_kafka_offsets(checkpoint: Folder, place: int) -> Offsets | None:
    """Return the start offset of each partition that Spark fixed at a Kafka source's first start.

    From then on Spark silently ignores other starting offsets, so the caller compares them.

    Args:
        checkpoint: Folder of the checkpoint.
        place: Number of the source in the query, from 0.

    Returns:
        None if the source was never started on this checkpoint.

    Raises:
        StateError: The file in which Spark keeps them is damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    name = f"sources/{place}/0"
    data = checkpoint.read_bytes(name)
    if data is None:
        return None
    text = data.decode(errors="replace")
    try:
        return flatten(json.loads(text[text.index("{") :]))
    except _NO_VALUE:
        raise _damaged(checkpoint, name, "at which offsets its query has started") from None


def query_id(checkpoint: Folder) -> str | None:
    """Return the id of the query that the checkpoint belongs to; None before its first start.

    Delta's streaming sink has it as the application id of its transactions.

    Raises:
        StateError: The checkpoint's file ``metadata`` is damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    name = "metadata"
    if (data := checkpoint.read_bytes(name)) is None:
        return None
    try:
        return str(json.loads(data)["id"])
    except _NO_VALUE:
        raise _damaged(checkpoint, name, "which query it belongs to") from None
