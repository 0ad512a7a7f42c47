"""Which tables can't be repaired in place, and that they are refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field

from hybrid_extensions.repair import repairable_table
from hybrid_extensions.repair.repairable_table import require_repairable
from sources.common.positions import StartPosition
from sources.errors import InputError, StateError
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import TransformAnalysis
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests.hybrid_extensions.repair.repair_case import RepairCase
from tests.minimal import minimal_pipeline


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"mode": "append", "sequence": None, "deleted": None}, "it keeps every change"),
        (
            {"deletes": "soft", "history": "_committed_at"},
            r"every version of a row \(`sink.history`\)",
        ),
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
    with pytest.raises(StateError, match="`rules` may leave out rows"):
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


def following(folder: Path) -> RepairCase:
    """A table whose snapshot is read, so that its changes are followed."""
    case = RepairCase(folder)
    start = StartPosition(source="changes", evidence="fixed", time_ms=None, partitions={})
    case.table.context.generation.replace("positions/changes-start.json", start)
    case.write((1, "a", None, 7))
    return case


@pytest.mark.parametrize(
    ("analysis", "told"),
    [
        ({"columns": []}, "`transform: transforms:identity` does more than to pass on rows"),
        ({"columns": [], "passed": ["id", "_position", "_lsn"]}, "does more than to pass on rows"),
        ({"columns": None, "warning": "It needs the table t."}, "is unknown: It needs the table t"),
    ],
)
def test_a_transform_is_refused_unless_it_is_known_to_pass_on_rows_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, analysis: dict[str, Any], told: str
) -> None:
    loaded = following(tmp_path).table.context.loaded
    found = TransformAnalysis(digest="d", **analysis)
    monkeypatch.setattr(repairable_table, "kept_declaration", lambda kept, _: kept)
    monkeypatch.setattr(PipelineContext, "plan", None)
    monkeypatch.setattr(TransformCheck, "current", lambda *_: found)
    with pytest.raises(StateError, match=told):
        require_repairable(loaded)
    passed = found.model_copy(
        update={"columns": [], "passed": ["v", "id", "_position", "_lsn"], "warning": None}
    )
    monkeypatch.setattr(TransformCheck, "current", lambda *_: passed)
    assert require_repairable(loaded).columns == {"id": "bigint", "v": "string"}


def test_a_column_that_the_database_does_not_have_is_refused(tmp_path: Path) -> None:
    case = following(tmp_path)
    DeltaTable(case.table.target.url).alter.add_columns(Field("made", "string"))
    with pytest.raises(StateError, match="makes the column `made`, which the database does not"):
        require_repairable(case.table.context.loaded)


def test_a_target_that_only_spark_may_write_is_refused(tmp_path: Path) -> None:
    case = following(tmp_path)
    DeltaTable(case.table.target.url).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(StateError, match="features, such as deletion vectors, that only Spark"):
        require_repairable(case.table.context.loaded)
