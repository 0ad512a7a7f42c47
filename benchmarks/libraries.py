"""Our own decoders and log writer against the libraries that do the same (docs/libraries.md).

    pip install ptars==0.0.25 pyruhvro==0.4.0
    python -m benchmarks.libraries protobuf
    python -m benchmarks.libraries avro
    python -m benchmarks.libraries plan-log

The libraries only do their own part, so what checks their results would cost comes on top. Both
sides take turns in one process, on the records of a micro-batch: 10,000 of four fields each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from benchmarks.session import in_turns, report
from benchmarks.topics import COLUMNS, MESSAGE, SCHEMA, Form, descriptors, encoder, event_class
from hybrid_extensions.avro.decoder import AvroReader
from hybrid_extensions.protobuf.decoder import ProtobufReader
from sources.common.schema import parse_schema
from sources.storage.folder import Folder
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog, versions_of

_RECORDS = 10_000
_REPEATS = 20
_FILES = 100_000


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["protobuf", "avro", "plan-log"])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    sides = {"protobuf": _protobuf, "avro": _avro, "plan-log": _plan_log}[options.what]()
    rows, repeats = (_FILES, 1) if options.what == "plan-log" else (_RECORDS, _REPEATS)
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(options.rounds + 1):  # the first one warms up
        for name in in_turns(list(sides), round_):
            started = time.perf_counter()
            for _ in range(repeats):
                sides[name]()
            if round_:
                speeds[name].append(rows * repeats / (time.perf_counter() - started))
    report(f"libraries-{options.what}", speeds, "project", rows)


def _records(form: Form) -> pa.BinaryArray:
    encode = encoder(form)
    rows = (
        {"id": n, "at": datetime(2024, 1, 1 + n % 28, tzinfo=UTC), "user": f"user{n}", "value": 0.5}
        for n in range(_RECORDS)
    )
    return pa.array([encode(row) for row in rows], pa.binary())


def _protobuf() -> dict[str, Callable[[], Any]]:
    from ptars import HandlerPool, PtarsConfig  # type: ignore[import-not-found]  # noqa: PLC0415

    values, columns = _records("protobuf"), parse_schema(COLUMNS)
    reader = ProtobufReader(descriptors(), MESSAGE, framed=False)
    message = event_class().DESCRIPTOR
    pool = HandlerPool([message.file], config=PtarsConfig(timestamp_unit="us"))
    decode = partial(pool.get_for_message(message).array_to_record_batch, values)
    return {"project": partial(reader.rows, values, columns), "ptars": decode}


def _avro() -> dict[str, Callable[[], Any]]:
    import pyruhvro  # type: ignore[import-not-found]  # noqa: PLC0415

    values, columns = _records("avro"), parse_schema(COLUMNS)
    reader = AvroReader(fastavro.parse_schema(SCHEMA), None)
    text = json.dumps(SCHEMA)
    return {
        "project": partial(reader.rows, values, columns),
        # It takes a list.
        "pyruhvro": lambda: pyruhvro.deserialize_array(values.to_pylist(), text),
    }


def _plan_log() -> dict[str, Callable[[], Any]]:
    columns = parse_schema(COLUMNS)
    entries = [Entry(f"file:///in/{n:07}.parquet", 1000 + n) for n in range(_FILES)]
    versions = versions_of(_FILES)

    def ours(folder: Path) -> None:
        for version, (first, stop) in enumerate(versions):
            PlanLog(Folder(folder)).write(version, FilesOfLog(columns), entries[first:stop])

    def delta_rs(folder: Path) -> None:
        schema, table = Schema.from_arrow(columns), None
        for first, stop in versions:
            adds = [
                AddAction(each.path, each.size, {}, 0, True, "{}") for each in entries[first:stop]
            ]
            if table is None:
                create_table_with_add_actions(str(folder), schema, adds)
                table = DeltaTable(str(folder))
            else:
                table.create_write_transaction(adds, "append", schema)

    return {"project": partial(_in_a_folder, ours), "delta-rs": partial(_in_a_folder, delta_rs)}


def _in_a_folder(write: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hybrid-bench-"))
    try:
        write(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
