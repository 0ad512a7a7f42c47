"""The audit: input that can't be proved is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hybrid_extensions.audit.readers.file_views import AuditFiles
from hybrid_extensions.audit.readers.text_rows.csv_rows import csv_rows
from sources.errors import InputError, UnavailableError
from sources.formats.csv_options import CsvOptions
from tests.hybrid_extensions.audit.audit_case import COLUMNS, SCHEMA, Case, row

ROWS = [row(number) for number in range(5)]
MERGE = {"path": "table", "mode": "merge", "key": ["id", "origin"]}

NO_VERDICT = "Nothing was changed, and there is no verdict."


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Good as it is."""
    case = Case(tmp_path)
    case.history(ROWS)
    case.late(ROWS)
    case.target(ROWS)
    return case


def refusal(case: Case, **changed: Any) -> str:
    with pytest.raises((InputError, UnavailableError)) as caught:
        case.audit(**changed)
    return str(caught.value)


def test_errors_name_what_they_are_about_in_fields(case: Case) -> None:
    def fields(**changed: Any) -> object:
        with pytest.raises(InputError) as caught:
            case.audit(**changed)
        return caught.value.fields

    sql = case.sql("SELECT * REPLACE (CAST(seats AS VARCHAR) AS seats) FROM input")
    assert fields(audit=sql) == {"field": "audit.sql", "column": "seats"}
    assert fields(sink=MERGE) == {"pipeline": "flights", "field": "audit"}
    (case.folder / "late.json").unlink()
    assert fields() == {"source": "late", "field": "path", "file": "*.json"}


def test_a_source_without_any_file_is_refused(case: Case) -> None:
    (case.folder / "late.json").unlink()
    text = refusal(case)
    assert "Source `late`: no file matches *.json" in text
    assert str(case.folder) in text


def test_a_file_that_is_no_parquet(case: Case) -> None:
    (case.folder / "history/part-1.parquet").write_text("id,origin")
    text = refusal(case)
    assert "Source `history` can't be read by the audit" in text
    assert "part-1.parquet" in text


def test_a_store_that_does_not_answer(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    lake = {"type": "files", "name": "h", "path": "s3://lake/in/*", "format": "parquet"}
    text = refusal(case, sources=[lake], s3={"endpoint": "http://127.0.0.1:9"})
    assert "s3://lake/in can't be listed at http://127.0.0.1:9: " in text
    assert "hunter2" not in text


def test_a_file_of_a_store_is_named_by_its_url_and_not_by_the_path_of_its_copy(
    case: Case, tmp_path: Path
) -> None:
    copy = tmp_path / "copies/objects/s3/lake/in/a.csv"
    copy.parent.mkdir(parents=True)
    copy.write_text("at,origin\n")
    files = AuditFiles(case.loaded(), tmp_path / "copies")
    with pytest.raises(InputError) as refused, files.naming_originals():
        list(csv_rows(str(copy), CsvOptions(), ["id"]))
    assert str(refused.value).startswith("File s3://lake/in/a.csv: its header has column `id` 0")
    assert refused.value.fields["file"] == "s3://lake/in/a.csv"


def test_a_line_that_does_not_fit_the_schema(case: Case) -> None:
    (case.folder / "late.json").write_text('{"id": 1}\n{"id": "x"}\n')
    text = refusal(case)
    assert "late.json" in text
    assert '"x"' in text


def test_a_key_that_not_all_sources_have(case: Case) -> None:
    late = {"type": "files", "name": "late", "path": "*.json", "format": "json"}
    narrow = {name: kind for name, kind in COLUMNS.items() if name != "origin"}
    history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    text = refusal(case, sources=[history, {**late, "schema": narrow}])
    assert text == (
        "`key` names origin, which not all sources have; what they share: at, id, delay, seats. "
        f"{NO_VERDICT} Set `key` to columns that all sources have, or add the column with `select`."
    )


def test_a_source_with_the_name_of_the_view_of_all(case: Case) -> None:
    source = {"type": "files", "name": "input", "path": "history/*", "format": "parquet"}
    assert "Give the source another name." in refusal(case, sources=[source])


def test_no_sql_for_a_merge(case: Case) -> None:
    text = refusal(case, sink=MERGE)
    assert "`flights` declares `sink.mode: merge`, but neither `audit` nor `sink.sequence`" in text
    assert "Declare `audit: {sql: FILE}`" in text


def test_no_sql_for_a_target_without_the_inputs_key(case: Case) -> None:
    sink = {"path": "table", "mode": "append", "key": ["id", "window_start"]}
    text = refusal(case, sink=sink)
    assert "`sink.key` names window_start, which input and target do not both have, so" in text
    assert "declare `audit: {sql: FILE}`" in text


def test_sql_that_is_not_there(case: Case) -> None:
    text = refusal(case, audit={"sql": "audits/flights.sql"})
    assert "`audit.sql: audits/flights.sql` can't be read" in text


def test_sql_that_is_wrong_is_told_in_duckdbs_words(case: Case) -> None:
    text = refusal(case, audit=case.sql("SELECT id, departure FROM input"))
    assert 'Referenced column "departure" not found' in text
    assert "the tables that it can read: `history`, `input`, `late`." in text


def test_sql_of_two_statements(case: Case) -> None:
    text = refusal(case, audit=case.sql("SELECT * FROM input; SELECT 1"))
    assert text == (
        "`audit.sql` holds 2 statements; exactly one is allowed. "
        f"{NO_VERDICT} Write a single SELECT, with other queries as its WITH clauses."
    )


def test_sql_with_other_columns_than_the_target(case: Case) -> None:
    query = "SELECT * EXCLUDE (seats, delay), 1 AS flights FROM input"
    text = refusal(case, audit=case.sql(query))
    assert "only in `audit.sql`: flights; only in the target: delay, seats." in text


def test_sql_with_another_type_than_the_target(case: Case) -> None:
    query = "SELECT * REPLACE (CAST(seats AS VARCHAR) AS seats) FROM input"
    text = refusal(case, audit=case.sql(query))
    assert text == (
        "Column `seats` is VARCHAR in `audit.sql` and INTEGER in the target. "
        f"{NO_VERDICT} Cast `seats` in the query of `audit.sql` to INTEGER."
    )


def test_a_sink_key_that_the_target_does_not_have(case: Case) -> None:
    schema = pa.schema([SCHEMA.field("origin")])
    case.target_again([{"origin": "JFK"}], schema)
    text = refusal(case, sink=MERGE, audit=case.sql("SELECT DISTINCT origin FROM input"))
    assert text == (
        "`sink.key` names id, which the target does not have; it has origin. "
        f"{NO_VERDICT} Set `sink.key` to columns of the target that identify a row."
    )


def test_a_target_whose_files_are_gone(case: Case) -> None:
    next((case.folder / "table").glob("*.parquet")).unlink()
    text = refusal(case)
    assert f"The rows of table {case.folder / 'table'} can't be read" in text
    assert "Restore the table's data files from a backup" in text


def test_a_target_whose_log_is_damaged(case: Case) -> None:
    next((case.folder / "table/_delta_log").glob("*.json")).write_text("{")
    text = refusal(case)
    assert f"The target table {case.folder / 'table'} can't be read" in text
    assert "Restore the files of its `_delta_log` from a backup" in text
    assert "clone3" not in text


@pytest.mark.slow
def test_a_broker_that_does_not_answer(case: Case) -> None:
    history, _ = case.loaded().pipeline.sources
    live = {"type": "kafka", "name": "live", "topic": "flights"}
    sources = [history.model_dump(), {**live, "bootstrap_servers": "127.0.0.1:1"}]
    text = refusal(case, sources=sources)
    assert "The Kafka broker 127.0.0.1:1 can't be reached" in text
    assert "Start the broker, make it reachable" in text
