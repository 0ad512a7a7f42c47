"""Checks before a launch: Java, packages, turn, approval, hand-over; which definition is kept."""

from __future__ import annotations

from collections.abc import Callable

from sources.captured_tables import look_before_launch
from sources.common.positions import Offsets
from sources.config.code.user_functions import load_function, require_transform
from sources.config.loader import LoadedPipeline
from sources.config.requirements import require_extras
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hand_over_checks import require_sound
from sources.hybrid import Boundedness
from sources.kept_definitions import keep_definition
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_range import (
    find_range,
    first_unread_offsets,
    read_range_splits,
    require_range,
)
from sources.serving import require_in_service
from spark_jobs.checkpoint import offset_log
from spark_jobs.jvm.java import require_java
from spark_jobs.launch.readable_state import require_readable
from spark_jobs.launch.runs import find_run
from spark_jobs.table.ownership.belonging import require_belonging

Source = FileSource | KafkaSource


def require_runnable(loaded: LoadedPipeline) -> None:
    """Refuse a declaration that can't run on this machine, without starting Spark or reading data.

    Raises:
        InputError: Java is missing or too old, a package that the declaration needs is not
            installed, a function of the user can't be imported, or a query can't be read.
    """
    require_java()
    require_extras(loaded.pipeline, loaded.sections)
    require_transform(loaded)
    for source in loaded.pipeline.sources:
        for field, name in source.functions.items():
            load_function(loaded, field, name)


def require_ready_to_stream(context: PipelineContext, source: Source) -> Callable[[], None]:
    """Refuse to start the unbounded run now; called before each launch and restart of it.

    Keeps the definition that the run uses, and records the present state of a captured table.

    Returns:
        As :func:`require_ready`.

    Raises:
        StateError: It is not the source's turn, or as :func:`require_ready`; or checkpoint, state
            and target do not belong together.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        InputError: A broker, store or database refuses, or something was done to the captured
            table that no change reports.
        UnavailableError: A broker, store or database does not answer.
    """
    require_belonging(context.loaded, context.generation)
    context.require_turn(source.name)
    put_back = require_ready(context, source)
    # Nobody may have looked at the slot and the table since the last run.
    look_before_launch(context.loaded, context.generation)
    return put_back


def require_ready(context: PipelineContext, source: Source) -> Callable[[], None]:
    """Refuse to launch a source that may not run now; keep the definition that it runs by.

    Of a source that runs already, the definition stays kept by which it was launched.

    Returns:
        A function that puts the definition back which was kept before.

    Raises:
        StateError: A document is of another version, another generation serves in this one's place,
            the plan is not approved, or the start offsets of a topic were not decided.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        InputError: A broker or a store refuses.
        UnavailableError: A broker or a store does not answer.
    """
    require_readable(context)
    require_in_service(context.loaded, context.generation)
    require_approved(context)
    for topic in context.pipeline.turn_of(source.name):
        if isinstance(topic, KafkaSource):
            context.switch_state.require_start(topic.name)
            if topic.boundedness is Boundedness.BOUNDED:
                require_range(context.generation, topic.name)
            if not next_offsets(context, topic):
                require_sound(context, topic)
    if find_run(context.generation, source.name) is not None:
        return lambda: None
    return keep_definition(context.loaded, context.generation)


def next_offsets(context: PipelineContext, source: KafkaSource) -> Offsets:
    """Return the first uncommitted offset of each partition of a topic, by the query's checkpoint.

    Returns:
        Offsets by partition: all below are committed. Empty if no micro-batch with records of the
        topic was committed.

    Raises:
        StateError: The checkpoint or the plan is damaged.
        UnavailableError: The state's store does not answer.
    """
    generation = context.generation
    place = context.pipeline.place_of(source.name)
    if source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        return offset_log.next_offsets(generation.checkpoint, place)
    decided = find_range(generation, source.name)
    offset = offset_log.committed_offset(generation.checkpoint, place)
    if decided is None or offset is None:
        return {}
    batches_done = offset_log.position_in_plan(offset, [decided.batches])
    return {
        **decided.ends,
        **first_unread_offsets(read_range_splits(decided, generation), batches_done),
    }
