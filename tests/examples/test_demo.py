"""What `make demo` asks for before it starts anything, and what it leaves behind: nothing."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from examples import demo
from sources.errors import InputError
from spark_jobs.launch import run_control
from tests.hybrid_extensions.generations.test_generations import two
from tests.services.processes import NEVER_ENDS, wait_for

ROOT = Path(__file__).parents[2]


def test_what_the_wheel_takes_along_imports_nothing_of_the_checkout() -> None:
    taken = sorted((ROOT / "hybrid_demo").glob("*.py"))
    imported = {
        name.split(".")[0]
        for file in taken
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    assert len(taken) >= 4
    assert imported.isdisjoint({"examples", "tests", "services"})


@pytest.mark.parametrize(
    ("servers", "open_lake", "sets"),
    [
        ("", None, ["spark", "broker"]),
        ("kafka:9092", None, ["spark"]),
        ("", lambda: "s3://lake", ["spark", "broker", "s3"]),
    ],
)
def test_only_the_jvm_parts_that_it_uses_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: str, open_lake: Any, sets: list[str]
) -> None:
    asked: list[str] = []

    def resolve_sets(names: Iterable[str], _: Any) -> None:
        asked.extend(names)
        message = "no network"
        raise InputError(message, "Connect the machine.")

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    monkeypatch.setattr(demo, "resolve_sets", resolve_sets)
    with ExitStack() as cleanup, pytest.raises(InputError, match="no network"):
        demo.prepare(tmp_path / "demo", demo.Stages(), cleanup, open_lake)
    assert asked == sets


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_arrives_twice_stops_all_that_was_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    # What `make` does: the signal reaches its process group, and make passes it on.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from examples import demo\n"
        "from tests.services.processes import wait_for\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "def stop(name):\n"
        "    (folder / f'{name}-stops').touch()\n"
        "    wait_for((folder / 'signalled-twice').exists, 'the second signal')\n"
        "    (folder / name).touch()\n"
        "def run(cleanup):\n"
        "    cleanup.callback(stop, 'broker')\n"
        "    cleanup.callback(stop, 'stream')\n"
        "    (folder / 'runs').touch()\n"
        f"    {NEVER_ENDS}\n"
        "sys.exit(demo.conclude(run, demo.Stages()))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as shown:
        for seen in ("runs", "stream-stops"):
            wait_for((tmp_path / seen).exists, seen)
            shown.send_signal(number)
        (tmp_path / "signalled-twice").touch()
        told = shown.communicate(timeout=300)[1].decode()
    assert shown.returncode == 130
    assert (tmp_path / "stream").exists()
    assert (tmp_path / "broker").exists()
    assert told.count("Stopping the streams") == 1


def test_a_candidate_is_stopped_as_well_as_the_generation_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, stopped = two(tmp_path), list[str]()
    monkeypatch.setattr(run_control, "stop", lambda generation, _: stopped.append(generation.name))
    demo.stop(case.loaded)
    assert sorted(stopped) == ["g1", "g2"]


def test_the_streams_of_pipelines_that_were_added_to_the_folder_are_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case, stopped = two(tmp_path), list[str]()
    monkeypatch.setattr(run_control, "stop", lambda generation, _: stopped.append(generation.name))
    (tmp_path / "broken.yaml").write_text("name: [")
    (tmp_path / "flight_events.yaml").write_text("name: [")
    demo.stop_added(case.loaded.path.parent)
    assert sorted(stopped) == ["g1", "g2"]
    told = capsys.readouterr().out
    assert told.startswith("Not stopped, if it runs: the stream of broken.yaml. ")
    assert told.count("Not stopped") == 1, "the demo stops its own pipelines itself"
    monkeypatch.setattr(demo, "HERE", case.loaded.path.parent)
    demo.stop_added(case.loaded.path.parent)
    assert len(stopped) == 2, "of a checkout, others are not the demo's"
