"""Lost records: Spark failures by a topic that is gone, or lacks records that were not read."""

from __future__ import annotations

from sources.errors import RunError
from spark_jobs.inside.errors.java_causes import first_line, java_causes, none_without_jvm

_GONE = (
    "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
    "org.apache.kafka.common.errors.UnknownTopicIdException",
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
    # Under `failOnDataLoss`.
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
)
_HINT = (
    "It was deleted or created again, or records were deleted before they were read. The "
    "supervision starts the run again; without it, run `hybrid run P`. The start compares the "
    "topic with what was read: it resumes after the last commit, or says what is lost and what to "
    "do."
)


@none_without_jvm
def lost_records(error: BaseException) -> RunError | None:
    """Return the error about records that a topic has lost, or a lost topic; None for any other.

    None, too, if the JVM is gone. The error is transient: what exactly is lost is known to the
    checks of the next start, which refuse it.

    Args:
        error: An exception of PySpark or Py4J.
    """
    found = [each for each in java_causes(error) if each.getClass().getName() in _GONE]
    if not found:
        return None
    message = (
        "Spark can't go on with the topic, or a partition of it, so the run ended: "
        f"{first_line(found[-1])}."
    )
    return RunError(message, _HINT, transient=True)
