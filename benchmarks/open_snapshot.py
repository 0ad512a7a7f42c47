"""Benchmark: how soon changes are in the table while its snapshot is still being read.

    python -m benchmarks.open_snapshot --rows 1000000 --chunk-rows 100000

PostgreSQL, Kafka and Debezium are real; the table is followed from its first chunk on (``follow:
while_reading``). All the time some rows a second of chunks that are read are changed. Seconds are
from the commit in the database to the commit of the Delta table, by the number of chunks that were
read when the row was changed; the last line is of the time after the table was whole. In the end
the table is compared with the database, row for row.
"""

from __future__ import annotations

import argparse
import bisect
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks.freshness import seen_rows
from benchmarks.processes import end_all
from benchmarks.record import record
from benchmarks.tables import open_tables
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.compare.compare_source import compare_with_source
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, Observer, Step, run_chain
from sources.planning.context import PipelineContext

_TABLE = "public.t000"
_VECTORS = {"delta.enableDeletionVectors": "true", "delta.autoOptimize.autoCompact": "true"}


class _Reading(Observer):
    """Notes when each chunk was read.

    Attributes:
        chunks: Number of chunks of the table; 0 before the first one is read.
        read_at: Times at which chunks were read, in s since 1970.
    """

    def __init__(self) -> None:
        self.chunks = 0
        self.read_at: list[float] = []

    def noted(self, step: Step[Any], text: str) -> None:
        """Note a chunk."""
        if (chunk := re.search(r": chunk (\d+) of (\d+)", text)) is not None:
            self.chunks = int(chunk[2])
            self.read_at.append(time.time())


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--chunk-rows", type=int, default=100_000, help="rows of a chunk")
    parser.add_argument("--rate", type=float, default=5.0, help="changed rows a second")
    parser.add_argument("--after", type=float, default=60.0, help="seconds after it is whole")
    parser.add_argument(
        "--vectors", action="store_true", help="mark rows as deleted in place of rewriting files"
    )
    parser.add_argument("--memory", default="2g", help="heap of the driver")
    options = parser.parse_args()
    options.tables, options.driver = 1, "own"
    options.properties = _VECTORS if options.vectors else {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-")))
        dsn, template = open_tables(
            stack,
            folder,
            options,
            options.rows,
            follow="while_reading",
            workers=1,
            chunk_rows=options.chunk_rows,
        )
        table_pipelines.find(template)
        loaded = template.load(_TABLE)
        stack.callback(end_all, [loaded])
        reading, is_over = _Reading(), threading.Event()
        changing = threading.Thread(target=_change, args=(dsn, options, reading, is_over))
        begun = time.time()
        changing.start()
        stack.callback(is_over.set)
        run_chain(ChainRun(loaded, reading, rest_requested=True))
        whole = time.time()
        is_over.wait(options.after)
        is_over.set()
        changing.join()
        wait_until_caught_up(PipelineContext.require(loaded))
        found: dict[int, list[float]] = defaultdict(list)
        for at, latency in seen_rows(loaded, 0):
            read = bisect.bisect(reading.read_at, at)
            found[reading.chunks + 1 if at > whole else read].append(latency)
        compared = compare_with_source(loaded)
        if not compared.ok:
            message = f"The target differs from the table: {compared.to_dict()}"
            raise RuntimeError(message)
    result = {
        "rows": options.rows,
        "vectors": options.vectors,
        "chunk rows": options.chunk_rows,
        "chunks": reading.chunks,
        "rate": options.rate,
        "first chunk after s": round(reading.read_at[0] - begun, 1),
        "all chunks read after s": round(reading.read_at[-1] - begun, 1),
        "whole after s": round(whole - begun, 1),
        "rows compared": compared.rows,
        "freshness": [
            {
                "chunks read": read if read <= reading.chunks else "whole",
                "changes": len(of_chunk),
                "p50 s": round(float(np.percentile(of_chunk, 50)), 2),
                "p99 s": round(float(np.percentile(of_chunk, 99)), 2),
            }
            for read, of_chunk in sorted(found.items())
        ],
    }
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    record(f"open-snapshot-{options.rows}{'-vectors' if options.vectors else ''}", result)


def _change(
    dsn: str, options: argparse.Namespace, reading: _Reading, is_over: threading.Event
) -> None:
    """Change rows of chunks that are read, each in a transaction of its own."""
    chance = random.Random(1)
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not is_over.wait(1 / options.rate):
            if reading.chunks:
                last = options.rows * len(reading.read_at) // reading.chunks
                connection.execute(
                    f"UPDATE {_TABLE} SET amount = amount + 1, at = now() WHERE id = %s",
                    [chance.randint(1, last)],
                )


if __name__ == "__main__":
    main()
