"""`hybrid try`: the table of a sample is right, and nothing of the pipeline is touched."""

from __future__ import annotations

import hashlib
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.trial import run
from hybrid_extensions.trial.sample_pipeline import (
    SampleOptions,
    declare_sample,
    parse_share,
    sample_of,
)
from orchestration.chain import ChainRun
from orchestration.defs.jobs.control_job import control_job
from sources.errors import InputError, RunError
from tests.command_line import invoke
from tests.e2e.case import Case, moment
from tests.e2e.in_session import run_chain
from tests.e2e.records.test_sample import is_sampled
from tests.extensions import needs


def content(folder: Path) -> dict[str, str]:
    """Digest of each file, but for the byte code of modules that were imported."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def groups(servers: str) -> set[str]:
    listed = AdminClient({"bootstrap.servers": servers}).list_consumer_groups().result()
    return {each.group_id for each in listed.valid}


@pytest.mark.analysis
@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
def test_a_sample_is_computed_and_compared_and_the_pipeline_stays_as_it_is(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    servers: str,
    spark: SparkSession,
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    (tmp_path / "classed.sql").write_text("SELECT *, v >= 450 AS large FROM input")

    def edit(document: dict[str, Any]) -> None:
        document["spark"]["master"] = "local[2]"

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    # What is to be tried: a new column.
    text = "def classed(rows):\n    return rows.withColumn('large', rows['v'] >= 450)\n"
    (tmp_path / "classing.py").write_text(text)

    def classed(document: dict[str, Any]) -> None:
        edit(document)
        document["transform"] = "classing:classed"
        document["audit"] = {"sql": "classed.sql"}

    loaded = case.pipeline(classed)
    before = content(tmp_path), groups(servers)
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    kept = tmp_path.parent / f"{tmp_path.name}-kept"
    result = invoke(
        ["try", str(loaded.path), "--keys", "20%", "--rows", "3", "--keep", str(kept), "--json"],
    )
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer.get("outcome")) == (0, "passed"), answer
    assert (content(tmp_path), groups(servers)) == before
    assert list(scratch.iterdir()) == []
    sampled = [n for n in range(2000) if is_sampled(str(n), 0.2)]
    rows = DeltaTable(str(kept)).to_pyarrow_table()
    expected = (
        f'SELECT n AS id, make_timestamptz(1704067200000000 + n * 60000000) AS "at", n / 2 AS v, '
        f"n / 2 >= 450 AS large FROM (SELECT unnest({sampled}::BIGINT[]) AS n) ORDER BY n"
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("made", rows)
        found = connection.sql('SELECT id, "at", v, large FROM made ORDER BY id').fetchall()
        assert found == connection.sql(expected).fetchall()
    assert answer["rows"] == answer["distinct"] == len(sampled)
    assert answer["read"]["history"] == len([n for n in sampled if n < 1000])
    assert [row["id"] for row in answer["examples"]] == sampled[:3]
    assert answer["columns"]["large"] == "boolean"
    assert answer["not_compared"] is None
    serving = answer["serving"]
    assert (serving["passed"], serving["columns_added"]) == (True, ["large"])
    assert serving["rows"] == {"g1": len(sampled), "the sample": len(sampled)}
    assert answer["table"] == str(kept)


@pytest.mark.analysis
@pytest.mark.e2e
@pytest.mark.kafka
@pytest.mark.slow
def test_the_control_job_tries_a_sample_and_shows_its_rows(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()

    def edit(document: dict[str, Any]) -> None:
        document["spark"]["master"] = "local[2]"

    loaded = case.pipeline(edit)
    before = content(tmp_path)
    step = f"do_{loaded.pipeline.name}_control"
    form = {"ops": {step: {"config": {"action": "TRY", "keys": "20%"}}}}
    result = control_job(loaded).execute_in_process(form)
    assert content(tmp_path) == before
    (handled,) = [each for each in result.all_node_events if each.event_type_value == "STEP_OUTPUT"]
    shown: Any = handled.step_output_data.metadata
    sampled = [n for n in range(2000) if is_sampled(str(n), 0.2)]
    assert shown["rows"].value == shown["rows found"].value == len(sampled)
    assert shown["rows read from history"].value == len([n for n in sampled if n < 1000])
    first = [record.data["id"] for record in shown["first rows"].records]
    assert first == [str(n) for n in sampled[:10]]
    assert "No table of the pipeline serves yet" in shown["not compared with what serves"].value


def options(**changes: Any) -> SampleOptions:
    return SampleOptions(**{"share": 0.1, **changes})


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), ("100 %", 1.0), (".5%", 0.005), ("0.001%", 0.00001)]
)
def test_a_percentage_is_a_share(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0%", "101%", "0.0000000001%"])
def test_a_percentage_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is out of range: a sample has more than 0%"):
        parse_share(text)


@pytest.mark.parametrize("text", ["1", "some", "-1%", "1e3%"])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a percentage") as caught:
        parse_share(text)
    assert "such as `1%`" in caught.value.hint


@pytest.mark.kafka
class TestDeclaration:
    def test_without_a_key_the_way_out_is_named(self, tmp_path: Path, servers: str) -> None:
        loaded = Case(tmp_path, servers).pipeline(lambda document: document.pop("key"))
        with pytest.raises(InputError, match="declares no `key`") as caught:
            sample_of(loaded, options())
        assert "`--by COLUMN`" in caught.value.hint
        assert sample_of(loaded, options(by=("v",))).by == ["v"]

    def test_versions_of_a_row_are_not_parted(self, tmp_path: Path, servers: str) -> None:
        def edit(document: dict[str, Any]) -> None:
            document["sink"] = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "at"}

        loaded = Case(tmp_path, servers).pipeline(edit)
        with pytest.raises(InputError, match="The changes of one row may differ in `v`"):
            sample_of(loaded, options(by=("v",)))

    def test_an_empty_range_and_a_folder_that_exists_are_refused(
        self, tmp_path: Path, servers: str
    ) -> None:
        loaded = Case(tmp_path, servers).pipeline()
        with pytest.raises(InputError, match="is empty"):
            sample_of(loaded, options(since=moment(9), until=moment(9)))
        arguments = ["try", str(loaded.path), "--keys", "1%", "--keep", str(tmp_path), "--json"]
        result = invoke(arguments)
        assert result.exit_code == 2
        assert "exists already" in json.loads(result.stdout)["message"]

    def test_a_table_that_is_not_whole_is_not_kept(
        self, tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(chain: ChainRun, _: str) -> None:
            Path(chain.loaded.target.url).mkdir()
            raise RunError("The driver was killed.", "Try it again.")

        monkeypatch.setattr(run, "run_step", fail)
        loaded = Case(tmp_path, servers).pipeline()
        with pytest.raises(RunError):
            run.try_sample(loaded, options(keep=tmp_path / "kept"))
        assert not (tmp_path / "kept").exists()

    @needs("ranges")
    def test_what_touches_others_is_left_out_and_secrets_stay_variables(
        self, tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOPIC", "events")
        monkeypatch.setenv("HOOK", "http://127.0.0.1:1/x")
        case = Case(tmp_path, servers)

        def edit(document: dict[str, Any]) -> None:
            document["sources"][1] |= {
                "topic": "${TOPIC}", "rate": {"offsets": 10},
                "on_bad_record": "quarantine", "quarantine": "bad",
            }  # fmt: skip
            document["sink"]["table"] = "shop.events"
            document |= {
                "approve": True,
                "lineage": {"namespace": "there"},
                "supervision": {"webhook": "${HOOK}", "late_rows": {"history": 3}},
                "ranges": {"by": "day", "start": "2024-01-01"},
            }
            document["spark"] = {"master": "spark://there:7077", "conf": {"a.b": "c"}}

        loaded = case.pipeline(edit)
        folder = tmp_path / "scratch"
        folder.mkdir()
        sample = sample_of(loaded, options(since=datetime(2024, 1, 1, tzinfo=UTC)))
        side = declare_sample(loaded, sample, folder, folder / "table")
        pipeline = side.pipeline
        assert side.folder == tmp_path
        assert pipeline.sample == sample
        assert (side.state.url, side.target.url) == (
            str(folder / "state" / "events"), str(folder / "table"),
        )  # fmt: skip
        assert (pipeline.sink.table, pipeline.approve) == (None, False)
        text = side.path.read_text()
        assert "lineage" not in text
        assert "ranges" not in text
        assert (pipeline.supervision.webhook, pipeline.supervision.late_rows.history) == (None, 3)
        assert pipeline.spark.master == "local[*]"
        assert pipeline.spark.conf == {"a.b": "c"}
        (topic,) = pipeline.topics
        assert (topic.quarantine, topic.on_bad_record) == (None, "quarantine")
        assert topic.rate.offsets is None
        assert "${TOPIC}" in side.path.read_text()
