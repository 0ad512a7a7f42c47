"""What was read and committed according to Spark's checkpoint, source by source.

Layout: ``offsets/N`` is written before micro-batch N runs, ``commits/N`` after it. An offset file
holds a version, the batch's metadata and one line for each source in plan order; ``-`` stands for
a source that never had an offset.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sources.common.positions import Offsets, flatten


def _latest(folder: Path) -> int | None:
    try:
        numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)


def last_planned(checkpoint: Path) -> int | None:
    """Return the number of the last micro-batch that was begun, or None."""
    return _latest(checkpoint / "offsets")


def last_committed(checkpoint: Path) -> int | None:
    """Return the number of the last micro-batch that was committed, or None."""
    return _latest(checkpoint / "commits")


def committed_at_ms(checkpoint: Path, batch_id: int) -> int:
    """Return when a micro-batch was committed, in ms since the epoch."""
    return (checkpoint / "commits" / str(batch_id)).stat().st_mtime_ns // 1_000_000


def offset_of(checkpoint: Path, batch_id: int, place: int) -> Any:
    """Return the end offset of a source in a micro-batch.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.
        place: Place of the source in the union, from 0.

    Returns:
        Spark's offset, decoded from JSON; None if the source never had one.
    """
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2:]
    return None if place >= len(lines) or lines[place] == "-" else json.loads(lines[place])


def committed_offset(checkpoint: Path, place: int) -> Any:
    """Return the end offset of a source in the last committed micro-batch, or None."""
    batch_id = last_committed(checkpoint)
    return None if batch_id is None else offset_of(checkpoint, batch_id, place)


def kafka_offsets(offset: Any) -> Offsets:
    """Return a Kafka source's offset as first offsets not yet read; empty if it is None."""
    return {} if offset is None else flatten(offset)


def reached(checkpoint: Path, place: int) -> Offsets:
    """Return the first offsets that a Kafka source has not committed; empty if none was."""
    return kafka_offsets(committed_offset(checkpoint, place))


def is_drained(offset: Any, versions: int) -> bool:
    """Return whether a planned source, read through its Delta log, has nothing more to read.

    Delta's offset moves beyond a version when the version's last file has been read.

    Args:
        offset: The source's offset, or None.
        versions: Number of versions of its log: of the plan, and of each round.
    """
    return offset is not None and offset["reservoirVersion"] >= versions


def position_in_plan(offset: Any, entries: Sequence[int]) -> int:
    """Return how many entries of a plan's Delta log an offset covers.

    Args:
        offset: The source's offset, or None.
        entries: Number of entries in each version of the log.
    """
    if offset is None:
        return 0
    version = int(offset["reservoirVersion"])
    if version >= len(entries):
        return sum(entries)
    return sum(entries[:version]) + max(int(offset["index"]) + 1, 0)


def initial_kafka_offsets(checkpoint: Path, place: int) -> Offsets | None:
    """Return the start offsets that Spark fixed for a Kafka source at its first start, or None.

    From then on Spark silently ignores other starting offsets.
    """
    path = checkpoint / "sources" / str(place) / "0"
    if not path.exists():
        return None
    text = path.read_text()
    return flatten(json.loads(text[text.index("{") :]))


def query_id(checkpoint: Path) -> str | None:
    """Return the query's id, Delta's transaction id for a streaming sink; None before its start."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None
