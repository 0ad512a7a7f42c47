"""A real Feast reads what was exported: its training rows are those of `hybrid training`."""

from __future__ import annotations

import json
import random
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from hybrid_extensions.training.columns import Asked
from hybrid_extensions.training.point_in_time import training_set
from tests.command_line import invoke
from tests.hybrid_extensions.feast.installed import install
from tests.minimal import minimal_pipeline

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("start", TIME),
        ("shop", pa.string()),
        ("n", pa.int64()),
        ("mean", pa.float64()),
        ("known_at", TIME),
    ]
)


@pytest.mark.slow
def test_training_rows_of_feast_are_those_of_hybrid_training(tmp_path: Path) -> None:
    programs = install()
    chosen = random.Random(7)
    rows = []
    for hour in range(200):
        for shop in "abcde":
            known = hour + 1 + chosen.choice([0, 0, 3])
            at = BEGIN + timedelta(hours=known)
            rows.append((BEGIN + timedelta(hours=hour), shop, hour, chosen.random(), at))
    made = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    write_deltalake(tmp_path / "out", pa.Table.from_pylist(made, SCHEMA))
    loaded = minimal_pipeline(
        tmp_path,
        {"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"},
        transform="shop:rows",
        event_time="start",
        sink={"path": "out", "mode": "append", "key": ["start", "shop"]},
    )
    asked = [
        {
            "shop": chosen.choice("abcdef"),
            "event_timestamp": BEGIN + timedelta(minutes=chosen.randrange(-600, 15_000)),
            "label": n,
        }
        for n in range(1_000)
    ]
    labels = pa.Table.from_pylist(asked, pa.schema([("shop", pa.string()),
                                                    ("event_timestamp", TIME),
                                                    ("label", pa.int64())]))  # fmt: skip
    pq.write_table(labels, tmp_path / "labels.parquet")
    repository = tmp_path / "repo"
    result = invoke(["export", "feast", str(loaded.path), "--out", str(repository), "--json"])
    assert (result.exit_code, json.loads(result.stdout)["notes"]) == (0, [])
    _run([str(programs / "feast"), "-c", str(repository), "apply"], tmp_path)
    script = Path(__file__).with_name("ask_feast.py")
    words = [str(programs / "python"), str(script), str(repository)]
    words += [str(tmp_path / "labels.parquet"), str(tmp_path / "rows.parquet"), "orders"]
    served = json.loads(_run([*words, "start", "n", "mean"], tmp_path).splitlines()[-1])
    ours = training_set(loaded, labels, Asked(time="event_timestamp")).rows
    columns = ["label", "start", "n", "mean"]
    found = pq.read_table(tmp_path / "rows.parquet", columns=columns).sort_by("label")
    expected = ours.select(columns).sort_by("label")
    assert [_plain(row) for row in found.to_pylist()] == [
        _plain(row) for row in expected.to_pylist()
    ]
    assert 0 < expected["n"].null_count < len(expected)
    last = [max(row[4:] + row[:1] + row[2:4] for row in rows if row[1] == shop) for shop in "ab"]
    assert served["n"] == [row[2] for row in last]
    assert served["mean"] == [row[3] for row in last]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Arrow: pandas has no integers that may be null, and no zones."""
    nothing = row["n"] is None or row["n"] != row["n"]
    start = None if nothing else row["start"].replace(tzinfo=None)
    return row | {"start": start, "n": None if nothing else int(row["n"]),
                  "mean": None if nothing else row["mean"]}  # fmt: skip


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
