"""A broker whose silence ends a query is told by its address: nobody looks for memory or a disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sources.config.source.kafka_options import KafkaProperties
from sources.config.source.kafka_source import KafkaSource
from spark_jobs.inside.errors.silent_broker import silent_broker
from spark_jobs.inside.readers.topics.kafka_stream import stream_topics
from tests.services.network import Network

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def network() -> Iterator[Network]:
    # Behind it there is no broker, as nothing arrives.
    with Network(1) as made:
        made.silence()
        yield made


def test_a_broker_whose_silence_ends_a_query_is_named(
    spark: SparkSession, network: Network
) -> None:
    topic = KafkaSource(
        type="kafka",
        name="live",
        topic="orders",
        bootstrap_servers=f"127.0.0.1:{network.port}",
        # By default Spark waits for minutes.
        properties=KafkaProperties(
            java={"default.api.timeout.ms": "2000", "request.timeout.ms": "1000"}
        ),
    )
    writer = stream_topics(spark, topic, {}, 10).writeStream.format("noop")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
        writer.trigger(availableNow=True).start().awaitTermination()
    error = silent_broker(caught.value, [topic])
    assert error is not None
    assert (error.kind, error.transient) == ("unavailable", True)
    assert error.message.startswith(f"The Kafka broker 127.0.0.1:{network.port} can't be reached")
    assert silent_broker(ValueError("another failure"), [topic]) is None
