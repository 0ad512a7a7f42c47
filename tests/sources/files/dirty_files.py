"""History files of every format in which some rows have an impossible event time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc

from tests.extensions import skip_without

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FUTURE = datetime(2099, 6, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
WRONG = (FUTURE, EPOCH, YEAR_ONE)

Times = Sequence[datetime | None]
FORMATS: Mapping[str, Mapping[str, Any]] = {
    "parquet": {"format": "parquet"},
    "delta": {"format": "delta"},
    "json": {"format": "json", "schema": {"id": "bigint", "at": "timestamp"}},
    "csv": {"format": "csv", "schema": {"id": "bigint", "at": "timestamp"}},
    "avro": {"format": "avro"},
    "orc": {"format": "orc"},
    "text": {
        "format": "text",
        "select": {
            "id": "CAST(substring(value, 26) AS bigint)",
            "at": "try_cast(substring(value, 1, 24) AS timestamp)",
        },
    },
}
"""Fields of a source's declaration, by name of the format."""


def minute(number: int) -> datetime:
    """A right event time."""
    return NOON + timedelta(minutes=number)


def write_files(folder: Path, form: str, files: Sequence[Times]) -> None:
    """Write a folder ``in`` with one file for each sequence of event times; ids count from 0."""
    skip_without(form)
    (folder / "in").mkdir(exist_ok=True)
    first = 0
    for number, times in enumerate(files):
        ids = list(range(first, first + len(times)))
        first += len(times)
        path = folder / "in" / f"{number}.{form}"
        table = pa.table({"id": pa.array(ids, pa.int64()), "at": _timestamps(times)})
        if form == "parquet":
            pq.write_table(table, path)
        elif form == "delta":
            write_deltalake(folder / "in", table, mode="append")
        elif form == "orc":
            orc.write_table(table.set_column(1, "at", _timestamps(times, "ns")), path)
        elif form == "avro":
            _write_avro(path, ids, times)
        elif form == "csv":
            pa_csv.write_csv(table.set_column(1, "at", pa.array([_text(at) for at in times])), path)
        else:
            _write_lines(path, form, ids, times)


def _timestamps(times: Times, unit: str = "us") -> pa.Array:
    return pa.array(times, pa.timestamp(unit, "UTC"))


def _text(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def _write_lines(path: Path, form: str, ids: Sequence[int], times: Times) -> None:
    rows = zip(ids, times, strict=True)
    if form == "json":
        lines = [json.dumps({"id": number, "at": _text(at)}) for number, at in rows]
    else:
        lines = [f"{_text(at)} {number}" for number, at in rows]
    path.write_text("\n".join(lines) + "\n")


def _write_avro(path: Path, ids: Sequence[int], times: Times) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        ],
    }
    rows = [{"id": number, "at": at} for number, at in zip(ids, times, strict=True)]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)


def raw_rows(folder: Path, form: str) -> list[tuple[int, datetime | None]]:
    """Return all rows of the files as they were written: id and event time, by other readers."""
    rows: list[tuple[int, datetime | None]] = []
    if form == "delta":
        return _pairs(DeltaTable(folder / "in").to_pyarrow_table())
    for path in sorted((folder / "in").iterdir()):
        if form == "orc":
            rows += _pairs(orc.read_table(path))
        elif form == "avro":
            with path.open("rb") as file:
                rows += [(row["id"], row["at"]) for row in _records(file)]
        elif form == "text":
            lines = [line.split() for line in path.read_text().splitlines()]
            rows += [(int(number), datetime.fromisoformat(at)) for at, number in lines]
        else:
            reader = {"json": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[form]
            kinds = {"json": ", format='newline_delimited'"}.get(form, "")
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                query = f'SELECT id, "at"::TIMESTAMPTZ AS "at" FROM {reader}(\'{path}\'{kinds})'
                rows += _pairs(connection.sql(query).to_arrow_table())
    return rows


def _pairs(table: pa.Table) -> list[tuple[int, datetime | None]]:
    at = table["at"].cast(pa.timestamp("us", "UTC"), safe=False)
    return list(zip(table["id"].to_pylist(), at.to_pylist(), strict=True))


def _records(file: IO[bytes]) -> list[dict[str, Any]]:
    return [row for row in fastavro.reader(file) if isinstance(row, dict)]
