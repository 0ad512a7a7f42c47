"""Before a switch: what the live query needs is loaded, compiled and looked up meanwhile.

While history is read, a few records of the topic go through what will read them, into nothing. So
the first live micro-batch meets a JVM that has seen it all, keys of history that are kept, and
rows that are made. Another driver than this one will at least find the keys, which would cost a
JVM that has just started seconds. Whatever goes wrong here is met again, and told, where it counts.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from spark_jobs.query.streaming_query import Prepared, Query

_POLL_S = 0.2
_log = logging.getLogger("hybrid.rehearsal")


@dataclass
class Ahead:
    """What comes after the last bounded source.

    Attributes:
        live: The topic.
        is_same_driver: Whether the one that reads the bounded source goes on with it.
        prepared: Its rows, as the live query will need them, once they are made.
    """

    live: KafkaSource
    is_same_driver: bool
    prepared: Prepared | None = None


@contextmanager
def rehearsal(query: Query, ahead: Ahead | None) -> Iterator[None]:
    """Rehearse the live query beside the one that reads history.

    Args:
        query: The running one, of the last bounded source.
        ahead: What comes next; None if that is nothing to rehearse for.
    """
    stop = threading.Event()
    if ahead is not None:
        threading.Thread(target=_rehearse, args=(query, ahead, stop), daemon=True).start()
    try:
        yield
    finally:
        # Not joined: nobody waits for it once it is too late.
        stop.set()


def _rehearse(query: Query, ahead: Ahead, stop: threading.Event) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        shadow = Generation(Path(name), query.generation.info)
        try:
            if not ahead.is_same_driver:
                query.keep_seam_keys(ahead.live)
                return
            running = (
                query.rehearsal(ahead.live, shadow)
                .writeStream.format("noop")
                .queryName(f"rehearsal of {ahead.live.name}")
                .option("checkpointLocation", str(shadow.checkpoint))
                # One micro-batch, at once.
                .trigger(processingTime="1 day")
                .start()
            )
            while running.isActive and running.lastProgress is None and not stop.wait(_POLL_S):
                pass
            running.stop()
            ahead.prepared = query.prepare(ahead.live)
        except Exception:
            _log.info("not rehearsed", exc_info=True)
