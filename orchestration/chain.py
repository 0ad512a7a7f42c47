"""The steps of a pipeline's chain that run Spark, for assets and command line alike.

(The hand-over between them needs no Spark: :mod:`sources.hand_over`.) Every step may be
repeated: what was decided is read, what was done is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from orchestration import snapshots
from orchestration.requested_state import put_wish, read_wanted, require_wanted, want
from sources.common.positions import EndPosition, Offsets
from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.rate_limit import RateLimit, put_in_force
from sources.config.user_functions import load_function, load_transform
from sources.databases.replication_slot import look_at_slot
from sources.errors import InputError, RunError
from sources.generations import keep_definition, require_in_service
from sources.hand_over import hand_over, require_sound
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client import KafkaLog
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.discovery import GrowingFolder
from sources.planning.plan import Plan, make_plan
from sources.planning.topic_range import find_range, read_range_splits, require_range, unread
from spark_jobs.checkpoint import offset_log
from spark_jobs.jvm.java import require_java
from spark_jobs.launch import process
from spark_jobs.launch.runs import OnOutput, find_run, log_path
from spark_jobs.run_state.heartbeat import Heartbeat

SNAPSHOT = "take_snapshot"
"""Name of the step that takes the snapshots of a pipeline's tables."""
_POLL_S = 0.3


class Step(NamedTuple):
    """One step of a chain.

    Attributes:
        name: Of the step, and of its asset.
        kind: ``snapshot`` of database tables; ``plan``; ``start`` for a hand-over; ``bounded`` and
            ``live`` for the run of a source.
        source: Name of its source; None of the first two.
    """

    name: str
    kind: Literal["snapshot", "plan", "start", "bounded", "live"]
    source: str | None


def steps(loaded: LoadedPipeline) -> list[Step]:
    """The steps of a chain, in order."""
    found = [Step("plan", "plan", None)]
    if snapshots.declared(loaded):
        found.insert(0, Step(SNAPSHOT, "snapshot", None))
    for place, source in enumerate(loaded.pipeline.sources):
        is_bounded = source.boundedness is Boundedness.BOUNDED
        # A first source with an end is decided by the plan, be it files or topics.
        if isinstance(source, KafkaSource) and (place or not is_bounded):
            found.append(Step(f"{source.name}_start", "start", source.name))
        found.append(Step(source.name, "bounded" if is_bounded else "live", source.name))
    return found


def validate(loaded: LoadedPipeline) -> None:
    """Check what can be checked without looking at data or starting a process.

    Raises:
        InputError: Java is missing or too old, or a function of the user can't be imported.
    """
    require_java()
    load_transform(loaded)
    for source in loaded.pipeline.sources:
        for field, name in source.functions.items():
            load_function(loaded, field, name)


def plan(loaded: LoadedPipeline) -> Plan:
    """Make the plan, or read the one that was made (:func:`sources.planning.plan.make_plan`).

    A topic that comes first and has an end is decided with it.
    """
    validate(loaded)
    made = make_plan(loaded)
    first = loaded.pipeline.sources[0]
    if isinstance(first, KafkaSource) and first.boundedness is Boundedness.BOUNDED:
        hand_over(loaded, first)
    return made


def run_bounded(
    loaded: LoadedPipeline,
    source: FileSource | KafkaSource,
    on_beat: process.OnBeat = lambda _: None,
    on_output: OnOutput = lambda _: None,
    extra_environment: Mapping[str, str] | None = None,
    *,
    go_on: bool = False,
) -> EndPosition:
    """Read a bounded source to its end; one that has ended is not read again.

    Args:
        loaded: The pipeline.
        source: The source.
        on_beat: Called with each new heartbeat.
        on_output: Called with each line of the run's own output.
        extra_environment: More variables for the job.
        go_on: Whether the rest of the chain is asked for too. Then its driver makes the hand-over
            and goes on by itself (``switch: warm``); the steps that follow find that done.

    Raises:
        StateError: It is out of turn, its plan is not approved, or another run is active.
        SeamError: A topic's hand-over does not pass its checks; asked before the first launch only.
        RunError: Spark failed, or ended without having read all of the plan.
    """
    generation, enumerator = _state(loaded)
    enumerator.require_turn(source.name)
    if (end := enumerator.end_of(source.name)) is not None:
        return end
    require_in_service(loaded, generation)
    require_approved(PipelineContext(loaded, generation))
    if isinstance(source, KafkaSource):
        require_range(generation, source.name)
        if not reached(loaded, source):
            require_sound(loaded, source)
    keep_definition(loaded, generation)
    names = [each.name for each in loaded.pipeline.sources]
    is_warm = go_on and loaded.pipeline.switch == "warm"
    to_run = names[names.index(source.name) :] if is_warm else [source.name]
    process.run_to_end(loaded, generation, to_run, on_beat, on_output, extra_environment)
    if go_on and find_run(generation, names[-1]) is not None:
        # From the switch on, not only once the step that asks for it is there.
        want(generation, names[-1], is_wanted=True)
    if (end := enumerator.end_of(source.name)) is None:
        message = f"The Spark run of `{source.name}` ended well but left no end position."
        raise RunError(message, "Run it again.")
    return end


def go_live(
    loaded: LoadedPipeline,
    source: FileSource | KafkaSource,
    on_beat: process.OnBeat = lambda _: None,
) -> Heartbeat:
    """Start the unbounded run, or find it running; returns when its first batch is in.

    From then on it is wanted, until it is stopped.

    Raises:
        StateError: A source before it has not finished, a topic's hand-over was not made, or the
            plan is not approved.
        SeamError: It does not pass its checks; asked before the first launch only.
        RunError: Spark failed before its first batch; it is wanted all the same.
    """
    generation = _require_ready(loaded, source)
    before = read_wanted(generation)
    want(generation, source.name, is_wanted=True)
    try:
        return _start(loaded, generation, source, on_beat)
    except Exception:
        raise
    except BaseException:
        # Who interrupts what they asked for takes it back.
        if before is None:
            want(generation, source.name, is_wanted=False)
        elif not before.is_wanted:
            put_wish(generation, before)
        raise


def resume(loaded: LoadedPipeline, source: FileSource | KafkaSource) -> Heartbeat:
    """Start the unbounded run again, if it is still wanted: who stopped it prevails.

    Raises:
        StateError: It is not wanted; or as :func:`go_live`.
        RunError: As :func:`go_live`.
    """
    generation = _require_ready(loaded, source)
    require_wanted(generation)
    return _start(loaded, generation, source, lambda _: None)


def _start(
    loaded: LoadedPipeline,
    generation: Generation,
    source: FileSource | KafkaSource,
    on_beat: process.OnBeat,
) -> Heartbeat:
    def while_wanted(beat: Heartbeat) -> None:
        # Asked once it is launched: a stop that came before that found nothing to end.
        require_wanted(generation)
        on_beat(beat)

    return process.start_detached(loaded, generation, source.name, while_wanted)


def _require_ready(loaded: LoadedPipeline, source: FileSource | KafkaSource) -> Generation:
    generation, enumerator = _state(loaded)
    enumerator.require_turn(source.name)
    require_in_service(loaded, generation)
    require_approved(PipelineContext(loaded, generation))
    keep_definition(loaded, generation)
    if isinstance(source, KafkaSource):
        enumerator.require_start(source.name)
        if not reached(loaded, source):
            require_sound(loaded, source)
    # Nobody may have looked since the last run.
    look_at_slot(loaded, generation)
    return generation


def reached(loaded: LoadedPipeline, source: KafkaSource) -> Offsets:
    """First offsets that a topic's run has not committed yet; empty if it never committed any."""
    generation, _ = _state(loaded)
    place = loaded.pipeline.hybrid_source().index(source.name)
    if source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        return offset_log.reached(generation.checkpoint, place)
    found = find_range(generation, source.name)
    offset = offset_log.committed_offset(generation.checkpoint, place)
    if found is None or offset is None:
        return {}
    batches_done = offset_log.position_in_plan(offset, [found.batches])
    return {**found.ends, **unread(read_range_splits(found, generation), batches_done)}


def change_rate(loaded: LoadedPipeline, source: str, limit: RateLimit) -> None:
    """Limit how fast a source is read, from now on; a run that is under way takes it over.

    Raises:
        InputError: There is no such source, or the limit means nothing for it.
        StateError: Nothing was planned yet.
    """
    names = [each.name for each in loaded.pipeline.sources]
    if source not in names:
        message = f"Pipeline `{loaded.pipeline.name}` has no source `{source}`."
        raise InputError(message, f"Name one of {', '.join(names)}.")
    loaded.pipeline.source(source).check_rate(limit)
    put_in_force(loaded.require_generation(), source, limit)


def stop(loaded: LoadedPipeline) -> list[str]:
    """End whatever run of the pipeline is alive; returns the names of the sources stopped.

    The live run is not wanted from then on, nor paused.
    """
    generation = loaded.open_generation(create=False)
    if generation is None:
        return []
    wanted = read_wanted(generation)
    if wanted is not None and (wanted.is_wanted or wanted.is_paused):
        want(generation, wanted.source, is_wanted=False)
    names = [source.name for source in loaded.pipeline.sources]
    return [name for name in names if process.stop(generation, name)]


def is_live(loaded: LoadedPipeline) -> bool:
    """Whether the unbounded run of a pipeline is alive."""
    generation = loaded.open_generation(create=False)
    last = loaded.pipeline.sources[-1].name
    return generation is not None and process.find_running(generation, last) is not None


def wait_until_caught_up(
    loaded: LoadedPipeline,
    source: FileSource | KafkaSource,
    on_lag: Callable[[int], None] = lambda _: None,
) -> None:
    """Wait until the live run has committed everything that the topic, or the folder, holds.

    Raises:
        RunError: The run ended meanwhile.
    """
    generation, _ = _state(loaded)
    log = KafkaLog(source) if isinstance(source, KafkaSource) else None
    while True:
        beat = process.find_running(generation, source.name)
        if beat is None:
            message = f"The live run of `{source.name}` ended before it had caught up."
            raise RunError(message, f"See {log_path(generation, source.name)}.")
        behind = unread_files(beat, loaded) if log is None else lag(beat, log, loaded)
        on_lag(behind)
        if behind == 0:
            return
        time.sleep(_POLL_S)


def lag(
    beat: Heartbeat | None, log: KafkaLog, loaded: LoadedPipeline, until: Offsets | None = None
) -> int:
    """Offsets of the topics, up to their ends unless told, that are not committed yet."""
    _, enumerator = _state(loaded)
    start = enumerator.start_of(loaded.pipeline.sources[-1].name)
    starts = log.log_start()
    position = {**starts, **(start.offsets() if start is not None else {})}
    if beat is not None and beat.offsets is not None:
        position.update(beat.offsets)
    ends = log.log_end() if until is None else until
    return sum(max(end - position[at], 0) for at, end in ends.items())


def unread_files(beat: Heartbeat | None, loaded: LoadedPipeline) -> int:
    """How much of the folder that comes last the live run has not committed yet.

    Splits of what was discovered, files of what was not.

    Raises:
        InputError: The folder can't be listed.
    """
    generation = loaded.require_generation()
    folder = GrowingFolder(PipelineContext(loaded, generation))
    done = 0 if beat is None or beat.splits_done is None else beat.splits_done
    return folder.splits - done + len(folder.undiscovered())


def _state(loaded: LoadedPipeline) -> tuple[Generation, SwitchState]:
    generation = loaded.require_generation()
    return generation, SwitchState(loaded.pipeline.hybrid_source(), generation)
