"""A declared name that no sampled value has: refused if a near one is there, else warned of."""

from __future__ import annotations

import gzip
import io
import json
from io import StringIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from rich.console import Console

from orchestration.cli import terminal_tables
from orchestration.supervision.card import card
from orchestration.supervision.status import status
from sources.common.positions import TopicPartition
from sources.common.schema import parse_schema
from sources.common.topic_log import LogRecord
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from sources.planning.absent_names import judge_names
from sources.planning.files.file_plan import plan_files
from sources.planning.plan import make_plan
from sources.planning.topics.topic_sample import fit_sample
from tests.extensions import needs

NOON = "2024-01-01T12:00:00Z"


def judged(columns: dict[str, str], *values: dict[str, Any], needed: str = "id") -> list[str]:
    return judge_names("history", parse_schema(columns), values, "sampled row", {needed})


@pytest.mark.parametrize("other", ["orderid", "ORDERID", "order_id", "order-id", "Order_Id"])
def test_a_near_name_is_refused_and_both_are_told(other: str) -> None:
    told = rf"of 2 sampled rows, none has `orderId`, but `{other}`.*Write `{other}` in"
    with pytest.raises(InputError, match=told) as caught:
        judged({"id": "int", "orderId": "int"}, {"id": 1}, {"id": 2, other: 3})
    assert caught.value.fields["column"] == "orderId"


def test_a_near_name_within_a_column_is_refused_too() -> None:
    kinds = {"id": "int", "to": "array<struct<zipCode:string,city:string>>"}
    with pytest.raises(InputError, match=r"none has `to.zipCode`, but `to.zipcode`"):
        judged(kinds, {"id": 1, "to": []}, {"id": 1, "to": [{"zipcode": "1", "city": "a"}]})


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "orderId": None, "orderid": 2},
        {"id": 1, "order": 2},
        {"id": 1},
        {"id": 1, "orderIds": 2},
    ],
)
def test_names_that_differ_in_more_than_case_are_not_near(value: dict[str, Any]) -> None:
    warned = judged({"id": "int", "orderId": "int"}, value)
    assert len(warned) == ("orderId" not in value)


def test_a_name_that_is_a_column_itself_is_not_near() -> None:
    kinds = {"id": "int", "userId": "int", "user_id": "int"}
    (warned,) = judged(kinds, {"id": 1, "user_id": 7})
    assert "none has `userId`: null where it is left out" in warned


def test_a_column_that_every_row_needs_is_refused_and_any_other_warned_of() -> None:
    with pytest.raises(InputError, match="none has `id`, which every row needs"):
        judged({"id": "int", "promo": "string"}, {"promo": "x"})
    (warned,) = judged({"id": "int", "promo": "string", "code": "int"}, {"id": 1})
    assert "of 1 sampled row, none has `promo`, `code`:" in warned


def test_nothing_is_known_without_values_or_of_parts_of_what_none_has() -> None:
    assert judged({"id": "int"}) == []
    assert judged({"id": "int", "to": "struct<city:string>"}, {"id": 1, "to": None}) == []


def pipeline(source: FileSource | KafkaSource) -> Pipeline:
    sink = {"path": "out", "mode": "append", "key": ["no"]}
    declared = {"name": "p", "event_time": "at", "key": ["no"], "transform": "t:t", "state": "s"}
    return Pipeline.model_validate({**declared, "sink": sink, "sources": [source]})


def plan_of(folder: Path, kinds: dict[str, str], **more: Any) -> list[str]:
    declared = {"type": "files", "name": "history", "path": "*.json*", "format": "json"}
    source = FileSource.model_validate({**declared, "schema": kinds, **more})
    loaded = LoadedPipeline(folder / "p.yaml", pipeline(source))
    return plan_files(loaded, source, list_source(loaded, source))[1]


@needs("text_files")
def test_the_plan_of_files_asks_their_rows_and_the_way_out_that_it_names_works(
    tmp_path: Path,
) -> None:
    rows = [{"orderid": n, "at": NOON} for n in range(3)]
    lines = "\r".join(["{", *map(json.dumps, rows)]).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(lines))
    kinds = {"orderId": "bigint", "at": "timestamp"}
    select = {"no": "orderId", "at": "at"}
    told = "of 3 sampled rows, none has `orderId`, but `orderid`"
    with pytest.raises(InputError, match=told):
        plan_of(tmp_path, kinds, select=select, on_bad_record="drop")
    written = {"orderid": "bigint", "at": "timestamp"}
    warned = plan_of(tmp_path, written, select={"no": "orderid", "at": "at"}, on_bad_record="drop")
    assert not any("none has" in each for each in warned)
    assert "none has `more`" in "".join(
        plan_of(
            tmp_path,
            {**written, "more": "int"},
            select={"no": "orderid", "at": "at", "more": "more"},
            on_bad_record="drop",
        )
    )


@needs("text_files")
def test_the_status_tells_it_until_a_plan_finds_a_value(tmp_path: Path) -> None:
    declared = {"type": "files", "name": "history", "path": "*.json", "format": "json"}
    kinds = {"no": "bigint", "at": "timestamp", "promo": "string"}
    source = FileSource.model_validate({**declared, "schema": kinds})
    (tmp_path / "t.py").write_text("def t(rows):\n    return rows\n")

    def told(name: str, **more: Any) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps({"no": 1, "at": NOON, **more}))
        loaded = LoadedPipeline(folder / "p.yaml", pipeline(source))
        make_plan(loaded)
        found = status(loaded)
        is_told = bool(found.absent)
        console = Console(width=400, file=StringIO(), record=True)
        console.print(terminal_tables.status(found))
        for shown in (console.export_text(), card(loaded, found, None).markdown):
            assert is_told == ("none has" in shown)
        return found.absent

    (warned,) = told("without")
    assert "of 1 sampled row, none has `promo`" in warned
    assert told("with", promo="x") == []


def test_the_plan_of_a_topic_asks_its_records() -> None:
    declared = {"type": "kafka", "name": "live", "topic": "t", "start": "earliest"}
    kinds = {"no": "bigint", "at": "timestamp", "promo": "string"}
    source = KafkaSource.model_validate({**declared, "schema": kinds})

    def fit(*values: dict[str, Any]) -> list[str]:
        records = [
            LogRecord(TopicPartition("t", 0), offset, 0, json.dumps(value).encode())
            for offset, value in enumerate(values)
        ]
        fits, absent = fit_sample(pipeline(source), source, "live", kinds, records)
        return [*fits, *absent]

    assert fit() == []
    (warned,) = fit({"no": 1, "at": NOON})
    assert "of 1 sampled record, none has `promo`" in warned
    with pytest.raises(InputError, match="none has `promo`, but `Promo`"):
        fit({"no": 1, "at": NOON, "Promo": "x"})
    with pytest.raises(InputError, match="none has `no`, which every row needs"):
        fit({"at": NOON})
    with pytest.raises(InputError, match=r'bigint +\| string, as in "x"'):
        fit({"no": "x", "at": NOON})


@needs("avro")
def test_fields_within_columns_are_asked_of_formats_with_schemas_too(tmp_path: Path) -> None:
    record = {"type": "record", "name": "Who", "fields": [{"name": "userId", "type": "string"}]}
    fields = [{"name": "no", "type": "long"}, {"name": "who", "type": record}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    (tmp_path / "row.avsc").write_text(json.dumps(schema))
    value = io.BytesIO()
    fastavro.schemaless_writer(value, schema, {"no": 1, "who": {"userId": "u"}})
    records = [LogRecord(TopicPartition("t", 0), 0, 0, value.getvalue())]

    def fit(who: str) -> list[str]:
        kinds = {"no": "bigint", "who": f"struct<{who}:string>"}
        declared = {"type": "kafka", "name": "live", "topic": "t", "start": "earliest"}
        avro = {"format": "avro", "avro_schema": str(tmp_path / "row.avsc")}
        source = KafkaSource.model_validate({**declared, **avro, "schema": kinds})
        return fit_sample(pipeline(source), source, "live", kinds, records)[1]

    assert fit("userId") == []
    with pytest.raises(InputError, match=r"none has `who\.userid`, but `who\.userId`"):
        fit("userid")
    (warned,) = fit("account")
    assert "none has `who.account`" in warned
