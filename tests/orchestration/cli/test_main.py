"""The command line: exit statuses, and one JSON document on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hybrid_extensions.servers.broker import topics_of
from sources.config.loader import load_pipeline
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests.command_line import invoke
from tests.e2e.case import TRANSFORMS, moment
from tests.extensions import needs
from tests.services.small_disk import small_disk

BUSY = """
import threading

import duckdb

from orchestration.cli.main import main


def compute():
    connection = duckdb.connect()
    begun.set()
    while True:
        connection.execute("SELECT sum(range) FROM range(3000000)").fetchall()


begun = threading.Event()
threading.Thread(target=compute, daemon=True).start()
begun.wait()
main()
"""


@pytest.fixture
def declared(tmp_path: Path) -> dict[str, Any]:
    """A pipeline of files alone, with its input in place."""
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    rows = {"id": [1, 2], "at": pa.array([moment(1), moment(2)], pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    return {
        "name": "events",
        "event_time": "at",
        "key": ["id"],
        "sources": [{"name": "history", "type": "files", "path": "*.parquet", "format": "parquet"}],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
    }


def call(folder: Path, document: dict[str, Any], command: str) -> tuple[int, dict[str, Any]]:
    path = folder / "events.yaml"
    path.write_text(yaml.safe_dump(document))
    result = invoke([command, str(path), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_valid_pipeline_passes(tmp_path: Path, declared: dict[str, Any]) -> None:
    status, answer = call(tmp_path, declared, "validate")
    assert (status, answer["ok"], answer["sources"]) == (0, True, ["history"])


def test_a_name_that_dagster_does_not_take_is_a_warning(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    status, answer = call(tmp_path, {**declared, "name": "import"}, "validate")
    assert (status, answer["ok"]) == (0, True)
    (warning,) = answer["warnings"]
    assert "Dagster does not load pipeline `import`" in warning
    assert "another `name`" in warning


def test_a_query_that_is_not_there_is_refused(tmp_path: Path, declared: dict[str, Any]) -> None:
    declared["transform"] = {"sql": "events.sql"}
    status, answer = call(tmp_path, declared, "validate")
    assert (status, answer["fields"]["field"]) == (2, "transform.sql")
    assert "`transform.sql: events.sql` can't be read" in answer["message"]
    (tmp_path / "events.sql").write_text("SELECT * FROM input")
    assert call(tmp_path, declared, "validate")[0] == 0


def test_jars_are_fetched_for_the_sets_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "a.jar").touch()
    monkeypatch.setenv("HYBRID_JARS", str(tmp_path))
    result = invoke(["jars", "broker", "--json"])
    assert json.loads(result.stdout) == {"ok": True, "broker": str(tmp_path / "broker")}
    result = invoke(["jars", "brocker", "--json"])
    assert "`brocker`" in json.loads(result.stdout)["message"]


def test_bad_input_ends_with_status_2_and_says_what_is_wrong(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    status, answer = call(tmp_path, {**declared, "transfrom": "x:y"}, "validate")
    assert status == 2
    assert "did you mean `transform`?" in answer["message"]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("nowhere:f", "`transform: nowhere:f` can't be imported: ModuleNotFoundError"),
        ("transforms:absent", "AttributeError"),
        ("transforms:F", "is not a function"),
    ],
)
def test_a_transform_that_can_not_be_loaded_is_named(
    tmp_path: Path, declared: dict[str, Any], transform: str, message: str
) -> None:
    status, answer = call(tmp_path, {**declared, "transform": transform}, "validate")
    assert status == 2
    assert message in answer["message"]


def test_what_the_last_driver_printed_is_shown(tmp_path: Path, declared: dict[str, Any]) -> None:
    status, answer = call(tmp_path, declared, "logs")
    assert status == 2
    assert "No run of pipeline `events` was launched yet, so there is no log." in answer["message"]
    call(tmp_path, declared, "plan")
    generation = load_pipeline(tmp_path / "events.yaml").require_generation()
    made = Launch(launch_id="a", source="history", log="run/history.log", group=None, at_ms=1)
    generation.replace("run/launch.json", made)
    generation.path("run/history.log").write_text("".join(f"line {at}\n" for at in range(80)))
    status, answer = call(tmp_path, declared, "logs")
    assert (status, answer["source"]) == (0, "history")
    assert answer["lines"] == [f"line {at}" for at in range(30, 80)]
    shown = invoke(["logs", str(tmp_path / "events.yaml"), "--lines", "1"])
    assert shown.stdout.strip() == "line 79"
    # Brackets are no markup: a closing tag that was never opened would be an error.
    line = "[main] ERROR: [/data/in] and [order_id] are gone :x:"
    generation.path("run/history.log").write_text(f"{line}\n")
    shown = invoke(["logs", str(tmp_path / "events.yaml")])
    assert (shown.exit_code, shown.stdout.strip()) == (0, line)


def test_a_plan_shows_what_will_be_read_and_is_kept(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    status, answer = call(tmp_path, declared, "plan")
    assert status == 0
    assert answer["files"][0]["rows"] == 2
    assert call(tmp_path, declared, "plan")[1] == answer


def test_a_refused_plan_leaves_no_state(tmp_path: Path, declared: dict[str, Any]) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    status, answer = call(tmp_path, declared, "plan")
    assert status == 2
    assert "a.parquet can't be read as Parquet" in answer["message"]
    assert not (tmp_path / "state").exists()


def test_a_state_folder_that_can_not_be_written_is_told_before_spark_is_started(
    tmp_path: Path, declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransformCheck, "start", lambda _: pytest.fail("Spark is started"))
    with small_disk(tmp_path / "disk", "1m") as disk:
        disk.fill()
        status, answer = call(tmp_path, {**declared, "state": "disk/state"}, "plan")
    assert status == 2
    assert answer["message"].endswith("is full.")


@pytest.mark.slow
@pytest.mark.kafka
def test_a_broker_that_is_not_there_is_named_before_anything_is_written(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    live = {"name": "live", "type": "kafka", "topic": "t", "bootstrap_servers": "127.0.0.1:1"}
    changed = {**declared, "sources": [*declared["sources"], live]}
    status, answer = call(tmp_path, changed, "plan")
    assert status == 2
    assert "broker 127.0.0.1:1 can't be reached" in answer["message"]
    assert not (tmp_path / "state").exists()


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_named(
    tmp_path: Path, declared: dict[str, Any], servers: str
) -> None:
    live = {"name": "live", "type": "kafka", "topic": "no-such", "bootstrap_servers": servers}
    changed = {**declared, "sources": [*declared["sources"], live]}
    status, answer = call(tmp_path, changed, "plan")
    assert status == 2
    assert "There is no topic `no-such`" in answer["message"]


@pytest.mark.kafka
def test_a_topic_that_is_waited_for_is_planned_and_one_to_create_is_there_after_the_plan(
    tmp_path: Path, declared: dict[str, Any], servers: str
) -> None:
    topic = f"later-{uuid.uuid4().hex[:8]}"
    live = {"name": "live", "type": "kafka", "topic": topic, "bootstrap_servers": servers}
    waiting = {**declared, "sources": [*declared["sources"], {**live, "missing_topic": "wait"}]}
    status, answer = call(tmp_path, waiting, "plan")
    assert (status, answer["topic"]["topics"]) == (0, {})
    assert any(f"waits: there is no topic `{topic}` yet" in each for each in answer["warnings"])
    said = invoke(["plan", str(tmp_path / "events.yaml")])
    assert said.exit_code == 0
    assert f"waits: there is no topic `{topic}` yet" in said.output
    created = {**live, "missing_topic": {"create": {"partitions": 2}}}
    other = {**declared, "name": "other", "sources": [*declared["sources"], created]}
    status, answer = call(tmp_path, {**other, "state": "another"}, "plan")
    assert (status, [*answer["topic"]["topics"]]) == (0, [topic])
    assert answer["topic"]["seam_end"] == {topic: {"0": 0, "1": 0}}


@pytest.mark.kafka
def test_of_the_local_broker_the_way_to_a_topic_is_told(
    tmp_path: Path, declared: dict[str, Any], servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker.json").write_text(json.dumps({"bootstrap_servers": servers}))
    monkeypatch.setenv("HYBRID_BROKER_FILE", str(tmp_path / "broker.json"))
    live = {"name": "live", "type": "kafka", "topic": "no-such", "bootstrap_servers": "local"}
    changed = {**declared, "sources": [*declared["sources"], live]}
    _, answer = call(tmp_path, changed, "plan")
    assert "(`hybrid broker --topic no-such`)" in answer["hint"]


@pytest.mark.kafka
def test_a_broker_that_runs_gets_the_topics_of_the_command(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ending it for another topic would stop the streams of all that read from it."""
    address = {"bootstrap_servers": servers, "pid": os.getpid(), "folder": str(tmp_path)}
    (tmp_path / "broker.json").write_text(json.dumps(address))
    monkeypatch.setenv("HYBRID_BROKER_FILE", str(tmp_path / "broker.json"))
    topic = f"made-{tmp_path.name}"
    for was_there in (False, True):
        said = invoke(["broker", "--topic", topic])
        assert said.exit_code == 0, said.output
        assert f"`{topic}`" in said.output
        assert ("There before, with the records" in said.output) == was_there
    assert topic in topics_of(servers)
    said = invoke(["broker"])
    assert (said.exit_code, "runs already" in said.output) == (2, True)


def test_without_a_local_broker_the_way_to_one_is_told(
    tmp_path: Path, declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYBRID_BROKER_FILE", str(tmp_path / "broker.json"))
    live = {"name": "live", "type": "kafka", "topic": "t"}
    changed = {**declared, "sources": [*declared["sources"], live]}
    _, answer = call(tmp_path, changed, "plan")
    assert "Start one with `hybrid broker`" in answer["hint"]


def test_status_of_a_pipeline_that_never_ran_is_waiting(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    status, answer = call(tmp_path, declared, "status")
    assert status == 0
    assert [source["state"] for source in answer["sources"]] == ["waiting"]
    path = tmp_path / "events.yaml"
    shown = " ".join(invoke(["status", str(path)]).stdout.split())
    assert f"hybrid run {path}` starts it, unless that was just done. Before, `" in shown
    assert f"hybrid plan {path}` shows" in shown
    call(tmp_path, declared, "plan")
    shown = invoke(["status", str(path)]).stdout
    assert "Not started: " in shown
    assert "Before, " not in shown


def test_stopping_what_does_not_run_is_no_error(tmp_path: Path, declared: dict[str, Any]) -> None:
    assert call(tmp_path, declared, "stop") == (
        0,
        {
            "ok": True,
            "pipeline": "events",
            "generation": None,
            "stopped": [],
            "others_running": [],
        },
    )


@needs("audit")
def test_an_audit_before_anything_was_written_is_bad(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    status, answer = call(tmp_path, declared, "audit")
    assert status == 1
    assert (answer["expected"], answer["missing"], answer["found"]) == (2, 2, 0)


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("nonsense", 2)])
def test_a_thread_in_native_code_does_not_change_the_exit_status(word: str, status: int) -> None:
    command = [sys.executable, "-c", BUSY, word]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "terminate called" in done.stderr) == (status, False)


def test_without_java_a_run_is_refused_before_anything_is_written(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    path = tmp_path / "events.yaml"
    path.write_text(yaml.safe_dump(declared))
    code = "from orchestration.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(path), "--json"],
        env={**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Java" in json.loads(done.stdout)["message"]
    assert not (tmp_path / "state").exists()


def test_a_step_is_done_by_name_and_only_in_its_turn(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    path = tmp_path / "events.yaml"
    topic = {"name": "live", "type": "kafka", "topic": "t", "bootstrap_servers": "127.0.0.1:1"}

    def step(document: dict[str, Any], name: str) -> tuple[int, dict[str, Any]]:
        path.write_text(yaml.safe_dump(document))
        result = invoke(["step", str(path), name, "--json"])
        return result.exit_code, json.loads(result.stdout)

    for _ in range(2):
        status, answer = step(declared, "plan")
        assert (status, answer["step"], answer["files"][0]["rows"]) == (0, "plan", 2)
    status, answer = step(declared, "hisory")
    assert status == 2
    assert answer == {
        "ok": False,
        "kind": "input",
        "message": "Pipeline `events` has no step `hisory`. Nothing was done.",
        "effect": "",
        "hint": "Name one of its steps: plan, history.",
        "transient": False,
        "fields": {"pipeline": "events", "value": "hisory"},
    }
    followed = {**declared, "state": "other", "sources": [*declared["sources"], topic]}
    status, answer = step(followed, "live_handover")
    assert (status, answer["ok"]) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan"], "Missing argument"),
        (["plan", "p.yaml", "--jsn"], "No such option"),
        (["plna", "p.yaml"], "No such command"),
        (["run", "p.yaml", "--until", "never"], "Invalid value"),
        (["generation", "promot", "p.yaml"], "No such command"),
    ],
)
def test_an_error_of_use_is_a_json_document_with_json(arguments: list[str], message: str) -> None:
    result = invoke([*arguments, "--json"])
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["ok"], answer["kind"]) == (2, False, "usage")
    assert message in answer["message"]
    assert message in result.stderr
    plain = invoke(arguments)
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert message in plain.stderr


def test_the_version_is_printed() -> None:
    told = invoke(["--version"])
    assert (told.exit_code, told.stdout) == (0, f"{version('hybrid-backfill')}\n")


def test_each_command_has_its_place_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke(["--help"]).stdout
    places = [text.index(f"─ {name} ─") for name in ("Begin", "Run", "Look", "More")]
    assert places == sorted(places)
    assert "─ Commands ─" not in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run"], "and leaves it running; `--until caught-up` waits until it has committed"),
        (["generation", "finish"], "Finish an interrupted promotion or rollback; the supervision"),
        pytest.param(
            ["init"],
            "For tables: a YAML file each, a transform, the connector's configuration",
            marks=needs("starter"),
        ),
    ],
)
def test_the_help_of_a_command_fills_the_lines_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert sentence in invoke([*words, "--help"]).stdout


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (None, "Extension `theirs` can't be loaded from theirs:EXTENSION: No module named"),
        ("theirs:gone", "Extension `theirs` can't be loaded: it names theirs:gone"),
    ],
    ids=["module", "what it names"],
)
def test_an_extension_that_can_not_be_loaded_is_named_by_each_command(
    tmp_path: Path, module: str | None, told: str
) -> None:
    info = tmp_path / "theirs-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[hybrid_backfill.extensions]\ntheirs = theirs:EXTENSION\n"
    )
    if module is not None:
        (tmp_path / "theirs.py").write_text(
            "from sources.extensions import Extension\n"
            f"EXTENSION = Extension('theirs', commands={module!r})\n"
        )
    home = Path(__file__).parents[3]
    code = "from orchestration.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "status", "any.yaml", "--json"],
        env={**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (2, False)
    assert told in document["message"]
    assert "Traceback" not in done.stderr
