"""Iceberg tables that Spark wrote: a run and the audit read the rows that Spark read then."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.records.table_reading import Rows, read_table
from tests.extensions import whole
from tests.hybrid_extensions.iceberg.recorded.place import recorded, unpack

pytestmark = [pytest.mark.e2e, pytest.mark.spark, whole]

RECORDED = recorded()
REFUSED = {"v2/uuid", "v3/variant"}
EVERY_TIME = {
    "column": "at",
    "not_before": "0001-01-01T00:00:00Z",
    "not_after": "9999-12-31T23:59:59.999999Z",
    "outside": "keep",
}


def as_json(rows: Rows) -> list[dict[str, Any]]:
    """Rows in the form that Spark recorded them in."""
    return [{name: _json(value) for name, value in row.items()} for row in rows]


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        # A map.
        return {name: _json(each) for name, each in value}
    if isinstance(value, list):
        return [_json(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


# Tables without rows are refused, as they have no end.
@pytest.mark.parametrize(
    "table", [name for name, found in RECORDED.items() if found.rows and name not in REFUSED]
)
def test_a_recorded_table_is_read_as_spark_read_it(
    tmp_path: Path, hybrid_spark: SparkSession, table: str
) -> None:
    path = str(unpack(tmp_path, table))
    found = read_table(
        hybrid_spark, tmp_path / "p", event_time=EVERY_TIME, format="iceberg", path=path
    )
    wanted = RECORDED[table].rows
    assert as_json(found.run) == wanted
    assert as_json(found.audit) == wanted
