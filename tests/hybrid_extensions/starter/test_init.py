"""``hybrid init``: from files to a pipeline that can be planned."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.starter import topic_warnings
from sources.config.loader import load_pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.planning.context import PipelineContext
from tests.command_line import invoke
from tests.e2e.case import moment
from tests.extensions import needs

COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double", "day": "date", "ok": "boolean"}


@pytest.fixture(autouse=True)
def _no_local_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic of a new pipeline is on no broker, which is known at once."""
    monkeypatch.setenv("HYBRID_BROKER_FILE", str(tmp_path / "broker.json"))


def table(*more: str) -> pa.Table:
    times = pa.array([moment(1), moment(2)], pa.timestamp("us", "UTC"))
    columns: dict[str, Any] = {"id": [1, 2], "at": times, "v": [0.5, 1.5]}
    columns |= {"day": times.cast(pa.date32()), "ok": [True, False]}
    return pa.table({**columns, **dict.fromkeys(more, times)})


def write(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    elif path.suffix == ".csv":
        pa_csv.write_csv(rows, path)
    else:
        lines = "".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist())
        path.write_bytes(gzip.compress(lines.encode()))


def call(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = invoke(["init", "mine", *arguments, "--folder", str(folder), "--json"])
    return result.exit_code, json.loads(result.stdout)


@needs("text_files")
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl.gz"])
def test_a_pipeline_over_files_can_be_planned_at_once(tmp_path: Path, name: str) -> None:
    write(tmp_path / "data" / name, table())
    status, answer = call(tmp_path, "--files", "data/*")
    assert (status, len(answer["written"])) == (0, 3)
    loaded = load_pipeline(tmp_path / "mine.yaml")
    assert (loaded.pipeline.event_time.column, loaded.pipeline.key) == ("at", ["id"])
    for command in ("validate", "plan"):
        result = invoke([command, str(loaded.path), "--json"])
        assert result.exit_code == 0, result.output
    columns = json.loads(result.stdout)["files"][0]["columns"]
    assert columns == COLUMNS


def test_the_command_that_follows_names_the_file_as_it_is_seen_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.parquet", table())
    assert " plan mine.yaml`" in invoke(["init", "mine", "--files", "*.parquet"]).stdout


def test_names_that_mean_something_else_in_yaml_are_texts(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", table().rename_columns(["no", "at", "v", "on", "ok"]))
    status, answer = call(tmp_path, "--files", "*.parquet", "--topic", "2024", "--key", "no")
    assert status == 0, answer
    pipeline = load_pipeline(tmp_path / "mine.yaml").pipeline
    files, topic = pipeline.sources
    assert isinstance(files, FileSource)
    assert isinstance(topic, KafkaSource)
    assert (pipeline.key, files.path, topic.topic) == (["no"], ["*.parquet"], "2024")


def test_fields_of_structs_become_columns_of_files_and_topic(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lines = [{"event": {"id": n, "at": f"2024-01-0{n}T00:00:00Z"}, "v": n} for n in (1, 2)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "data" / "a.jsonl").write_text(text)
    status, answer = call(tmp_path, "--files", "data/*")
    assert (status, answer["hint"]) == (2, "Name the column with `--event-time`: one of event.at.")
    named = ("--files", "data/*", "--topic", "events", "--event-time", "event.at")
    status, answer = call(tmp_path, *named, "--key", "event.nr")
    assert status == 2
    assert "no column `event.nr`" in answer["message"]
    status, answer = call(tmp_path, *named, "--key", "event.id")
    assert status == 0
    assert "Column `event_id` is CAST(event.id AS BIGINT), by `select`." in answer["notes"]
    pipeline = load_pipeline(tmp_path / "mine.yaml").pipeline
    assert (pipeline.event_time.column, pipeline.key) == ("event_at", ["event_id"])
    files, topic = pipeline.sources
    assert isinstance(files, FileSource)
    assert isinstance(topic, KafkaSource)
    assert files.select == topic.select
    assert list(files.select or {}) == ["event", "v", "event_at", "event_id"]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_nanoseconds_as_pandas_writes_them_are_event_times(
    tmp_path: Path, zone: str | None
) -> None:
    rows = table()
    nanos = rows["at"].cast(pa.timestamp("ns", zone))
    write(tmp_path / "data" / "a.parquet", rows.set_column(1, "at", nanos))
    assert call(tmp_path, "--files", "data/*")[0] == 0
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert json.loads(result.stdout)["files"][0]["columns"] == COLUMNS


@needs("text_files")
@needs("expressions")
@pytest.mark.parametrize(
    ("unit", "function"),
    [(1, "timestamp_seconds"), (1_000, "timestamp_millis"), (1_000_000, "timestamp_micros")],
)
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl.gz"])
def test_integers_since_1970_become_the_event_time_of_files_and_topic(
    tmp_path: Path, name: str, unit: int, function: str
) -> None:
    seconds = [int(moment(n).timestamp()) for n in (1, 2)]
    rows = pa.table({"id": [1, 2], "at": [each * unit for each in seconds], "v": [0.5, 1.5]})
    write(tmp_path / "data" / name, rows)
    arguments = ["--files", "data/*", "--topic", "events"]
    assert call(tmp_path, *arguments)[0] == 0
    pipeline = load_pipeline(tmp_path / "mine.yaml").pipeline
    for source in pipeline.sources:
        assert source.select == {"id": "id", "at": f"{function}(at)", "v": "v"}
    assert pipeline.topics[0].declared_columns == {"id": "bigint", "at": "bigint", "v": "double"}
    without_topic = tmp_path / "mine.yaml"
    declared = yaml.safe_load(without_topic.read_text())
    without_topic.write_text(yaml.safe_dump({**declared, "sources": declared["sources"][:1]}))
    result = invoke(["plan", str(without_topic), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["files"][0]["columns"]["at"] == "timestamp"


def test_columns_of_folders_are_no_columns_of_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "day=2024-01-01" / "id=7"
    folder.mkdir(parents=True)
    pq.write_table(
        table().drop(["id", "day"]).append_column("n", [[1.0, 1.5]]), folder / "a.parquet"
    )
    arguments = ["--files", "data/**/*.parquet"]
    assert "file has no column `id`" in call(tmp_path, *arguments)[1]["message"].replace(
        str(folder / "a.parquet"), "file"
    ).replace("file file", "file")
    for option, name in (("--key", "id"), ("--event-time", "day")):
        status, answer = call(tmp_path, *arguments, option, name)
        assert (status, answer["fields"]["column"]) == (2, name)
        assert "is a column of the folders" in answer["message"]
    assert call(tmp_path, *arguments, "--key", "n")[0] == 0
    assert "Not read: day, id, of the folders" in (tmp_path / "mine.yaml").read_text()


def test_a_topic_goes_on_where_the_files_end(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet", table())
    arguments = ["--topic", "events", "--key", "v", "--key", "id"]
    assert call(tmp_path, "--files", "data/*", *arguments)[0] == 0
    pipeline = load_pipeline(tmp_path / "mine.yaml").pipeline
    assert [source.name for source in pipeline.sources] == ["history", "live"]
    assert (pipeline.topics[0].bootstrap_servers, pipeline.key) == ("local", ["v", "id"])


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (table(), ["--files", "none/*.parquet"], "`--files none/*.parquet`: no file matches"),
        (table(), ["--files", "s3://bucket/*"], "`--files s3://bucket/*` names a store"),
        (
            table(),
            ["--files", "data/*", "--event-time", "wen"],
            "`wen`; its columns: id, at, v, day, ok. Name one of them with `--event-time`.",
        ),
        (table("later"), ["--files", "data/*"], "with `--event-time`: one of at, later."),
        (table().drop(["at"]), ["--files", "data/*"], "detected: no column of file"),
        (table(), ["--files", "data/*", "--event-time", "v"], "its type is double"),
        (table(), ["--files", "data/*", "--event-time", "id"], "since 1970 of the years from"),
        (table().drop(["id", "day"]), ["--files", "data/*"], "row with `--key`: of at, v,"),
    ],
)
def test_what_can_not_be_found_out_has_to_be_named(
    tmp_path: Path, rows: pa.Table, arguments: list[str], message: str
) -> None:
    write(tmp_path / "data" / "a.parquet", rows)
    status, answer = call(tmp_path, *arguments)
    assert status == 2
    assert message in f"{answer['message']} {answer['hint']}"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_names_that_can_not_be_and_files_that_can_not_be_read(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet", table())
    for name in ("Mine!", "../mine", "plan"):
        result = invoke(["init", name, "--files", "data/*", "--folder", str(tmp_path), "--json"])
        assert "can't be a name" in json.loads(result.stdout)["message"]
    (tmp_path / "data" / "a.parquet").write_bytes(b"PAR1 but no more")
    assert "can't be read as parquet" in call(tmp_path, "--files", "data/*")[1]["message"]
    (tmp_path / "data" / "a.parquet").rename(tmp_path / "data" / "a.xls")
    told = call(tmp_path, "--files", "data/*")[1]["message"]
    assert "The format of file a.xls is not known" in told
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet", table())
    (tmp_path / "mine_audit.sql").write_text("-- mine")
    status, answer = call(tmp_path, "--files", "data/*")
    assert (status, "mine_audit.sql exists already" in answer["message"]) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "mine_audit.sql"]


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    packed = gzip.compress(b"id,at\n1,2024-01-01T00:00:00Z\n")
    (tmp_path / "data" / "a.csv.gz").write_bytes(packed[:-6])
    status, answer = call(tmp_path, "--files", "data/*")
    assert (status, "a.csv.gz can't be read as csv" in answer["message"]) == (2, True)


@needs("text_files")
def test_types_of_csv_hold_what_further_files_have(tmp_path: Path) -> None:
    """A postcode that begins with 0 would lose that as a number, and the audit would agree."""
    (tmp_path / "data").mkdir()
    rows = {
        "a": ["1,10115,40,10,2024-05-01T10:00:00Z,"],
        "b": ["2,80331,40.5,11,2024-05-01T11:00:00Z,x"],
        "c": ["3,01067,41,n/a,2024-05-01T12:00:00Z,"],
        "d": [],
    }
    for name, lines in rows.items():
        text = "\n".join(["id,plz,amount,size,at,note", *lines, ""])
        (tmp_path / "data" / f"{name}.csv").write_text(text)
    status, answer = call(tmp_path, "--files", "data/[a-c].csv", "--key", "id")
    assert status == 0, answer
    [history] = yaml.safe_load((tmp_path / "mine.yaml").read_text())["sources"]
    assert history["schema"] == {
        "id": "bigint",
        "plz": "string",
        "amount": "double",
        "size": "string",
        "at": "timestamp",
        "note": "string",
    }
    for name in ("mine.yaml", "mine_audit.sql", "mine_transform.py"):
        (tmp_path / name).unlink()
    # A file without rows tells nothing.
    status, _ = call(tmp_path, "--files", "data/[bd].csv", "--key", "id")
    [history] = yaml.safe_load((tmp_path / "mine.yaml").read_text())["sources"]
    assert (status, history["schema"]["plz"]) == (0, "bigint")


def test_a_row_that_is_none_is_named_with_its_line_and_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    start = datetime(2024, 5, 1, tzinfo=UTC)
    times = [(start + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S") for at in range(150_000)]
    rows = [f"{at},Ada,{at % 97},{time}" for at, time in enumerate(times)]
    # Behind those by which DuckDB finds the delimiter. The id alone could be read; it is no key.
    rows[75_000] = "74999,broken"
    (tmp_path / "data" / "a.csv").write_text(
        "\n".join(["order_id,customer,amount,ordered_at", *rows])
    )
    status, answer = call(tmp_path, "--files", "data/*")
    assert status == 2
    for part in ("Line: 75002", "Original Line: 74999,broken", "Number of Columns: 4 Found: 2"):
        assert part in answer["message"]
    assert answer["hint"].startswith("Correct a row that is named")
    assert "strict_mode" not in answer["message"]


@needs("text_files")
@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (
            'id;at;name\n1;2024-01-01T00:00:00Z;"a;b"\n2;2024-01-01T00:01:00Z;x\n',
            {"delimiter": ";"},
        ),
        ("id|at|name\n1|2024-01-01T00:00:00Z|x\n", {"delimiter": "|"}),
        ("id\tat\tname\n1\t2024-01-01T00:00:00Z\tx\n", {"delimiter": "\t"}),
        (
            'id,at,name\n1,2024-01-01T00:00:00Z,"say \\"hi\\", twice"\n2,2024-01-01T00:01:00Z,x\n',
            {"escape": "\\"},
        ),
        ("1,2024-01-01T00:00:00Z,x\n2,2024-01-01T00:01:00Z,y\n", {"header": False}),
        (
            'id,at,name\n1,2024-01-01T00:00:00Z,x\n\n2,2024-01-01T00:01:00Z,"a ""b"",\nc"\n',
            {"multiline": True},
        ),
    ],
)
def test_the_dialect_of_csv_is_declared(tmp_path: Path, text: str, dialect: dict[str, Any]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text(text)
    assert call(tmp_path, "--files", "data/*")[0] == 0
    declared = yaml.safe_load((tmp_path / "mine.yaml").read_text())["sources"][0]
    assert declared["csv"] == dialect
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output


@needs("text_files")
def test_columns_have_the_types_and_names_of_the_file(tmp_path: Path) -> None:
    rows = table().drop(["day", "ok"])
    rows = rows.append_column("unit.price", pa.array([Decimal("1.50")] * 2, pa.decimal128(9, 2)))
    rows = rows.append_column("tags", pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())))
    rows = rows.append_column("no", pa.array([1, 2], pa.uint64()))
    write(tmp_path / "data" / "a.parquet", rows)
    arguments = ["--files", "data/*", "--topic", "events"]
    assert call(tmp_path, *arguments)[0] == 0
    result = invoke(["validate", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    (tmp_path / "other" / "data").mkdir(parents=True)
    lines = '{"id": 1, "at": "2024-01-01T00:00:00Z", "a.b": {"c": [1.5]}}\n'
    (tmp_path / "other" / "data" / "a.jsonl").write_text(lines)
    assert call(tmp_path / "other", "--files", "data/*")[0] == 0
    declared = yaml.safe_load((tmp_path / "other" / "mine.yaml").read_text())["sources"][0]
    assert declared["schema"]["a.b"] == "struct<c:array<double>>"
    result = invoke(["plan", str(tmp_path / "other" / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output


@needs("text_files")
def test_members_without_any_value_are_texts_as_for_spark(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    line = '{"id": 1, "at": "2024-01-01T00:00:00Z", "none": null, "list": [], "o": {"x": null}}\n'
    (tmp_path / "data" / "a.json").write_text(line)
    assert call(tmp_path, "--files", "data/*")[0] == 0
    (source,) = yaml.safe_load((tmp_path / "mine.yaml").read_text())["sources"]
    found = [source["schema"][name] for name in ("none", "list", "o")]
    assert found == ["string", "array<string>", "struct<x:string>"]
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("name", "kind"), [("a.parquet", "int"), ("a.json.gz", "string"), ("a.csv", "string")]
)
@needs("text_files")
def test_a_type_that_is_a_guess_is_told_and_can_be_corrected(
    tmp_path: Path, name: str, kind: str
) -> None:
    rows = table().append_column("note", pa.nulls(2))
    write(tmp_path / "in" / name, rows)
    code, found = call(tmp_path, "--files", f"in/*{name.removeprefix('a')}")
    told = f"Column `note` has no value in {name}, so its type, {kind}, is a guess."
    assert code == 0
    assert any(note.startswith(told) for note in found["notes"])
    path = tmp_path / "mine.yaml"
    path.write_text(path.read_text().replace(f"note: {kind}", "note: string"))
    known = pa.array(["fine", None])
    write(tmp_path / "in" / f"b{name.removeprefix('a')}", rows.set_column(5, "note", known))
    result = invoke(["plan", str(path), "--json"])
    assert result.exit_code == 0, result.output
    plan = PipelineContext.require(load_pipeline(path)).plan
    assert plan.columns_by_name["note"] == "string"


def test_text_in_another_encoding_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = "id,at,größe\n1,2024-01-01T00:00:00Z,5\n"
    (tmp_path / "data" / "a.csv").write_bytes(text.encode("latin-1"))
    status, answer = call(tmp_path, "--files", "data/*")
    assert status == 2
    assert "\n" not in answer["message"]
    assert "csv: {encoding: latin-1}" in answer["hint"]


@needs("text_files")
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz"])
def test_the_index_that_pandas_writes_is_left_out_and_what_is_unique_becomes_the_key(
    tmp_path: Path, name: str
) -> None:
    times = pd.date_range("2024-01-01", periods=4, freq="h", tz="UTC")
    rows = pd.DataFrame({"shop": ["a", "a", "b", "b"], "order_no": [7, 8, 9, 10], "at": times})
    rows = rows[rows.order_no > 7]
    (tmp_path / "data").mkdir()
    if name.endswith("parquet"):
        rows.rename_axis(index=None).to_parquet(tmp_path / "data" / name)
    else:
        rows.to_csv(tmp_path / "data" / name)
    status, answer = call(tmp_path, "--files", "data/*")
    assert status == 0, answer
    index = "`__index_level_0__`" if name.endswith("parquet") else "the column without a name"
    assert answer["notes"] == [
        "The key is [order_no], as its value is another one in each of 3 rows of "
        f"{name}. Check that it is so in all files.",
        f"Left out: {index}, the numbers of the rows that pandas has written.",
    ]
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    columns = json.loads(result.stdout)["files"][0]["columns"]
    assert columns == {"shop": "string", "order_no": "bigint", "at": "timestamp"}


@needs("text_files")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**64 + 1, "decimal(38,0)"),
        (-(10**37), "decimal(38,0)"),
        (10**38, "double"),
        ([{"n": 2**64, "m": 1}, None], "array<struct<n:decimal(38,0),m:bigint>>"),
        ({"n": [2**64, 1.5]}, "struct<n:array<double>>"),
        (1.0, "double"),
    ],
)
def test_integers_of_more_than_64_bits_in_json_are_no_doubles_which_would_round_them(
    tmp_path: Path, value: Any, kind: str
) -> None:
    row = {"id": 1, "at": "2024-01-01T00:00:00Z", "v": value}
    lines = [json.dumps(row), "", json.dumps({**row, "id": 2, "v": None})]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.json").write_text("\n".join(lines))
    assert call(tmp_path, "--files", "data/*")[0] == 0
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["files"][0]["columns"]["v"] == kind


@needs("text_files")
def test_columns_of_csv_have_the_names_of_the_header_and_those_without_one_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    number = "9" * 50
    lines = ["id, at,n,N,x_1,,n", f"1,2024-01-01T00:00:00Z,1,2,{number},3,4"]
    (tmp_path / "data" / "a.csv").write_text("\n".join(lines))
    status, answer = call(tmp_path, "--files", "data/*")
    assert status == 0, answer
    (note,) = answer["notes"]
    assert note.startswith(
        "Left out: `n`, `N_1`, `column5`, `n_2`, which have no name of their own"
    )
    result = invoke(["plan", str(tmp_path / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    columns = json.loads(result.stdout)["files"][0]["columns"]
    assert columns == {"id": "bigint", " at": "timestamp", "x_1": "string"}


def test_two_columns_may_be_the_key_and_text_that_repeats_is_none(tmp_path: Path) -> None:
    times = [f"2024-01-01T00:00:0{n % 2}Z" for n in range(4)]
    lines = [f"{n // 2},{'ab'[n % 2]},{times[n]}" for n in range(4)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("\n".join(["shop,till,at", *lines]))
    assert call(tmp_path, "--files", "data/*")[0] == 0
    assert load_pipeline(tmp_path / "mine.yaml").pipeline.key == ["shop", "at"]


def test_a_topic_that_does_not_answer_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_warnings, "ANSWER_S", 0.1)
    write(tmp_path / "data" / "a.parquet", table())
    arguments = ["--files", "data/*", "--topic", "events", "--servers", "127.0.0.1:1"]
    status, answer = call(tmp_path, *arguments)
    assert status == 0
    assert "127.0.0.1:1 can't be reached" in answer["notes"][0]
    [topic] = load_pipeline(tmp_path / "mine.yaml").pipeline.topics
    assert topic.bootstrap_servers == "127.0.0.1:1"


@pytest.mark.slow
@pytest.mark.kafka
def test_a_topic_that_is_missing_or_keeps_records_too_short_is_said_at_once(
    tmp_path: Path, servers: str
) -> None:
    write(tmp_path / "data" / "a.parquet", table())
    arguments = ["--files", "data/*", "--servers", servers, "--topic"]
    [missing] = call(tmp_path, *arguments, "no-such-topic")[1]["notes"]
    assert "no-such-topic" in missing
    create_topic(servers, "kept-a-day", config={"retention.ms": "86400000"})
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "data" / "a.parquet", table())
    [kept] = call(tmp_path / "other", *arguments, "kept-a-day")[1]["notes"]
    assert "`kept-a-day` keeps records for 1 d" in kept
