"""The steps of a pipeline's chain, each an object that runs itself, and the one loop over them.

The command line, Dagster's assets, reruns and other orchestrators all run these steps. They differ
in the :class:`Observer` that shows the progress, and in nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from orchestration import operations, snapshots
from orchestration.backlog import wait_until_caught_up
from orchestration.snapshots import TakenSnapshot
from sources.common.positions import EndPosition, iso
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError
from sources.hand_over import hand_over
from sources.hand_over_checks import Check, check_hand_over, find_refusal
from sources.hybrid import Boundedness
from sources.kafka.client import KafkaLog
from sources.ledger import Ledger
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from spark_jobs.run_state.heartbeat import Heartbeat, describe

T = TypeVar("T")


class Observer:
    """Follower of a chain's progress; each method does nothing unless it is overridden."""

    def started(self, step: Step[Any]) -> None:
        """Show that a step begins."""

    def noted(self, step: Step[Any], text: str) -> None:
        """Show what a step reports in words, such as each chunk of a snapshot."""

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Show a new heartbeat of a step's Spark run."""

    def printed(self, step: Step[Any], line: str) -> None:
        """Show a line that a step's Spark run printed."""

    def waiting(self, step: Step[Any], count: int, unit: str) -> None:
        """Show how much input the stream has not committed yet."""

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Show that a step is done."""


@dataclass(frozen=True)
class ChainRun:
    """What the steps of one pass over a chain share.

    Attributes:
        loaded: The pipeline.
        observer: Shows the progress.
        rest_requested: The rest of the chain is to run, too: a driver may continue with the next
            source by itself (``switch: warm``).
        until_caught_up: The last step waits until the stream has committed all that is there.
        environment: More environment variables for the drivers of bounded sources.
    """

    loaded: LoadedPipeline
    observer: Observer = field(default_factory=Observer)
    rest_requested: bool = False
    until_caught_up: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def context(self) -> PipelineContext:
        """The pipeline and its state, resolved by the first step after the plan.

        Raises:
            StateError: Nothing was planned yet.
        """
        return PipelineContext.require(self.loaded)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a step came to.

    Attributes:
        value: The result.
        document: The result as JSON.
        text: The result in a sentence.
        refusal: Why the chain may not continue, though the step itself is done.
    """

    value: T
    document: dict[str, Any]
    text: str
    refusal: HybridError | None = None


class Step(ABC, Generic[T]):
    """One step of a chain. Safe to repeat: what was done before is not done again.

    Attributes:
        name: Name of the step, and of its asset.
        source: Name of the source that it is about; None of a step before all sources.
    """

    name: str
    source: str | None = None

    def run(self, run: ChainRun) -> Outcome[T]:
        """Do the step.

        Raises:
            HybridError: As the operation that it does.
        """
        run.observer.started(self)
        outcome = self._run(run)
        run.observer.finished(self, outcome)
        return outcome

    @abstractmethod
    def _run(self, run: ChainRun) -> Outcome[T]: ...


class SnapshotStep(Step[list[TakenSnapshot]]):
    """Take the snapshots of database tables that the pipeline starts from."""

    name = "take_snapshot"

    def _run(self, run: ChainRun) -> Outcome[list[TakenSnapshot]]:
        taken = snapshots.take(run.loaded, partial(run.observer.noted, self))
        document = {"snapshots": [each.document for each in taken]}
        return Outcome(taken, document, "\n".join(each.text for each in taken))


class PlanStep(Step[Plan]):
    """Decide what will be read and in which order, before anything runs."""

    name = "plan"

    def _run(self, run: ChainRun) -> Outcome[Plan]:
        made = operations.plan(run.loaded)
        return Outcome(made, made.model_dump(mode="json"), "Planned.")


class HandedOver(NamedTuple):
    """A hand-over that was made.

    Attributes:
        ledger: What was decided for each partition.
        checks: Its checks, against the log as it is now.
    """

    ledger: Ledger
    checks: Sequence[Check]


class HandoverStep(Step[HandedOver]):
    """Decide where a topic starts, and check that.

    Args:
        source: Name of the Kafka source.
    """

    def __init__(self, source: str) -> None:
        self.name = f"{source}_handover"
        self.source: str = source

    def _run(self, run: ChainRun) -> Outcome[HandedOver]:
        context = run.context
        source = context.pipeline.topic_source(self.source)
        context.switch_state.require_turn(source.name)
        log = KafkaLog(source)
        ledger = hand_over(context, source, log)
        reached = operations.reached(context, source)
        checks = check_hand_over(context, source, reached, log)
        return Outcome(
            HandedOver(ledger, checks),
            ledger.model_dump(mode="json"),
            "The hand-over is made, and passes its checks.",
            # A run that has begun is judged by its supervision.
            None if reached else find_refusal(source, checks),
        )


class BoundedStep(Step[EndPosition]):
    """Read a bounded source to its end.

    Args:
        source: Name of the source.
    """

    def __init__(self, source: str) -> None:
        self.name = self.source = source

    def _run(self, run: ChainRun) -> Outcome[EndPosition]:
        end = operations.run_bounded(
            run.context,
            run.context.pipeline.source(self.name),
            on_beat=partial(run.observer.beat, self),
            on_output=partial(run.observer.printed, self),
            extra_environment=run.environment,
            rest_requested=run.rest_requested,
        )
        text = f"Read to its end: event time {iso(end.event_time_ms)}."
        return Outcome(end, end.model_dump(mode="json"), text)


class LiveStep(Step[Heartbeat]):
    """Start the unbounded run, which then continues by itself.

    Args:
        source: Name of the source.
    """

    def __init__(self, source: str) -> None:
        self.name = self.source = source

    def _run(self, run: ChainRun) -> Outcome[Heartbeat]:
        source = run.context.pipeline.source(self.name)
        beat = operations.go_live(run.context, source, partial(run.observer.beat, self))
        if run.until_caught_up:
            wait_until_caught_up(run.context, partial(run.observer.waiting, self))
        return Outcome(beat, beat.model_dump(mode="json"), f"Live: {describe(beat)}.")


def steps_of(loaded: LoadedPipeline) -> list[Step[Any]]:
    """Return the steps of a pipeline's chain, in order."""
    first: list[Step[Any]] = [SnapshotStep()] if snapshots.declared(loaded) else []
    return [*first, PlanStep(), *_steps_of_sources(loaded)]


def _steps_of_sources(loaded: LoadedPipeline) -> Iterator[Step[Any]]:
    planned = operations.planned_topic(loaded)
    for source in loaded.pipeline.sources:
        if source in loaded.pipeline.topics and source is not planned:
            yield HandoverStep(source.name)
        is_bounded = source.boundedness is Boundedness.BOUNDED
        yield BoundedStep(source.name) if is_bounded else LiveStep(source.name)


def run_chain(run: ChainRun) -> None:
    """Run all steps of a chain, in order, until one fails.

    Raises:
        HybridError: As the step that failed.
    """
    for step in steps_of(run.loaded):
        _run_step(step, run)


def run_step(run: ChainRun, name: str) -> Outcome[Any]:
    """Run one step of a chain, as an orchestrator does that has a task for each.

    Raises:
        InputError: The chain has no step of that name.
        HybridError: As the step.
    """
    steps = {step.name: step for step in steps_of(run.loaded)}
    if name not in steps:
        message = f"Pipeline `{run.loaded.pipeline.name}` has no step `{name}`."
        raise InputError(message, f"Its steps are {', '.join(steps)}.", value=name)
    return _run_step(steps[name], run)


def _run_step(step: Step[T], run: ChainRun) -> Outcome[T]:
    outcome = step.run(run)
    if outcome.refusal is not None:
        raise outcome.refusal
    return outcome
