"""Benchmark: windows of an hour from a table of ten minutes, beside the same from all raw rows.

    python -m benchmarks.longer_windows --rows 10000000

`hybrid run` computes three tables: windows of ten minutes from files; windows of an hour from these
files, as a rerun of such a table does; and windows of an hour from the first table, which is
followed. What each takes is measured with everything that it starts. Hours that have ended in both
tables of hours are then compared, row by row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import yaml

from benchmarks.history import COLUMNS, generate
from benchmarks.processes import adopt_orphans, cpu_s_of, processes_under
from benchmarks.record import record

_RUN = "from orchestration.cli.main import main; main()"
_SHOPS = 20
_MINUTES = f"""
SELECT window.start AS begin, id % {_SHOPS} AS shop,
    count(*) AS n, sum(id) AS total, max(value) AS high
FROM input GROUP BY window(at, '10 minutes'), id % {_SHOPS}
"""
_HOURS = """
SELECT window.start AS hour, shop, sum(n) AS n, sum(total) AS total, max(high) AS high
FROM input GROUP BY window(begin, '1 hour'), shop
"""
_RAW_HOURS = f"""
SELECT window.start AS hour, id % {_SHOPS} AS shop,
    count(*) AS n, sum(id) AS total, max(value) AS high
FROM input GROUP BY window(at, '1 hour'), id % {_SHOPS}
"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--folder", type=Path, help="where the data is made; removed at the end")
    options = parser.parse_args()
    # Drivers outlive the command that started them; so their CPU time is not lost.
    adopt_orphans()
    results = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-", dir=options.folder) as name:
            results.append({"rows": rows, **_measure(Path(name), rows)})
        sys.stdout.write(f"{json.dumps(results[-1])}\n")
        sys.stdout.flush()
    record("longer-windows", results)


def _measure(folder: Path, rows: int) -> dict[str, Any]:
    generate(folder / "in", rows, "parquet")
    declare(folder)
    minutes = _run(folder, "minutes")
    raw = _run(folder, "raw_hours")
    followed = _run(folder, "hours", "--until", "caught-up")
    return {
        "minutes": minutes,
        "hours from raw rows": raw,
        "hours from minutes": followed,
        "share of the time": round(followed["s"] / raw["s"], 3),
        "share of the CPU time": round(followed["cpu_s"] / raw["cpu_s"], 3),
        **compare(folder),
    }


def declare(folder: Path) -> None:
    """Write the files of the three pipelines, and their queries.

    Args:
        folder: Folder of the data, in the folder ``in`` of it.
    """
    files = {"name": "history", "type": "files", "path": "in", "format": "parquet"}
    table = {"name": "minutes", "type": "table", "pipeline": "minutes.yaml"}
    raw = {"event_time": "at", "key": ["id"], "sources": [{**files, "schema": COLUMNS}]}
    hours: dict[str, Any] = {
        "event_time": "begin",
        "key": ["begin", "shop"],
        "sources": [{**table, "discovery_interval": "1 s"}],
    }
    keys = {"minutes": "begin", "raw_hours": "hour", "hours": "hour"}
    queries = {"minutes": _MINUTES, "raw_hours": _RAW_HOURS, "hours": _HOURS}
    for name, query in queries.items():
        (folder / f"{name}.sql").write_text(query)
        reads = hours if name == "hours" else raw
        watermark = {"column": reads["event_time"], "delay": "10 minutes"}
        document = {
            "name": name,
            **reads,
            "transform": {"sql": f"{name}.sql", "watermark": watermark},
            "sink": {"path": name, "mode": "append", "key": [keys[name], "shop"]},
            "state": "state",
            "spark": {"conf": {"spark.sql.shuffle.partitions": "2"}},
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))


def _run(folder: Path, name: str, *options: str) -> dict[str, float]:
    """Run a pipeline to its end; return how long it took, and the CPU time of all processes."""
    command = [sys.executable, "-c", _RUN, "run", str(folder / f"{name}.yaml"), *options]
    begin, used_s = time.perf_counter(), _used_s()
    with (folder / f"{name}.log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise SystemExit((folder / f"{name}.log").read_text())
    took_s = time.perf_counter() - begin
    return {"s": round(took_s, 1), "cpu_s": round(_used_s() - used_s, 1)}


def _used_s() -> float:
    return cpu_s_of(processes_under(os.getpid()))


def compare(folder: Path) -> dict[str, int]:
    """Compare both tables of hours, for hours that have ended in both.

    Args:
        folder: Folder of the tables.

    Returns:
        Numbers of rows of the tables of minutes and of hours, and of rows that differ.
    """
    with duckdb.connect() as connection:

        def rows(query: str) -> int:
            return int(connection.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0])

        for name in ("minutes", "raw_hours", "hours"):
            files = f"read_parquet('{folder}/{name}/*.parquet')"
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {files}")
        ended = "hour <= (SELECT max(hour) FROM {other})"
        one, two = (
            f"SELECT hour, shop, n, total, high FROM {name} WHERE {ended.format(other=other)}"
            for name, other in (("raw_hours", "hours"), ("hours", "raw_hours"))
        )
        return {
            "rows of minutes": rows("FROM minutes"),
            "rows of hours": rows(f"FROM ({two})"),
            "different": rows(f"({one} EXCEPT ALL {two}) UNION ALL ({two} EXCEPT ALL {one})"),
        }


if __name__ == "__main__":
    main()
