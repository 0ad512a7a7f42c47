"""The warm switch: the driver that has finished a bounded source goes on with the next one.

It makes the hand-over as the ``SourceFactory`` step would, and that step then finds it made. So the
gap between history's last commit and the first live batch holds no start of Spark.
"""

from __future__ import annotations

import sys

from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.kafka.client import KafkaLog
from sources.planning.context import PipelineContext
from spark_jobs.launch.record import record_switch


def switch(loaded: LoadedPipeline, generation: Generation, launch_id: str, name: str) -> bool:
    """Hand over to a source, and write down that this launch goes on with it.

    Returns:
        False if that is refused. The steps that follow are refused likewise, and tell people.
    """
    source = loaded.pipeline.source(name)
    try:
        if isinstance(source, KafkaSource):
            context, log = PipelineContext(loaded, generation), KafkaLog(source)
            hand_over(context, source, log)
            require_sound(context, source, log)
        record_switch(generation, launch_id, name)
    except HybridError as error:
        sys.stderr.write(f"Not gone on with `{name}`: {error}\n")
        return False
    return True
