"""The commands about cuts: what they answer, and what they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cuts.table import Cut, TableVersion, append_cut
from sources.storage.folder import Folder
from tests.command_line import invoke
from tests.hybrid_extensions.cuts.test_members import declared

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def run(*words: object) -> tuple[int, str]:
    answer = invoke([str(word) for word in words])
    return answer.exit_code, " ".join(answer.output.split())


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A pipeline whose table is in cut 1, at noon."""
    write_deltalake(str(tmp_path / "out/orders"), pa.table({"id": [1]}))
    tables = {"public.orders": TableVersion(str(tmp_path / "out/orders"), 0)}
    append_cut(Folder(tmp_path / "cuts"), Cut(1, "0/16B3748", NOON, tables))
    return declared(tmp_path, "orders")


def test_the_last_cut_is_shown(orders: Path) -> None:
    status, text = run("cut", orders)
    assert status == 0
    assert "cut 1 of 2026-01-31 12:00" in text.replace("T", " ")
    status, text = run("cut", orders, "--at", "2026-01-31T13:30:00+01:00", "--json")
    assert status == 0
    document = json.loads(text)
    assert document["position"] == "0/16B3748"
    assert document["tables"]["public.orders"]["version"] == 0


def test_the_path_of_a_table_is_shown_whole_at_80_columns(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = str(orders.parent / "a long name of a folder" / "of a lake" / "orders" / ("o" * 60))
    write_deltalake(path, pa.table({"id": [1]}))
    tables = {"public.orders": TableVersion(path, 0)}
    append_cut(Folder(orders.parent / "cuts"), Cut(2, "0/16B3750", NOON, tables))
    status, text = run("cut", orders)
    assert status == 0
    assert path.replace(" ", "") in text.replace(" ", "")


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("2026-01-31T11:59:59Z", "No cut is as early as 2026-01-31T11:59:59"),
        ("noon", "`--at noon` is not a time"),
        (
            "2026-01-31T12:00:00",
            "needs a time zone. Nothing was changed. Write 2026-01-31T12:00:00Z for UTC",
        ),
        (
            "2026-01-31",
            "needs a time zone. Nothing was changed. Write 2026-01-31T00:00:00Z for UTC",
        ),
    ],
)
def test_a_time_without_a_cut_is_refused(orders: Path, at: str, told: str) -> None:
    status, text = run("cut", orders, "--at", at)
    assert status == 2
    assert told in text


def test_a_pipeline_that_never_ran_has_no_cuts_to_publish(tmp_path: Path) -> None:
    status, text = run("publish-cuts", declared(tmp_path, "lines"), "--once")
    assert status == 2
    assert "Pipeline `lines` has no state" in text
    status, text = run("cut", declared(tmp_path, "lines"))
    assert status == 2
    assert "There is no cut in" in text
