"""Reading pipelines: what is accepted, and what bad input is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sources.config.document.yaml_document import KEPT, parse_document
from sources.config.loader import KeptDefinition, declare, load_pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from tests.minimal import minimal_declaration

GOOD: dict[str, Any] = minimal_declaration(
    {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"},
    {"name": "live", "type": "kafka", "topic": "${TOPIC}", "trigger_interval": "500 ms"},
    key=["id"],
    allowed_lateness="1 hour",
)


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}))
    return path


def refusal(folder: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_pipeline(write(folder, **changes), {"TOPIC": "orders"})
    return str(caught.value)


def test_a_pipeline_is_read_with_its_environment_and_units(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path), {"TOPIC": "orders"}).pipeline
    history, live = pipeline.sources
    assert isinstance(history, FileSource)
    assert isinstance(live, KafkaSource)
    assert live.topic == "orders"
    assert live.trigger_interval == timedelta(milliseconds=500)
    assert pipeline.allowed_lateness == timedelta(hours=1)


def test_paths_start_at_the_pipelines_own_folder(tmp_path: Path) -> None:
    loaded = load_pipeline(write(tmp_path), {"TOPIC": "orders"})
    assert loaded.locate("../x") == str(tmp_path.parent / "x")
    assert loaded.locate("/abs") == "/abs"


@pytest.mark.parametrize("name", ["a%41b", "a\\b"])
def test_a_path_that_delta_rs_takes_for_another_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DeltaError):
        DeltaTable.create(tmp_path / name / "out", pa.schema([("x", pa.int64())]))
    sink = {**GOOD["sink"], "path": f"{name}/out"}
    assert f"`sink.path` is {tmp_path}/{name}/out: delta-rs" in refusal(tmp_path, sink=sink)
    (tmp_path / name).mkdir(exist_ok=True)
    assert f"`state` is {tmp_path}/{name}/state: delta-rs" in refusal(tmp_path / name)
    for other in ("a%b", "a b", "a:b", "a#b", "ü"):
        DeltaTable.create(tmp_path / other / "out", pa.schema([("x", pa.int64())]))
        (tmp_path / other).mkdir(exist_ok=True)
        assert load_pipeline(write(tmp_path / other), {"TOPIC": "orders"}).pipeline.name


def test_hdfs_without_a_namenode_is_the_declared_one_or_refused(tmp_path: Path) -> None:
    def history(path: str | list[str]) -> list[dict[str, Any]]:
        return [{**GOOD["sources"][0], "path": path}, GOOD["sources"][1]]

    sources = history(["hdfs:///in/*", "hdfs://other:9000/in/*", "in/*"])
    path = write(tmp_path, sources=sources, hdfs={"namenode": "lake"})
    read = load_pipeline(path, {"TOPIC": "t"}).pipeline.sources[0]
    assert isinstance(read, FileSource)
    assert read.patterns == ["hdfs://lake/in/*", "hdfs://other:9000/in/*", "in/*"]
    text = refusal(tmp_path, sources=history("hdfs:///in/*"))
    assert "`hdfs:///in/*` has no namenode" in text
    assert "`hdfs: {namenode: host:8020}`" in text
    assert "without scheme and path" in refusal(tmp_path, hdfs={"namenode": "hdfs://lake"})


def test_the_dialect_of_csv_has_no_meaning_with_another_format(tmp_path: Path) -> None:
    history = {**GOOD["sources"][0], "format": "parquet"}

    def sources(**csv: Any) -> list[dict[str, Any]]:
        return [{**history, "csv": csv}, GOOD["sources"][1]]

    text = refusal(tmp_path, sources=sources(delimiter=";"))
    assert "`csv` has no meaning with `format: parquet`. Remove it" in text
    # As a declaration is written out with all of its defaults.
    assert load_pipeline(write(tmp_path, sources=sources(delimiter=",")), {"TOPIC": "t"})


def test_google_holds_sources_and_neither_state_nor_target(tmp_path: Path) -> None:
    history = {**GOOD["sources"][0], "path": "gs://lake/in/*"}
    path = write(tmp_path, sources=[history, GOOD["sources"][1]])
    assert load_pipeline(path, {"TOPIC": "t"}).pipeline.sources[0].patterns == ["gs://lake/in/*"]
    assert "`state` can't be `gs://lake/state`" in refusal(tmp_path, state="gs://lake/state")
    text = refusal(tmp_path, sink={**GOOD["sink"], "path": "gs://lake/out"})
    assert "`sink.path` can't be `gs://lake/out`" in text
    assert "Declare a folder, s3://" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", 250),
        ("2 s", 2_000),
        ("3 min", 180_000),
        ("4 hours", 14_400_000),
        ("1d", 86_400_000),
        ("0.01 s", 10),
        ("1.5 h", 5_400_000),
    ],
)
def test_durations_are_written_with_a_unit(tmp_path: Path, text: str, expected: int) -> None:
    path = write(tmp_path, allowed_lateness=text)
    lateness = load_pipeline(path, {"TOPIC": "t"}).pipeline.allowed_lateness
    assert lateness == timedelta(milliseconds=expected)


def test_a_duration_shorter_than_a_millisecond_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, allowed_lateness="0.0001 s")
    assert "`0.0001 s` is not a whole number of milliseconds" in text


def test_an_unset_environment_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="environment variable TOPIC is not set"):
        load_pipeline(write(tmp_path), {})


@pytest.mark.parametrize("more", ["key: [at]", "supervision:\n  lag: 5\n  lag: 6"])
def test_a_key_that_is_there_twice_is_refused_with_its_line(tmp_path: Path, more: str) -> None:
    path = write(tmp_path)
    path.write_text(f"{path.read_text()}{more}\n")
    with pytest.raises(InputError) as refused:
        load_pipeline(path, {"TOPIC": "orders"})
    assert f"the key `{more.split()[-2].strip(':')}` is there twice" in str(refused.value)
    assert f"line {len(path.read_text().splitlines())}" in str(refused.value)


def test_an_anchor_may_be_used_twice_and_a_merged_key_replaced() -> None:
    assert parse_document("a: &a {b: &b {c: 1}, d: 2}\ne: {<<: *a, d: 3}\nf: [*b, *b]\n") == {
        "a": {"b": {"c": 1}, "d": 2},
        "e": {"b": {"c": 1}, "d": 3},
        "f": [{"c": 1}, {"c": 1}],
    }


def test_the_copy_of_a_generation_is_read_though_it_has_a_key_twice(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(f"{path.read_text()}key: [at]\n")
    note = KeptDefinition(generation="g1", home=str(tmp_path))
    path.with_name(KEPT).write_text(note.model_dump_json())
    assert load_pipeline(path, {"TOPIC": "orders"}).pipeline.key == ["at"]


def test_a_default_stands_in_for_an_unset_variable(tmp_path: Path) -> None:
    path = write(tmp_path, state="${STATE:-fallback}")
    assert load_pipeline(path, {"TOPIC": "t"}).pipeline.state == "fallback"


def test_a_misspelt_field_is_answered_with_the_right_one(tmp_path: Path) -> None:
    assert "unknown field; did you mean `event_time`?" in refusal(tmp_path, event_tme="at")


def test_a_misspelt_field_of_a_source_is_answered_with_the_right_one(tmp_path: Path) -> None:
    wrong = [{**GOOD["sources"][0], "formatt": "json"}, GOOD["sources"][1]]
    text = refusal(tmp_path, sources=wrong)
    name = wrong[0]["name"]
    assert f"  source `{name}`, sources.0.formatt: unknown field; did you mean `format`?" in text


def test_a_misspelt_field_of_the_sink_is_answered_with_the_right_one(tmp_path: Path) -> None:
    text = refusal(tmp_path, sink={**GOOD["sink"], "partition": ["id"]})
    assert "sink.partition: unknown field; did you mean `partition_by`?" in text


def test_a_name_in_a_catalog_can_be_added_to_a_table_in_use(tmp_path: Path) -> None:
    before = load_pipeline(write(tmp_path), {"TOPIC": "orders"}).contract()
    sink = {**GOOD["sink"], "table": "analytics.orders"}
    named = load_pipeline(write(tmp_path, sink=sink), {"TOPIC": "orders"})
    assert named.pipeline.sink.table == "analytics.orders"
    assert named.contract() == before


@pytest.mark.parametrize("name", ["orders", "a.b.c.d", "a.b; DROP TABLE c", "a.`b`", "a."])
def test_a_name_that_no_catalog_has_is_refused(tmp_path: Path, name: str) -> None:
    assert "sink.table" in refusal(tmp_path, sink={**GOOD["sink"], "table": name})


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({key: GOOD[key] for key in GOOD if key != "sink"}))
    with pytest.raises(InputError, match="sink: this field is needed"):
        load_pipeline(path, {"TOPIC": "t"})


def test_an_empty_chain_is_refused(tmp_path: Path) -> None:
    assert "sources: this field is needed" in refusal(tmp_path, sources=[])


def test_two_sources_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = [GOOD["sources"][0], {**GOOD["sources"][1], "name": "history"}]
    assert "Two sources are named `history`" in refusal(tmp_path, sources=twice)


def test_an_unbounded_source_that_is_not_last_is_refused(tmp_path: Path) -> None:
    first = {**GOOD["sources"][1], "start": "earliest", "schema": {"id": "bigint"}}
    text = refusal(tmp_path, sources=[first, GOOD["sources"][0]])
    assert "Source `live` has no end but is not the last" in text


def test_a_seam_filter_needs_a_key(tmp_path: Path) -> None:
    assert "`key` is needed" in refusal(tmp_path, key=[], seam_filter="key")


def test_an_unknown_column_type_is_named_with_the_known_ones(tmp_path: Path) -> None:
    source = {**GOOD["sources"][0], "schema": {"id": "bigInteger"}}
    text = refusal(tmp_path, sources=[source, GOOD["sources"][1]])
    assert "`bigInteger` is not a column type" in text
    assert "bigint" in text


@pytest.mark.parametrize("kind", ["decimal(39,2)", "decimal(0,0)", "decimal(4,5)"])
def test_a_decimal_that_spark_does_not_have_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    source = {**GOOD["sources"][0], "schema": {"id": kind}}
    text = refusal(tmp_path, sources=[source, GOOD["sources"][1]])
    assert f"`{kind}` is not a decimal type of Spark SQL" in text
    assert "1 to 38 digits" in text


@pytest.mark.parametrize("kind", ["map<int,string>", "array<struct<m:map<date,int>>>"])
def test_maps_of_json_have_texts_as_keys(tmp_path: Path, kind: str) -> None:
    history, live = GOOD["sources"]
    schema = {"id": "bigint", "at": "timestamp", "m": kind}
    for sources in (
        [{**history, "format": "json", "schema": schema}, live],
        [history, {**live, "schema": schema}],
    ):
        told = refusal(tmp_path, sources=sources)
        assert f"Column `m: {kind}` has a map whose keys are not texts" in told
    after = KafkaSource.model_validate({**live, "include": {"m": "key"}})
    assert after.columns_after({"m": "binary"}) == {"m": "binary"}
    with pytest.raises(InputError, match="has a map whose keys are not texts"):
        KafkaSource.model_validate(live).columns_after(schema)


def test_json_history_needs_a_schema(tmp_path: Path) -> None:
    source = {**GOOD["sources"][0], "format": "json"}
    assert "`schema` is needed" in refusal(tmp_path, sources=[source, GOOD["sources"][1]])


def test_a_fixed_start_time_needs_a_zone(tmp_path: Path) -> None:
    source = {**GOOD["sources"][1], "start": {"timestamp": "2024-01-01T00:00:00"}}
    assert "needs a time zone" in refusal(tmp_path, sources=[GOOD["sources"][0], source])


def test_a_file_that_is_not_there_or_no_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*nowhere\.yaml"):
        load_pipeline(tmp_path / "nowhere.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(InputError, match=r"bad\.yaml can't be read as YAML"):
        load_pipeline(tmp_path / "bad.yaml")


def test_the_file_that_is_meant_is_named_where_its_suffix_or_the_file_is_left_out(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=r"is a folder, .* Name a pipeline's file"):
        load_pipeline(tmp_path)
    (tmp_path / "orders.yaml").write_text("name: orders")
    with pytest.raises(InputError, match=r"There is no file .*orders\. Name orders\.yaml"):
        load_pipeline(tmp_path / "orders")
    with pytest.raises(InputError, match=r"is a folder, .* in it: orders\.yaml"):
        load_pipeline(tmp_path)


def test_a_secret_in_the_environment_reaches_neither_errors_nor_state(tmp_path: Path) -> None:
    path = write(tmp_path, sink={**GOOD["sink"], "path": "${SECRET}"})
    loaded = load_pipeline(path, {"TOPIC": "t", "SECRET": "hunter2"})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*.json"))
    assert b"hunter2" not in written


def test_a_pipeline_that_is_built_in_code_is_the_one_of_its_file(tmp_path: Path) -> None:
    path, environment = tmp_path / "orders.yaml", {"TOPIC": "orders"}
    built = declare(path, GOOD, environment)
    assert built == load_pipeline(path, environment)
    assert built.pipeline == load_pipeline(write(tmp_path), environment).pipeline
    written = path.stat().st_mtime_ns
    declare(path, GOOD, environment)
    assert path.stat().st_mtime_ns == written, "nothing new is not written again"
    declare(path, {**GOOD, "allowed_lateness": "2 hours"}, environment)
    assert load_pipeline(path, environment).pipeline.allowed_lateness == timedelta(hours=2)
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sinc": 1}, "orders.yaml is not a valid pipeline:\n  sinc: unknown field; did you mean"),
        ({"state": Path("state")}, "orders.yaml can't be written as YAML"),
        ({"name": "${NOWHERE}"}, "NOWHERE is not set"),
    ],
)
def test_what_is_built_wrong_in_code_leaves_the_file_as_it_was(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    path, environment = tmp_path / "orders.yaml", {"TOPIC": "orders"}
    declare(path, GOOD, environment)
    before = path.read_text()
    with pytest.raises(InputError, match=told):
        declare(path, {**GOOD, **change}, environment)
    assert path.read_text() == before
