"""What a driver prints stays small, and its end is always there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.run_state import run_log


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_log, "MOST_BYTES", 1000)
    return tmp_path / "live.log"


def numbers(log: Path, count: int) -> list[int]:
    return [int(line) for line in run_log.last_lines(log, count).splitlines()]


def test_a_process_goes_on_in_a_log_that_was_shortened(log: Path) -> None:
    code = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    run_log.begin(log)
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=output, text=True
        ) as printing,
    ):
        assert printing.stdin is not None
        for number in range(2000):
            printing.stdin.write(f"{number}\n")
            printing.stdin.flush()
            if number % 10 == 9:
                while numbers(log, 1) != [number]:
                    pass
                run_log.trim(log)
                assert sum(path.stat().st_size for path in log.parent.iterdir()) < 3000
    assert numbers(log, 150) == list(range(1850, 2000))


def test_a_log_that_is_not_there_yet_has_no_lines(log: Path) -> None:
    run_log.trim(log)
    assert run_log.last_lines(log, 5) == ""


def test_another_launch_begins_its_log_and_keeps_that_of_the_launch_before(log: Path) -> None:
    log.write_text("1\n" * 600)
    run_log.trim(log)
    log.write_text("the end\n")
    run_log.begin(log)
    assert run_log.last_lines(log, 5) == ""
    assert run_log.last_lines(run_log.previous(log), 5) == "the end"
    # A launch that printed nothing does not take the place of one that did.
    run_log.begin(log)
    assert run_log.last_lines(run_log.previous(log), 5) == "the end"


def test_a_tail_hands_over_whole_lines_once_also_after_the_log_was_rotated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = run_log.Tail(log, 0)
    assert [*tail.new_lines()] == []
    log.write_text("one\ntw")
    assert [*tail.new_lines()] == ["one"]
    with log.open("a") as out:
        out.write("o\nthree\n")
    assert [*run_log.Tail(log).new_lines()] == [], "a late reader gets what comes later"
    assert [*tail.new_lines()] == ["two", "three"]
    assert [*tail.new_lines()] == []
    log.write_text("four\n")
    assert [*tail.new_lines()] == ["four"]
