"""Where a seam ends: from which offset on no record can be in the history before the topic.

Rows of the topic before its end are compared with history; from it on they need no comparison. It
is decided with what is read of the source before, and kept with that: in the plan and the rounds of
files, in the range of a topic.
"""

from __future__ import annotations

from sources.common.positions import Offsets
from sources.kafka.client.kafka_log import KafkaLog


def seam_end_now(topic: KafkaLog) -> Offsets:
    """Return the end of the seam if all of history was listed, or had its end decided, before now.

    It is the high watermark: records of transactions that are still open are before it, and may be
    in history, too. What is appended later is in no file that was listed, and in no range of
    another topic whose end was decided. Look-ups that were made before lack partitions added
    since, which files may have.

    Args:
        topic: Look-ups on the topics that follow.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    return topic.high_watermark()


def seam_end_after_range(ends: Offsets, before: Offsets) -> Offsets:
    """Return the end of the seam after a range of the same topics, which is read up to ``ends``.

    Nothing from there on is in the range; but the sources before it may have had more than that.

    Args:
        ends: First offset of each partition that the range does not have.
        before: End of the seam between the range and the sources before it; empty if there are
            none.
    """
    return {partition: max(offset, before.get(partition, 0)) for partition, offset in ends.items()}
