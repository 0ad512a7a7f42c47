"""What people see of repairs: a table of the status, and an action of captured tables only."""

from __future__ import annotations

from pathlib import Path

from hybrid_extensions.repair.dagster import actions
from hybrid_extensions.repair.status import status_part
from spark_jobs.run_state.repairs import Repair, Repairs
from tests.hybrid_extensions.repair.repair_case import VERSION, RepairCase
from tests.minimal import minimal_pipeline


def test_the_status_has_the_last_repairs(tmp_path: Path) -> None:
    case = RepairCase(tmp_path)
    context = case.table.context
    assert status_part(context.loaded).rows == []
    made = [
        Repair(
            id=str(number),
            begun_ms=0,
            version=VERSION,
            log_end="0",
            missing=1000,
            different=2,
            extra=3,
            # The last one was killed, before its commit or after it.
            table_version=None if number == 4 else number,
        )
        for number in range(5)
    ]
    context.generation.replace(Repairs.NAME, Repairs(repairs=made))
    found = status_part(context.loaded)
    assert [row.cells[1:] for row in found.rows] == [
        ("1,000", "2", "3", "2"),
        ("1,000", "2", "3", "3"),
        ("1,000", "2", "3", ""),
    ]
    assert found.is_healthy


def test_only_captured_tables_have_the_action(tmp_path: Path) -> None:
    assert list(actions(RepairCase(tmp_path).table.context.loaded)) == ["REPAIR"]
    files = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
    assert not actions(minimal_pipeline(tmp_path, files))
