"""The log of actions: what is in it was done, failed, or is shown as begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sources.errors import InputError, StateError
from sources.state.action_log import begin_action, end_action, read_actions, recorded
from sources.state.logged_changes import changes
from sources.storage.folder import Folder

ROOT = Path(__file__).parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from sources.state.action_log import recorded
from sources.storage.folder import Folder
home = Path(sys.argv[1])
with recorded(Folder(home), "pause", "ada", "g1", {"live run": "live"}) as after:
    (home / "done").touch()
    after["live run"] = "paused"
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_an_action_has_who_when_before_and_after(home: Folder) -> None:
    with recorded(home, "pause", " ada ", "g1", {"live run": "live"}) as after:
        [begun] = read_actions(home)
        assert (begun.outcome, begun.ended_ms) == ("begun", None)
        after["live run"] = "paused"
    [done] = read_actions(home)
    assert (done.number, done.action, done.by, done.generation) == (1, "pause", "ada", "g1")
    assert (done.before, done.after) == ({"live run": "live"}, {"live run": "paused"})
    assert done.outcome == "done"
    assert done.ended_ms is not None
    assert begun.at_ms <= done.ended_ms


def test_a_process_that_is_killed_leaves_its_action_as_begun(home: Folder) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, home.url],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert killed.returncode == -signal.SIGKILL
    assert home.exists("done")
    with recorded(home, "resume", "bob"):
        pass
    shown = [(each.number, each.action, each.outcome) for each in read_actions(home)]
    assert shown == [(1, "pause", "begun"), (2, "resume", "done")]


def test_an_action_that_fails_keeps_its_error_and_what_it_changed(home: Folder) -> None:
    def stop(error: BaseException) -> None:
        with recorded(home, "stop", None) as after:
            after["live run"] = "stopped"
            raise error

    with pytest.raises(InputError):
        stop(InputError("The run can't be ended.", "Try again."))
    with pytest.raises(KeyboardInterrupt):
        stop(KeyboardInterrupt())
    first, second = read_actions(home)
    assert (first.outcome, first.error) == ("failed", "The run can't be ended.")
    assert first.after == {"live run": "stopped"}
    assert (second.outcome, second.error) == ("failed", "interrupted")


def test_the_first_end_of_an_action_stays(home: Folder) -> None:
    number = begin_action(home, "promotion", "ada")
    end_action(home, number, "done", {"serving": "g2"})
    end_action(home, number, "given up", {"serving": "g1"})
    [found] = read_actions(home)
    assert (found.outcome, found.after) == ("done", {"serving": "g2"})


def test_of_actions_at_the_same_time_each_has_its_own_number(home: Folder) -> None:
    with ThreadPoolExecutor(16) as pool:
        numbers = list(pool.map(lambda n: begin_action(home, "rate", f"user {n}"), range(64)))
    assert sorted(numbers) == list(range(1, 65))
    found = read_actions(home)
    assert {each.by for each in found} == {f"user {n}" for n in range(64)}
    assert [each.number for each in read_actions(home, last=2)] == [63, 64]


def test_what_can_not_be_recorded_is_refused_unless_it_stops_a_run(home: Folder) -> None:
    # No folder can be made there, whoever runs this.
    (home.root / "actions").write_text("")
    done: list[str] = []

    def act(action: str, *, is_required: bool) -> None:
        with recorded(home, action, "ada", is_required=is_required) as after:
            after["live run"] = action
            done.append(action)

    with pytest.raises(StateError):
        act("pause", is_required=True)
    act("stop", is_required=False)
    assert done == ["stop"]


def test_changes_of_a_declaration_are_named_by_field() -> None:
    old = b"sources:\n- {name: live, topic: a, rate: {offsets: 5}}\nkey: [id]\n"
    new = b"sources:\n- {name: live, topic: a}\nkey: [id, at]  # wider\nswitch: warm\n"
    copies = {"p.yaml": old, "t.py": b"a = 1", "new.py": None}
    contents = {"p.yaml": new, "t.py": b"a = 2", "new.py": b"b = 1"}
    before, now = changes(copies, contents)
    assert before == {
        "sources.live.rate.offsets": "5",
        "key": "['id']",
        "switch": "not declared",
        "t.py": before["t.py"],
    }
    assert now["key"] == "['id', 'at']"
    assert now["sources.live.rate.offsets"] == "not declared"
    assert now["t.py"] != before["t.py"]
    assert changes({"p.yaml": None}, {"p.yaml": new}) == ({}, {})
    comment = {"p.yaml": new.replace(b"wider", b"as well")}
    assert changes({"p.yaml": new}, comment)[0] == {"p.yaml": "as before"}
