"""Which tables can't be repaired in place, and that they are refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.repair.table import require_repairable
from sources.errors import InputError, StateError
from tests.hybrid_extensions.repair.repair_case import RepairCase
from tests.minimal import minimal_pipeline

SOFT = {"deletes": "soft"}


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"mode": "append", "sequence": None, "deleted": None}, "it keeps every change"),
        ({**SOFT, "history": "_committed_at"}, r"every version of a row \(`sink.history`\)"),
        ({"sequence": "_lsn"}, "not the column that `include` fills with `position`"),
        ({"sequence": ["_committed_at", "_position"]}, "not the column that `include` fills"),
    ],
)
def test_what_a_snapshot_can_not_restore_is_refused_by_name(
    tmp_path: Path, sink: dict[str, Any], told: str
) -> None:
    case = RepairCase(tmp_path, **sink)
    with pytest.raises(StateError, match=f"`orders` can't be repaired in place: .*{told}") as error:
        require_repairable(case.table.context.loaded)
    assert "hybrid rerun P" in error.value.hint


def test_rules_that_leave_out_rows_are_refused(tmp_path: Path) -> None:
    case = RepairCase(tmp_path, rules={"long": "length(v) > 3"})
    with pytest.raises(StateError, match="`rules` or `sample` leave out rows"):
        require_repairable(case.table.context.loaded)


def test_a_table_whose_snapshot_is_still_being_read_is_refused_for_now(tmp_path: Path) -> None:
    case = RepairCase(tmp_path)
    with pytest.raises(StateError, match=r"`public.orders` can't be repaired yet") as error:
        require_repairable(case.table.context.loaded)
    assert error.value.transient


def test_a_pipeline_that_captures_no_table_is_refused(tmp_path: Path) -> None:
    files = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
    loaded = minimal_pipeline(tmp_path, files)
    (tmp_path / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    loaded.open_generation(create=True)
    with pytest.raises(InputError, match="captures no database table"):
        require_repairable(loaded)
