"""Benchmark: time and memory to find the start offsets of a topic, by its number of partitions.

    python -m benchmarks.partitions

Uses a local broker, with topics of growing size that have a few records in each partition.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from benchmarks.record import record
from benchmarks.topics import deliver
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from sources.common.positions import EndPosition
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import SourceSwitchContext
from sources.kafka.client.consumer import QUIET
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.declared_start import factory_for

BEGIN_MS = 1_700_000_000_000
RECORDS = 3
STEP = 2_000


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1_000, 10_000])
    options = parser.parse_args()
    results = []
    with LocalBroker() as broker:
        for partitions in options.partitions:
            topic = f"wide-{partitions}"
            _create(broker.bootstrap_servers, topic, partitions)
            _fill(broker.bootstrap_servers, topic, partitions)
            result = _measure(broker.bootstrap_servers, topic, partitions)
            results.append(result)
            sys.stdout.write(f"{json.dumps(result)}\n")
            sys.stdout.flush()
    record("partitions", results)


def _create(servers: str, topic: str, partitions: int) -> None:
    """Create a topic in steps, because Kafka's controller refuses 10,000 partitions at once."""
    create_topic(servers, topic, min(partitions, STEP), {"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": servers}, logger=QUIET)
    for total in range(2 * STEP, partitions + STEP, STEP):
        request = NewPartitions(topic, min(total, partitions))
        admin.create_partitions([request], operation_timeout=60)[topic].result()
    while len(admin.list_topics(topic, timeout=60).topics[topic].partitions) < partitions:
        time.sleep(0.1)


def _fill(servers: str, topic: str, partitions: int) -> None:
    """Write records, one minute of record timestamp apart, into each partition of a topic.

    Raises:
        RuntimeError: The broker did not confirm all of them.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 100}, logger=QUIET)
    for number in range(RECORDS):
        for partition in range(partitions):
            timestamp_ms = BEGIN_MS + number * 60_000
            producer.produce(topic, b"{}", partition=partition, timestamp=timestamp_ms)
            producer.poll(0)
    deliver(producer)


def _measure(servers: str, topic: str, partitions: int) -> dict[str, float]:
    """Connect to a topic and find its start offsets by time; return durations and sizes."""
    source = KafkaSource(type="kafka", name="live", topic=topic, bootstrap_servers=servers)
    end = EndPosition(
        source="history",
        event_time_ms=BEGIN_MS + 60_000,
        complete_through_ms=BEGIN_MS + 60_000,
        event_times="exact",
        splits=1,
        rows=1,
    )
    before_mib = _peak_mib()
    started = time.monotonic()
    log = KafkaLog(source)
    opened = time.monotonic()
    start = factory_for(source, 0, lambda _: lambda _: None)(SourceSwitchContext(end, log))
    decided = time.monotonic()
    assert set(start.offsets().values()) == {1}
    return {
        "partitions": partitions,
        "open_s": round(opened - started, 3),
        "decide_s": round(decided - opened, 3),
        "document_bytes": len(start.model_dump_json()),
        "peak_mib_more": round(_peak_mib() - before_mib, 1),
    }


def _peak_mib() -> float:
    """Return the peak resident memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
