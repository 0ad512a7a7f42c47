"""Silent broker: Spark failures by a Kafka broker that did not answer in time."""

from __future__ import annotations

from typing import Any

from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, UnavailableError
from sources.kafka.client.address import resolve_bootstrap
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.errors.java_causes import (
    class_names,
    first_line,
    java_causes,
    none_without_jvm,
)
from spark_jobs.inside.errors.lost_records import lost_records

_RETRIABLE = "org.apache.kafka.common.errors.RetriableException"
_OF_SPARK = "org.apache.spark.sql.kafka010."
_TIMEOUT = "java.util.concurrent.TimeoutException"
_WAIT_S = 3.0
_HINT = (
    "Check that the broker runs, and can be reached from where Spark runs. The run resumes after "
    "its last commit: the supervision starts it again; without it, run `hybrid run P`."
)


@none_without_jvm
def silent_broker(error: BaseException, topics: list[KafkaSource]) -> HybridError | None:
    """Return the error about a broker whose silence has ended a query; None for other failures.

    Asks the broker, for some seconds, whether it is still silent: then the error says why. If it
    answers by now, the error has Spark's own reason. None, too, without topics, for records that
    are lost, and if the JVM is gone.

    Args:
        error: An exception of PySpark or Py4J.
        topics: The topics that the pipeline reads.
    """
    found = [cause for cause in java_causes(error) if _is_silence(cause)]
    if not found or not topics or lost_records(error) is not None:
        return None
    reason = first_line(found[-1])
    for topic in topics:
        try:
            KafkaLog(topic, _WAIT_S).log_end()
        except UnavailableError as unavailable:
            return unavailable
        except HybridError:
            # The next start says what it refuses.
            continue
    servers = ", ".join(sorted({resolve_bootstrap(each.bootstrap_servers) for each in topics}))
    message = f"The Kafka broker {servers} did not answer Spark in time: {reason}."
    return UnavailableError(message, _HINT, server=servers)


def _is_silence(cause: Any) -> bool:
    """Return whether Kafka's client gave up for now, or Spark's consumer got no record in time."""
    if _RETRIABLE in class_names(cause):
        return True
    frames = cause.getStackTrace()
    is_of_spark = len(frames) > 0 and frames[0].getClassName().startswith(_OF_SPARK)
    return bool(is_of_spark and cause.getClass().getName() == _TIMEOUT)
