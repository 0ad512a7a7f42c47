"""Benchmark: transactions of very many rows in a captured table.

    python -m benchmarks.transaction --rows 1000000

PostgreSQL, Kafka and Debezium are real. One transaction inserts all rows, the next one updates each
of them. Seconds are from the commit until the topic, and the target, have all of it; the target is
then compared with the table, row for row. Memory is the highest of the driver's processes (PSS),
looked at each second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.processes import cpu_s, end_all, groups_of, memory_mb
from benchmarks.record import record
from benchmarks.tables import go_live, open_tables
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.compare.compare_source import compare_with_source
from orchestration.catch_up import wait_until_caught_up
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext

_TABLE = "public.t000"
_FIRST = 1_000_000
_STATEMENTS = {
    "insert": (
        f"INSERT INTO {_TABLE} SELECT n, n / 7.0, md5(n::text), now() "
        f"FROM generate_series({_FIRST} + 1, {_FIRST} + {{rows}}) n"
    ),
    "update": f"UPDATE {_TABLE} SET amount = amount + 1, at = now() WHERE id > {_FIRST}",
}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a transaction")
    parser.add_argument("--memory", default="2g", help="heap of the driver")
    options = parser.parse_args()
    options.tables, options.driver = 1, "shared"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-")))
        dsn, template = open_tables(stack, folder, options)
        table_pipelines.copy(template, lambda _line: None)
        loaded = template.load(_TABLE)
        stack.callback(end_all, [loaded])
        go_live(loaded)
        found = [
            {"transaction": name, **_measure(dsn, loaded, statement, options.rows)}
            for name, statement in _STATEMENTS.items()
        ]
        compared = compare_with_source(loaded)
        if not compared.ok:
            message = f"The target differs from the table: {compared.to_dict()}"
            raise RuntimeError(message)
    result = {"rows": options.rows, "heap": options.memory, "transactions": found}
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    record(f"transaction-{options.rows}", result)


def _measure(dsn: str, loaded: LoadedPipeline, statement: str, rows: int) -> dict[str, Any]:
    """Commit a transaction, and wait until the target has it."""
    groups = groups_of([loaded])
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    log = KafkaLog(source)
    whole = sum(log.log_end().values()) + rows
    highest, arrived, is_over = [0], [0.0], threading.Event()

    def watch() -> None:
        while not is_over.wait(1.0):
            highest[0] = max(highest[0], memory_mb(groups))
            if not arrived[0] and sum(log.log_end().values()) >= whole:
                arrived[0] = time.monotonic()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            begun, cpu = time.monotonic(), cpu_s(groups)
            connection.execute(statement.format(rows=rows))
        committed = time.monotonic()
        wait_until_caught_up(PipelineContext.require(loaded))
        ended = time.monotonic()
    finally:
        is_over.set()
        watching.join()
    return {
        "in the database s": round(committed - begun, 1),
        "in the topic after s": round(arrived[0] - committed, 1),
        "in the target after s": round(ended - committed, 1),
        "cpu s of the driver": round(cpu_s(groups) - cpu, 1),
        "memory MB": highest[0],
    }


if __name__ == "__main__":
    main()
