"""Declarations of what a topic's records contain: what is accepted, and what is refused how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.common.positions import TopicPartition
from sources.common.schema import parse_schema
from sources.common.topic_log import LogRecord
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.json.single_objects import JsonReader
from sources.decoding.value_formats.raw_values import RawReader
from sources.errors import InputError, StateError
from sources.planning.schema_check import compare_sample
from tests.extensions import needs
from tests.minimal import minimal_declaration

SCHEMA = {"id": "bigint", "at": "timestamp"}
SECRET = "hunter2"
AT = TopicPartition("t", 2)


def load(folder: Path, **live: Any) -> LoadedPipeline:
    document = minimal_declaration(
        {"name": "live", "type": "kafka", "topic": "t", "start": "earliest", **live}
    )
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path, {"REGISTRY_PASSWORD": SECRET})


def live(folder: Path, **changes: Any) -> KafkaSource:
    source = load(folder, **changes).pipeline.sources[0]
    assert isinstance(source, KafkaSource)
    return source


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"format": "xml"}, "`format: xml` is not a format of a topic's values. Write one of json"),
        pytest.param(
            {"format": "avro", "registry": {"urll": "r"}},
            "  source `live`, sources.0.registry.urll: unknown field; did you mean",
            marks=needs("avro"),
        ),
        pytest.param(
            {"avro_schem": "a.avsc"},
            "  source `live`, sources.0.avro_schem: unknown field; did you mean `avro_sch",
            marks=needs("avro"),
        ),
        ({"value": {"format": "raw"}}, "  source `live`, sources.0.value: unknown field"),
        pytest.param(
            {"avro_schema": "a.avsc"},
            "`avro_schema` has no meaning with `format: json`",
            marks=needs("avro"),
        ),
        pytest.param(
            {"format": "raw", "avro_schema": "a"},
            "`avro_schema` has no meaning with `format: raw`",
            marks=needs("avro"),
        ),
        pytest.param(
            {"format": "avro"}, "needs either `avro_schema` or `registry`", marks=needs("avro")
        ),
        pytest.param(
            {"format": "avro", "avro_schema": "a", "registry": {"url": "http://r"}},
            "needs either `avro_schema` or `registry`",
            marks=needs("avro"),
        ),
        ({"registry": {"url": "http://r"}}, "`registry` has no meaning with `format: json`"),
        ({"include": {"k": "keys"}}, "include.k"),
        ({"include": {"at": "topic"}}, "`include.at: topic` is of type string, but there is a col"),
        ({"include": {"at": "offset"}}, "of type timestamp. Rename one of them"),
        (
            {"format": "raw", "schema": SCHEMA},
            "`format: raw` has one column next to those of `include`. Declare `schema: {value: ",
        ),
        (
            {"format": "raw", "schema": None, "include": {"value": "key"}},
            "`include.value`: `format: raw` has a column of this name",
        ),
        ({"on_bad_record": "skip"}, "on_bad_record"),
        ({"quarantine": "bad"}, "Declare `on_bad_record: quarantine`, or remove"),
        (
            {"on_bad_record": "drop", "quarantine": "bad"},
            "Declare `on_bad_record: quarantine`, or remove",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **{"schema": SCHEMA, **changes})
    assert pattern in str(caught.value)


@needs("avro")
@needs("cdc")
def test_a_field_of_a_format_without_a_value_is_as_if_it_was_left_out(tmp_path: Path) -> None:
    nothing = {"avro_schema": None, "added_columns": None, "on_truncate": None}
    assert live(tmp_path, schema=SCHEMA, **nothing) == live(tmp_path, schema=SCHEMA)
    table = {"format": "debezium", "table": "public.orders"}
    declared = live(tmp_path, schema=SCHEMA, **table)
    assert live(tmp_path, schema=SCHEMA, **{**nothing, **table}) == declared


def test_included_columns_stand_beside_those_of_the_value(tmp_path: Path) -> None:
    source = live(
        tmp_path,
        schema={**SCHEMA, "k": "string"},
        include={"k": "key", "at": "timestamp", "p": "partition"},
    )
    columns = source.columns_after({})
    assert columns == {**SCHEMA, "k": "string", "p": "int"}
    assert source.value_schema(columns).names == ["id"]


def test_raw_values_are_one_column(tmp_path: Path) -> None:
    source = live(tmp_path, format="raw", include={"at": "timestamp", "k": "key"})
    assert source.columns_after({}) == {"at": "timestamp", "k": "binary", "value": "binary"}
    assert source.value_schema(source.columns_after({})) == parse_schema({"value": "binary"})


def test_included_columns_must_be_in_the_source_before_where_it_tells_the_columns() -> None:
    source = KafkaSource(type="kafka", name="live", topic="t", include={"k": "key"})
    before = {"id": "bigint", "k": "binary"}
    assert source.columns_after(before) == before
    with pytest.raises(InputError, match=r"`include\.k`: the preceding source has no column `k`"):
        source.columns_after({"id": "bigint"})
    with pytest.raises(InputError, match="is of type binary or string, but there is a column"):
        source.columns_after({"id": "bigint", "k": "int"})


def test_the_meaning_of_values_may_not_change_under_a_checkpoint(tmp_path: Path) -> None:
    declared = {"schema": {**SCHEMA, "k": "binary"}, "include": {"k": "key"}}
    load(tmp_path, **declared).open_generation(create=True)
    for change in ({"on_bad_record": "drop"}, {"on_bad_record": "quarantine"}):
        assert load(tmp_path, **declared, **change).open_generation(create=False) is not None
    with pytest.raises(StateError, match=r"`sources\.live\.value` of pipeline `orders` changed"):
        load(tmp_path, **{**declared, "include": {}}).open_generation(create=False)


def record(value: bytes | None, offset: int = 0) -> LogRecord:
    return LogRecord(AT, offset, 0, value)


def test_expected_bad_records_of_a_sample_are_told_and_pass() -> None:
    columns = parse_schema({"id": "bigint"})
    values = [b'{"id": 1}', b"no", b'{"id": "x"}', None]
    records = [record(value, at) for at, value in enumerate(values)]
    said = compare_sample("history", columns, records, JsonReader(), tolerant=True)
    assert len(said) == 1
    assert said[0].startswith("3 of 4 sampled records are bad. Topic `t`, partition 2, offset 1:")


def test_a_sample_of_which_nothing_fits_is_refused_side_by_side() -> None:
    columns = parse_schema({"id": "bigint"})
    for values in ([b'{"id": "x"}', b"no"], [b'{"other": 1}']):
        records = [record(value, at) for at, value in enumerate(values)]
        with pytest.raises(InputError, match="The columns of the sources differ"):
            compare_sample("history", columns, records, JsonReader(), tolerant=True)


def test_a_record_without_a_value_has_its_own_reason() -> None:
    with pytest.raises(InputError, match="partition 2, offset 5: the record has no value"):
        compare_sample("history", parse_schema(SCHEMA), [record(None, 5)], RawReader())


def test_a_declaration_that_is_written_out_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    declared = live(tmp_path, schema=SCHEMA, format="debezium", table="t.o", added_columns={})
    dumps = (declared.model_dump(), declared.model_dump(mode="json", exclude_defaults=True))
    for written in dumps:
        assert written["table"] == "t.o"
        assert KafkaSource.model_validate({"type": "kafka", **written}) == declared
