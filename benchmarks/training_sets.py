"""Benchmark: a training set of ten tables, each with as many rows as there are labels.

    python -m benchmarks.training_sets --labels 1000000 3000000 10000000

Ten labels share a key. `hybrid training` computes the set in a process of its own, whose memory is
looked at twice a second, with that of all processes that it starts. Of some keys each label is then
compared with a search through all rows of these keys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import yaml
from deltalake import write_deltalake

from benchmarks.processes import cpu_s_of, memory_mb_of, processes_under
from benchmarks.record import record

TABLES = 10
DAYS = 30
_SAMPLE_KEYS = 200
_LOOK_S = 0.5
_ROWS = 100_000
_BEGIN = "TIMESTAMPTZ '2024-01-01 00:00:00Z'"
_RUN = "from orchestration.cli.main import main; main()"
# Of the label or row n: which key it has, and when it is asked or known.
_NUMBERS = (
    "SELECT (hash(n, {name}) % {keys})::BIGINT AS user_id, {begin} + "
    "to_microseconds((n * {step} + hash({name}, n) % {step})::BIGINT) AS {time}, {value} "
    "FROM range({labels}) AS numbers(n)"
)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--folder", type=Path, help="where the data is made; removed at the end")
    options = parser.parse_args()
    results = []
    for labels in options.labels:
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-", dir=options.folder) as name:
            make_data(Path(name), labels)
            results.append({"labels": labels, **_compute(Path(name)), **compare(Path(name))})
        sys.stdout.write(f"{json.dumps(results[-1])}\n")
        sys.stdout.flush()
    record("training_sets", results)


def make_data(folder: Path, labels: int) -> None:
    """Write labels of a month, ten tables with as many rows each, and the pipeline's file.

    Args:
        folder: An empty folder.
        labels: Number of labels.
    """
    step = DAYS * 86_400 * 1_000_000 // labels
    given = {"keys": max(labels // 10, 1), "begin": _BEGIN, "step": step, "labels": labels}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET memory_limit = '2GB'")
        connection.execute(f"SET temp_directory = '{folder}/spilled'")
        query = _NUMBERS.format(name="'label'", time="asked_at", value="n AS label_id", **given)
        connection.execute(f"COPY ({query}) TO '{folder}/labels.parquet'")
        for number in range(TABLES):
            value = f"(hash(n, {number}) % 1000000)::BIGINT AS v"
            query = _NUMBERS.format(name=number, time="known_at", value=value, **given)
            reader = connection.sql(query).to_arrow_reader(_ROWS)
            write_deltalake(folder / f"table_{number}", reader)
    tables = [
        {
            "name": f"t{number}",
            "path": f"table_{number}",
            "key": ["user_id"],
            "known_at": "known_at",
            "columns": ["v"],
        }
        for number in range(TABLES)
    ]
    times = {"time": "asked_at", "by": "day", "start": "2024-01-01"}
    keys = ["user_id", "label_id"]
    document = {
        "name": "orders",
        "event_time": "at",
        "sources": [{"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"}],
        "transform": "none:none",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "training_sets": [
            {
                "name": "big",
                "labels": {"path": "labels.parquet", "key": keys, **times},
                "tables": tables,
                "path": "set",
            }
        ],
    }
    (folder / "orders.yaml").write_text(yaml.safe_dump(document))


def _compute(folder: Path) -> dict[str, Any]:
    """Compute the set; return how long it took, and what memory it had at its peak, in MB."""
    command = [sys.executable, "-c", _RUN, "training", str(folder / "orders.yaml")]
    begin, peak_mb, used_s = time.perf_counter(), 0, 0.0
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while process.poll() is None:
            pids = processes_under(process.pid)
            peak_mb = max(peak_mb, memory_mb_of(pids))
            used_s = max(used_s, cpu_s_of(pids))
            time.sleep(_LOOK_S)
    if process.returncode:
        raise SystemExit((folder / "log").read_text())
    took_s = round(time.perf_counter() - begin, 1)
    return {"s": took_s, "cpu_s": round(used_s, 1), "peak_mb": peak_mb}


def compare(folder: Path) -> dict[str, int]:
    """Compare the rows of some keys with a search through all rows of the tables.

    Args:
        folder: Folder of the labels, the tables and the set.

    Returns:
        Numbers of rows of the set, of compared values, and of those that differ.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET memory_limit = '2GB'")
        rows_of = f"FROM read_parquet('{folder}/set/**/*.parquet', hive_partitioning = false)"
        (rows,) = connection.execute(f"SELECT count(*) {rows_of}").fetchall()[0]
        some = f"WHERE user_id < {_SAMPLE_KEYS}"
        values = ", ".join(f"t{number}__v" for number in range(TABLES))
        found = connection.execute(
            f"SELECT user_id, asked_at, label_id, {values} {rows_of} {some}"
        ).fetchall()
        known: list[Mapping[int, list[tuple[Any, int]]]] = []
        for number in range(TABLES):
            by_key: dict[int, list[tuple[Any, int]]] = defaultdict(list)
            files = f"read_parquet('{folder}/table_{number}/*.parquet')"
            query = f"SELECT user_id, known_at, v FROM {files} {some}"
            for user, at, value in connection.execute(query).fetchall():
                by_key[user].append((at, value))
            known.append(by_key)
        labels = f"FROM '{folder}/labels.parquet' {some}"
        (asked,) = connection.execute(f"SELECT count(*) {labels}").fetchall()[0]
    different = abs(asked - len(found)) * TABLES
    for user, asked_at, _, *taken in found:
        for rows_of_key, value in zip(known, taken, strict=True):
            before = (row for row in rows_of_key.get(user, []) if row[0] <= asked_at)
            different += value != max(before, default=(None, None))[1]
    return {"rows": rows, "compared": len(found) * TABLES, "different": different}


if __name__ == "__main__":
    main()
