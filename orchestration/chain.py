"""Steps of a chain, which run themselves: their order, what a repeated or failed one leaves.

The command line, Dagster's assets, reruns and other orchestrators all run these steps. They differ
in the :class:`Observer` that shows the progress, and in nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from orchestration import step_observers
from orchestration.capture.interface import require_capture
from orchestration.capture.snapshots import TakenSnapshot, snapshot_sources
from orchestration.catch_up import wait_until_caught_up
from orchestration.display import size
from orchestration.launch_checks import next_offsets
from orchestration.operations import bounded_run, chain_plan, live_run
from orchestration.progress.forecast import eta_s
from sources.common.counting import counted
from sources.common.positions import EndPosition
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import export_step
from sources.errors import COMMITTED_STAYS, HybridError, InputError, leaving
from sources.hand_over import hand_over
from sources.hand_over_checks import Check, check_hand_over, find_refusal
from sources.hybrid import Boundedness
from sources.kafka.client.kafka_log import KafkaLog
from sources.ledger import Ledger
from sources.planning.context import PipelineContext
from sources.planning.exports import ExportRecord
from sources.planning.files.open_snapshot import WholeTable, whole_in_words
from sources.planning.plan import Plan
from spark_jobs.launch.run_control import Means
from spark_jobs.launch.waiting_driver import WaitingDriver, waiting_driver
from spark_jobs.run_state.heartbeat import Heartbeat, describe
from spark_jobs.run_state.progress_log import read_progress_log, sample_of
from spark_jobs.table.ownership.belonging import require_belonging

T = TypeVar("T")
# About as long as Spark takes to start on a busy machine.
_AHEAD_S = 20.0


class Observer:
    """Observer of a chain's progress (terminal, Dagster); methods do nothing unless overridden.

    They run in the process that runs the chain, which waits for them.
    """

    def started(self, step: Step[Any]) -> None:
        """Show that a step begins; called before the step does anything."""

    def noted(self, step: Step[Any], text: str) -> None:
        """Show a step's message, such as one for each chunk of a snapshot."""

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Show a new heartbeat (progress document) of a step's Spark run."""

    def printed(self, step: Step[Any], line: str) -> None:
        """Show a line that the Spark driver of a bounded step printed."""

    def waiting(self, step: Step[Any], count: int, unit: str) -> None:
        """Show how much input the stream has not committed yet; called while a step waits for that.

        Args:
            step: The step of the live run.
            count: How many are left.
            unit: What is counted, as fits the count: ``record``, or ``files or splits``.
        """

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Show that a step has succeeded; not called for a step that raised an error."""


@dataclass(frozen=True)
class ChainRun:
    """State that the steps of one pass over a chain share.

    Attributes:
        loaded: The pipeline.
        observer: Shows the progress.
        rest_requested: The rest of the chain is to run, too: a driver may continue with the next
            source by itself (``switch: warm``).
        until_caught_up: The last step ends only once the stream has committed all input that there
            is; else with its first committed micro-batch.
        environment: More environment variables for the drivers of bounded sources.
        waiting: The Spark driver, started in advance, that checks the transform for the plan, and
            then reads the first source; with ``switch: cold`` those of later sources, too. None to
            start a driver for each.
        leaves: What became of the table if a step fails, in place of what each step says of it; for
            a pipeline that computes what another one's table gets. Empty for what the steps say.
    """

    loaded: LoadedPipeline
    observer: Observer = field(default_factory=Observer)
    rest_requested: bool = False
    until_caught_up: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    waiting: WaitingDriver | None = None
    leaves: str = ""

    @cached_property
    def context(self) -> PipelineContext:
        """The pipeline and its state, read once, by the first step after the plan.

        Raises:
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            StateError: Nothing was planned yet, or the declaration changed in a way that the
                checkpoint can't follow.
            UnavailableError: The state's store does not answer.
        """
        return PipelineContext.require(self.loaded)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """Result of a step, for Dagster, for programs and for people.

    Attributes:
        value: The result, of the type that the step's class names.
        document: The result as a JSON object.
        text: The result in a sentence.
        refusal: Error that keeps the following steps from running, though this step itself is done,
            such as a hand-over that fails a check; None if they may run. Whoever runs the chain
            raises it.
    """

    value: T
    document: dict[str, Any]
    text: str
    refusal: HybridError | None = None


class Step(ABC, Generic[T]):
    """Step of a chain. Safe to repeat: a step that is done returns its kept result.

    Attributes:
        name: Name of the step, and of its asset.
        source: Name of the source that the step is about; None of a step before all sources.
        leaves: What became of the table if the step fails: a sentence for the error.
    """

    name: str
    source: str | None = None
    leaves: str = "The table was not changed."

    def run(self, run: ChainRun) -> Outcome[T]:
        """Run the step to its end, and report its beginning and its end to the observer.

        Args:
            run: What the steps of this pass over the chain share.

        Returns:
            The result; a caller has to check its ``refusal``, which is not raised here.

        Raises:
            HybridError: The step's operation is refused or failed; it tells what that leaves, and
                the observer's ``finished`` is not called. The step may be run again.
        """
        run.observer.started(self)
        # What a plan reads is what its sources read; a live run goes on after its step.
        with (
            nullcontext()
            if isinstance(self, LiveStep)
            else step_observers.reported(
                run.loaded, self.name, self.source, partial(run.observer.noted, self)
            ),
            leaving(run.leaves or self.leaves),
        ):
            outcome = self._run(run)
        run.observer.finished(self, outcome)
        return outcome

    @abstractmethod
    def _run(self, run: ChainRun) -> Outcome[T]: ...


class SnapshotStep(Step[list[TakenSnapshot]]):
    """Step that copies the database tables that the pipeline starts from into files.

    Only in chains whose pipeline declares ``snapshot``; its value is a report of each copied table.
    One with ``follow: while_reading`` is begun: :class:`RestOfSnapshotStep` copies the rest.

    Args:
        is_whole: Copy the whole table in any case.
    """

    name = "take_snapshot"

    def __init__(self, *, is_whole: bool = False) -> None:
        self._is_whole = is_whole

    def _run(self, run: ChainRun) -> Outcome[list[TakenSnapshot]]:
        tell = partial(run.observer.noted, self)
        taken = require_capture().take(run.loaded, tell, first_only=not self._is_whole)
        document = {"snapshots": [each.document for each in taken]}
        return Outcome(taken, document, "\n".join(each.text for each in taken))


class RestOfSnapshotStep(Step[WholeTable | None]):
    """Step that copies the rest of a snapshot while the live run merges its chunks and changes.

    Only in chains with ``follow: while_reading``. It ends once the table is whole; its value is the
    mark of that, or None if the snapshot was complete when it was planned.
    """

    name = "rest_of_snapshot"
    leaves = COMMITTED_STAYS

    def _run(self, run: ChainRun) -> Outcome[WholeTable | None]:
        tell = partial(run.observer.noted, self)
        mark = require_capture().take_rest(run.context, tell, tell)
        if run.until_caught_up:
            wait_until_caught_up(run.context, partial(run.observer.waiting, self))
        if mark is None:
            text = "The table is whole: its snapshot was complete when it was planned."
            return Outcome(mark, {"whole": True}, text)
        return Outcome(mark, {"whole": True, **mark.model_dump(mode="json")}, whole_in_words(mark))


class ExportStep(Step[ExportRecord]):
    """Step that writes a source of an extension's kind to files, once for a generation.

    Its value is the record of the export: its files and their sizes in bytes.

    Args:
        source: Name of the source.
    """

    def __init__(self, source: str) -> None:
        self.name = export_step(source)
        self.source: str = source

    def _run(self, run: ChainRun) -> Outcome[ExportRecord]:
        made = chain_plan.export(run.loaded, self.source, partial(run.observer.noted, self))
        files = f"{counted(len(made.files), 'file')} ({size(sum(made.files.values()))})"
        return Outcome(made, made.model_dump(mode="json"), f"`{self.source}` is exported: {files}.")


class PlanStep(Step[Plan]):
    """Step that decides what will be read and in which order, and keeps it; its value is the plan.

    Rows are neither read into the table nor written.
    """

    name = "plan"

    def _run(self, run: ChainRun) -> Outcome[Plan]:
        made = chain_plan.plan(run.loaded, run.waiting)
        splits = sum(part.splits for part in made.files)
        are = counted(splits, "split of files is", "splits of files are")
        return Outcome(made, made.model_dump(mode="json"), f"The plan is made: {are} to be read.")


class HandedOver(NamedTuple):
    """Result of a hand-over (the switch from one source to the next).

    Attributes:
        ledger: Start offset of each topic partition, and the reason for it.
        checks: Results of the checks of these offsets against Kafka's log as it is now.
    """

    ledger: Ledger
    checks: Sequence[Check]


class HandoverStep(Step[HandedOver]):
    """Step that decides at which offsets a topic starts, and checks them against Kafka's log.

    It may run once all earlier sources are read. The decision is kept before the checks, and a
    repeated step reads it. Failed checks are no error of the step but the outcome's ``refusal``.

    Args:
        source: Name of the Kafka source.
    """

    def __init__(self, source: str) -> None:
        self.name = f"{source}_handover"
        self.source: str = source

    def _run(self, run: ChainRun) -> Outcome[HandedOver]:
        context = run.context
        source = context.pipeline.topic_source(self.source)
        # A start position that is missing must not be decided again over a checkpoint.
        require_belonging(context.loaded, context.generation)
        context.switch_state.require_turn(source.name)
        log = KafkaLog(source)
        ledger = hand_over(context, source, log)
        reached = next_offsets(context, source)
        checks = check_hand_over(context, source, reached, log)
        return Outcome(
            HandedOver(ledger, checks),
            ledger.model_dump(mode="json"),
            f"The start offsets of `{self.source}` are decided, and pass their checks.",
            # A run that has begun is judged by its supervision.
            None if reached else find_refusal(source, checks),
        )


class BoundedStep(Step[EndPosition]):
    """Step that reads a bounded source to its end in a Spark run; its value is the end position.

    It blocks until the run has ended. Committed micro-batches of a failed run are not read again.

    Args:
        source: Name of the source.
    """

    leaves = COMMITTED_STAYS

    def __init__(self, source: str) -> None:
        self.name = self.source = source

    def _run(self, run: ChainRun) -> Outcome[EndPosition]:
        end = bounded_run.run_bounded(
            run.context,
            run.context.pipeline.source(self.name),
            on_beat=partial(self._beat, run),
            on_output=partial(run.observer.printed, self),
            means=Means(run.environment, run.waiting),
            rest_requested=run.rest_requested,
        )
        text = f"`{self.name}` is read to its end: highest event time {iso(end.event_time_ms)}."
        return Outcome(end, end.model_dump(mode="json"), text)

    def _beat(self, run: ChainRun, beat: Heartbeat) -> None:
        """Show a heartbeat; near the source's end, start the driver of the next one."""
        run.observer.beat(self, beat)
        pipeline, generation = run.context.pipeline, run.context.generation
        is_cold = run.rest_requested and pipeline.switch == "cold"
        if not is_cold or run.waiting is None or self.name == pipeline.sources[-1].name:
            return
        log, measured = read_progress_log(generation, self.name), sample_of(beat, None)
        if log is None or measured is None:
            return
        # The log alone is some seconds old, and a short history has ended by then.
        left_s = eta_s(log.with_sample(measured[1]))
        if left_s is not None and left_s <= _AHEAD_S:
            run.waiting.start_next(generation)


class LiveStep(Step[Heartbeat]):
    """Step that starts the unbounded run, which continues in its own process after the step.

    Its value is the heartbeat of the first committed micro-batch. The run stays requested, so the
    supervision restarts it if it fails.

    Args:
        source: Name of the source.
    """

    leaves = COMMITTED_STAYS

    def __init__(self, source: str) -> None:
        self.name = self.source = source

    def _run(self, run: ChainRun) -> Outcome[Heartbeat]:
        source = run.context.pipeline.source(self.name)
        on_beat = partial(run.observer.beat, self)
        beat = live_run.go_live(run.context, source, on_beat, waiting=run.waiting)
        tell = partial(run.observer.noted, self)
        step_observers.live_run_started(run.loaded, self.name, beat.launch_id, tell)
        if run.until_caught_up:
            wait_until_caught_up(run.context, partial(run.observer.waiting, self))
        return Outcome(beat, beat.model_dump(mode="json"), f"Live: {describe(beat)}.")


def steps_of(loaded: LoadedPipeline) -> list[Step[Any]]:
    """Return the steps of a pipeline's chain, in the order in which they have to run.

    These are ``take_snapshot`` if a snapshot is declared, an export of each source that needs one,
    ``plan``, and for each source a hand-over (if it reads a topic whose start the plan does not
    decide) and the source itself; of several inputs, one step for the files of all, a hand-over to
    each topic, and one step for the topics of all, named by the last of them; then
    ``rest_of_snapshot`` if changes are followed while a snapshot is read.
    """
    first: list[Step[Any]] = [SnapshotStep()] if snapshot_sources(loaded) else []
    is_open = any(source.follows_while_reading for source in loaded.pipeline.file_sources)
    last: list[Step[Any]] = [RestOfSnapshotStep()] if is_open else []
    return [*first, *export_steps(loaded), PlanStep(), *_steps_of_sources(loaded), *last]


def export_steps(loaded: LoadedPipeline) -> list[ExportStep]:
    """Return the steps that export sources before the plan; none if no source is exported."""
    return [ExportStep(source.name) for source in loaded.pipeline.exported_sources]


def _steps_of_sources(loaded: LoadedPipeline) -> Iterator[Step[Any]]:
    planned = chain_plan.planned_topic(loaded)
    for source in loaded.pipeline.hybrid_source().sources:
        if source in loaded.pipeline.topics and source is not planned:
            yield HandoverStep(source.name)
        if source.name != loaded.pipeline.run_of(source.name):
            continue
        is_bounded = source.boundedness is Boundedness.BOUNDED
        yield BoundedStep(source.name) if is_bounded else LiveStep(source.name)


def run_chain(run: ChainRun) -> None:
    """Run all steps of a chain, in order, until one fails; return once the last one is done.

    The live run that the last step starts continues in its own process. Steps that are done are
    skipped, so the call may be repeated after an error, and resumes from there.

    Raises:
        HybridError: A step failed, or its outcome does not allow the following ones; its type and
            text are those of the step. What earlier steps have written stays.
    """
    with waiting_driver(run.loaded) or nullcontext() as waiting:
        run = replace(run, waiting=waiting)
        for step in steps_of(run.loaded):
            _run_step(step, run)


def run_step(run: ChainRun, name: str) -> Outcome[Any]:
    """Run one step of a chain and return its result, for an orchestrator with a task for each step.

    The steps before it have to be done; a step that is done is skipped.

    Args:
        run: The pipeline, and who follows the progress.
        name: Name of the step, such as ``plan`` or ``live_handover``.

    Raises:
        InputError: The chain has no step of that name.
        HybridError: The step failed, an earlier one is not done, or the step's outcome does not
            allow the following ones.
    """
    steps = {step.name: step for step in steps_of(run.loaded)}
    if name not in steps:
        message = f"Pipeline `{run.loaded.pipeline.name}` has no step `{name}`. Nothing was done."
        hint = f"Name one of its steps: {', '.join(steps)}."
        raise InputError(message, hint, pipeline=run.loaded.pipeline.name, value=name)
    return _run_step(steps[name], run)


def _run_step(step: Step[T], run: ChainRun) -> Outcome[T]:
    outcome = step.run(run)
    if outcome.refusal is not None:
        with leaving(run.leaves or step.leaves):
            raise outcome.refusal
    return outcome
