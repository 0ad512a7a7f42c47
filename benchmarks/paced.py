"""A producer that writes records to a topic at a steady rate, each with its time of sending.

    python -m benchmarks.paced SERVERS TOPIC RATE SECONDS

Prints, as JSON, how many records were written, and the seconds that this took. A record has
``sent_us``, the producer's clock in microseconds since 1970 before the record was queued.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Producer

from benchmarks.topics import PARTITIONS, deliver, send

# Records are sent in bursts of this length, so that waiting costs the producer little.
_BURST_S = 0.01


def main() -> None:
    """Write the records that the command line asks for."""
    servers, topic, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    total, sent, begun = round(rate * seconds), 0, time.monotonic()
    while sent < total:
        due = min(total, round((time.monotonic() - begun + _BURST_S) * rate))
        now_us = time.time_ns() // 1000
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_us // 1_000_000))
        for n in range(sent, due):
            value = f'{{"id":{n},"at":"{at}","user":"user{n % 1000}","sent_us":{now_us}}}'
            send(producer, topic, value, partition=n % PARTITIONS)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(_BURST_S)
    deliver(producer)
    taken = time.monotonic() - begun
    sys.stdout.write(json.dumps({"records": sent, "seconds": round(taken, 3)}) + "\n")


if __name__ == "__main__":
    main()
