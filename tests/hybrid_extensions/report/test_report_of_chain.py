"""The report of a chain that really ran: what it says is counted again without it."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from orchestration.operations import chain_plan
from tests.e2e.case import Case, run_through, wrong
from tests.hybrid_extensions.report.page_case import page_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_a_report_agrees_with_an_independent_count_also_without_its_broker(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    chain_plan.plan(loaded)
    planned = page_of(loaded.path)
    assert "The hand-over is not made yet" in planned.sections["seam"]
    assert "There is no table" in planned.sections["places"]
    assert wrong(run_through(loaded)) == {}
    page = page_of(loaded.path, "--audit")

    query = "SELECT count(*), count(DISTINCT filename) FROM read_parquet('{}', filename = true)"
    connection = duckdb.connect()
    files = connection.execute(query.format(tmp_path / "in" / "*.parquet")).fetchall()[0]
    size = sum(file.stat().st_size for file in (tmp_path / "in").iterdir())
    read = page.numbers_of("read", 1)
    assert (read[0], read[1]) == (files[1], files[0])
    assert abs(float(page.rows["read"][1][3].removesuffix(" kB")) * 1000 - size) < 100
    assert page.rows["read"][2][1] == f"{case.topic} at {servers}"

    # Of the topic, the offsets are the records: none is a transaction's.
    ledger = [row for row in page.rows["seam"][1:] if len(row) == 11]
    assert [row[:2] for row in ledger] == [[case.topic, "0"], [case.topic, "1"]]
    starts = [int(row[3].replace(",", "")) for row in ledger]
    seam = [page.numbers_of("seam", at + 1) for at in range(2)]
    for start, (offsets, rows, _) in zip(starts, seam, strict=True):
        assert offsets == rows == 750 - start
    # Event n is in partition n mod 2, and the topic begins with event 500.
    both = connection.execute(
        f"SELECT count(*) FROM read_parquet('{tmp_path}/in/*.parquet') WHERE id >= 500 "
        f"AND (id - 500) // 2 >= CASE id % 2 WHEN 0 THEN {starts[0]} ELSE {starts[1]} END"
    ).fetchall()[0][0]
    assert sum(removed for _, _, removed in seam) == both
    assert all("first record at or after" in row[4] for row in ledger)

    connection.register("made", DeltaTable(tmp_path / "out").to_pyarrow_table())
    rows = connection.execute("SELECT count(*) FROM made").fetchall()
    assert page.rows["audit"][1][:3] == [f"{rows[0][0]:,}", f"{rows[0][0]:,}", "0"]
    assert page.sections["audit"].startswith("Audit passed")

    text = loaded.path.read_text()
    loaded.path.write_text(re.sub(re.escape(servers), "127.0.0.1:1", text))
    away = page_of(loaded.path)
    assert "its broker does not answer" in away.sections["status"]
    assert away.rows["seam"] == page.rows["seam"]
    assert away.sections["audit"].startswith("Audit passed")
