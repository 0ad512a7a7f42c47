"""What a contender costs: time, CPU time and memory of all its processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.flink.contender import Contender, whole_process
from benchmarks.processes import cpu_s_of, processes_under

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
ECHO = """
import json, sys
for line in sys.stdin:
    options = json.loads(line)
    if options["seconds"] < 0:
        sys.exit("no such work")
    bytes_ = bytearray(options["mb"] << 20)
    print(json.dumps({"seconds": options["seconds"]}), flush=True)
"""


def test_processes_of_other_groups_and_of_ended_parents_count(tmp_path: Path) -> None:
    orphan = f"setsid {sys.executable} -c '{BUSY}' & exit 0"
    cost, printed = whole_process(["sh", "-c", f"echo done; {orphan}"], tmp_path / "log")
    assert printed == "done\n"
    assert cost.cpu_s >= 0.3
    assert cost.seconds >= 0.3
    assert cost.memory_mb > 0


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="it is broken"):
        whole_process(["sh", "-c", "echo it is broken >&2; exit 3"], tmp_path / "log")


def test_a_command_gets_its_options(tmp_path: Path) -> None:
    _, printed = whole_process(["cat"], tmp_path / "log", {"work": "files"})
    assert json.loads(printed) == {"work": "files"}


def test_a_contender_answers_again_and_again(tmp_path: Path) -> None:
    with Contender([sys.executable, "-c", ECHO], tmp_path / "log") as contender:
        costs = [contender.work({"seconds": each, "mb": each * 100}) for each in (1, 2)]
        with pytest.raises(RuntimeError, match="no such work"):
            contender.work({"seconds": -1})
    assert [cost.seconds for cost in costs] == [1, 2]


def test_all_descendants_are_found() -> None:
    shell = subprocess.Popen(
        ["sh", "-c", "setsid sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    child = int(shell.stdout.readline())
    try:
        assert processes_under(shell.pid) == {shell.pid, child}
        assert cpu_s_of([shell.pid, child]) < 10
    finally:
        subprocess.run(["kill", "-9", str(child)], check=True)
        shell.wait()
        shell.stdout.close()
