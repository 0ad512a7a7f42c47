"""List of a pipeline's generations: which one serves, waits, or has served."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from sources import generations
from sources.config.loader import LoadedPipeline
from sources.serving import read_serving, target_of

Role = Literal["serving", "waiting", "served"]


class GenerationLine(BaseModel):
    """Generation (one computation of the whole table) in the list of all.

    Attributes:
        name: Its name, such as ``g2``.
        role: ``serving``; ``waiting`` for its promotion; ``served`` earlier, and kept for a
            rollback.
        begun_ms: When it was begun, in ms since 1970.
        until_ms: When another one replaced it, in ms since 1970; None if none did.
        table: Path or URL of the table with its rows.
        by: Who let readers see it, as given; None if nobody did, or no name was given.
    """

    name: str
    role: Role
    begun_ms: int
    until_ms: int | None
    table: str
    by: str | None = None


def overview(loaded: LoadedPipeline) -> list[GenerationLine]:
    """Return all generations of a pipeline, the oldest first; empty if nothing was planned yet.

    A promotion or rollback that is under way does not show in it until its record is written: ask
    :func:`~sources.serving.pending_switch`.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    serving = read_serving(loaded)
    lines = []
    for each in generations.generations(loaded):
        served = serving.served(each.name)
        is_serving = each.name == serving.generation
        role: Role = "serving" if is_serving else "waiting"
        by = serving.by if is_serving else None
        lines.append(
            GenerationLine(
                name=each.name,
                role=role if served is None else "served",
                begun_ms=each.info.created_ms,
                until_ms=None if served is None else served.until_ms,
                table=target_of(loaded, each.name).url,
                by=by if served is None else served.by,
            )
        )
    return lines
