"""The command that feeds second sinks, and how `hybrid status` shows them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid_extensions.feeds import feed_health
from hybrid_extensions.feeds.status import status_part
from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from tests.command_line import invoke
from tests.hybrid_extensions.feeds.feed_case import row
from tests.hybrid_extensions.feeds.test_python_function import Function
from tests.services.processes import wait_for

# A delivery that is under way has 20 s to end, on a machine that other tests keep busy, too.
_ENDS_S = 240


def run(*words: object) -> tuple[int, str]:
    answer = invoke([str(word) for word in words])
    return answer.exit_code, " ".join(answer.output.split())


@pytest.fixture
def case(tmp_path: Path) -> Function:
    made = Function(tmp_path)
    made.write(row(n) for n in range(3))
    return made


def test_once_delivers_and_says_what(case: Function) -> None:
    status, text = run("feed", case.path, "--once")
    told = "own: version 1 was loaded, 3 rows, as nothing is delivered yet."
    assert (status, text) == (0, told)
    case.write([row(1, 1)])
    status, text = run("feed", case.path, "--once", "--json")
    assert json.loads(text)["feeds"]["own"] == {
        "kind": "changes",
        "number": 2,
        "rows": 1,
        "why": "",
    }
    assert run("feed", case.path, "--once") == (0, "own: version 2 is delivered.")


def test_a_feed_follows_the_table_until_it_is_ended(case: Function) -> None:
    hybrid = str(Path(sys.prefix) / "bin" / "hybrid")
    process = subprocess.Popen([hybrid, "feed", str(case.path)], stderr=subprocess.PIPE)
    calls = case.folder / "calls.jsonl"
    wait_for(lambda: calls.exists() and len(case.calls()) == 1, "the load")
    case.write([row(1, 1)])
    wait_for(lambda: len(case.calls()) == 2, "the changes")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=_ENDS_S)
    assert process.returncode == 130
    assert "own: version 2, 1 changed row." in said.decode()
    assert case.deliver().kind == "none"


def test_a_delivery_that_fails_while_it_follows_is_tried_again(case: Function) -> None:
    case.fail(0)
    hybrid = str(Path(sys.prefix) / "bin" / "hybrid")
    process = subprocess.Popen([hybrid, "feed", str(case.path)], stderr=subprocess.PIPE)
    try:
        wait_for(lambda: "closed" in run("status", case.path)[1], "the failure is shown")
        case.fail(None)
        calls = case.folder / "calls.jsonl"
        wait_for(lambda: calls.exists() and len(case.calls()) == 1, "the load")
    finally:
        process.terminate()
        process.communicate(timeout=_ENDS_S)


def test_status_shows_how_far_each_feed_is(case: Function) -> None:
    status, text = run("status", case.path, "--json")
    assert status == 1
    (feed,) = json.loads(text)["feeds"]
    assert feed["text"].startswith("Nothing is delivered yet: run `")
    assert feed["text"].endswith(f"hybrid feed {case.path}`.")
    run("feed", case.path, "--once")
    status, text = run("status", case.path, "--json")
    assert status == 0
    assert json.loads(text)["feeds"][0]["text"] == "It has the newest version, 1."
    assert "own" in run("status", case.path)[1]


def test_status_shows_in_words_for_how_long_a_feed_is_behind(
    case: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cells() -> list[str]:
        (row,) = status_part(load_pipeline(case.path)).rows
        return list(row.cells)

    run("feed", case.path, "--once")
    assert cells()[2:5] == ["1", "0", ""]
    case.write([row(1, 1)])
    later_ms = now_ms() + 125_000
    monkeypatch.setattr(feed_health, "now_ms", lambda: later_ms)
    assert cells()[2:4] == ["1", "1"]
    assert cells()[4].startswith("2 min ")


def test_a_pipeline_without_feeds_says_so(case: Function) -> None:
    case.declare()
    status, text = run("feed", case.path, "--once")
    assert status == 2
    assert "declares no `feeds`" in text


def test_a_sink_that_can_t_be_asked_is_not_compared(case: Function) -> None:
    status, text = run("feed", case.path, "--compare", "10")
    assert status == 2
    assert "can't be looked up by key" in text
