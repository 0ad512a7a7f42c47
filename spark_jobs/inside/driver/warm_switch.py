"""Warm switch: the driver that has read a bounded source continues with the next one.

It makes the hand-over as the ``SourceFactory`` step would, and that step then finds it made. So no
start of Spark lies between history's last commit and the first live micro-batch.
"""

from __future__ import annotations

import sys

from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.hybrid import Boundedness
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch.launch_record import record_switch
from spark_jobs.run_state.requested_state import request


def switch(context: PipelineContext, launch_id: str, name: str) -> bool:
    """Switch to the next source: make the hand-over, and record that this launch reads it now.

    An unbounded source is requested with that, so that it is supervised, and people can pause it.

    Called by a driver that has read the source before it to its end.

    Args:
        context: The pipeline and its state.
        launch_id: Id of this launch.
        name: Name of the next source.

    Returns:
        True if this driver may read the source. False if the hand-over or the record is refused:
        the reason is written to standard error, and the step that launches the source on its own is
        refused for the same reason.
    """
    try:
        for topic in context.pipeline.turn_of(name):
            if not isinstance(topic, KafkaSource):
                continue
            log = KafkaLog(topic)
            hand_over(context, topic, log)
            place = context.pipeline.place_of(topic.name)
            # What was read already, for the rows that a generation has taken over, may be deleted.
            if not offset_log.next_offsets(context.generation.checkpoint, place):
                require_sound(context, topic, log)
        record_switch(context.generation, launch_id, name)
        if context.pipeline.source(name).boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            # By this driver: who has launched it may have been killed since.
            request(context.generation, name, is_requested=True)
    except HybridError as error:
        sys.stderr.write(f"This driver ends without reading source `{name}`: {error}\n")
        return False
    return True
