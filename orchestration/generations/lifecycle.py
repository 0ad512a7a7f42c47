"""What people ask of a pipeline's generations: what there is, a rerun, an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel

from orchestration import chain, snapshots
from orchestration.audit.compare_generations import compare_generations
from orchestration.generations import promotion
from sources import generations
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import Serving, read_serving, target_of, waiting
from sources.hand_over import hand_over
from sources.hybrid import Boundedness

Role = Literal["serving", "waiting", "served"]


class GenerationLine(BaseModel):
    """One generation.

    Attributes:
        name: Its name.
        role: ``serving``; ``waiting`` before its promotion; ``served`` before, and kept.
        begun_ms: When it was begun.
        until_ms: When another one took its place; None if none did.
        table: Where its rows are, or would be.
    """

    name: str
    role: Role
    begun_ms: int
    until_ms: int | None
    table: str


def overview(loaded: LoadedPipeline) -> list[GenerationLine]:
    """All generations of a pipeline, the oldest first."""
    serving = read_serving(loaded)
    lines = []
    for each in generations.generations(loaded):
        served = serving.served(each.name)
        role: Role = "serving" if each.name == serving.generation else "waiting"
        lines.append(
            GenerationLine(
                name=each.name,
                role=role if served is None else "served",
                begun_ms=each.info.created_ms,
                until_ms=None if served is None else served.until_ms,
                table=target_of(loaded, each.name),
            )
        )
    return lines


def discard(loaded: LoadedPipeline) -> str:
    """End what runs for the newest generation, and remove it; returns its name.

    Raises:
        StateError: It serves, or served; or a promotion is under way.
    """
    promotion.finish(loaded)
    if waiting(loaded) is not None:
        chain.stop(loaded)
    return generations.discard(loaded)


def rerun(
    loaded: LoadedPipeline, *, promote: bool, rows_at_least: float, say: Callable[[str], None]
) -> Serving:
    """Make the pipeline's table anew as a new generation, and let it serve if all is well.

    One that was begun and not promoted is gone on with: so a rerun that broke off is taken up.

    Args:
        loaded: The pipeline.
        promote: Whether it is to serve.
        rows_at_least: Its rows over those of the one that serves, or it is not promoted.
        say: Told of each step.

    Raises:
        StateError: It is not fit to serve: the reason is told, and it waits for people.
        HybridError: A step of the chain failed.
    """
    promotion.finish(loaded)
    name = waiting(loaded) or generations.begin(loaded).name
    if snapshots.declared(loaded):
        say(f"generation {name}: snapshot")
        snapshots.take(loaded, say)
    say(f"generation {name}: plan")
    chain.plan(loaded)
    for source in loaded.pipeline.sources:
        say(f"generation {name}: {source.name}")
        if isinstance(source, KafkaSource):
            hand_over(loaded, source)
        if source.boundedness is Boundedness.BOUNDED:
            chain.run_bounded(loaded, source, go_on=True)
        else:
            chain.go_live(loaded, source)
            chain.wait_until_caught_up(loaded, source)
    found = compare_generations(loaded)
    before, now = found.rows[found.serving], found.rows[found.candidate]
    say(
        f"generation {name}: {now:,} rows, {found.serving} has {before:,}; {found.gone:,} gone, "
        f"{found.added:,} added, {found.changed:,} changed"
    )
    if now < rows_at_least * before:
        message = f"Generation {name} has {now:,} rows, {found.serving} has {before:,}."
        hint = "It waits: look at it with `hybrid generation compare`, then promote or discard it."
        raise StateError(message, hint)
    return promotion.promote(loaded) if promote else read_serving(loaded)
