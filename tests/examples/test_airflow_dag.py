"""The Airflow example: a task a step, in order, and commands that the command line knows.

Airflow itself is no dependency: its two classes are stood in for by ones that write down what they
are given.
"""

from __future__ import annotations

import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestration.chain import steps_of
from orchestration.cli.main import app
from sources.config.loader import load_pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"


class Task:
    made: list[Task]

    def __init__(self, *, task_id: str, bash_command: str) -> None:
        self.name, self.command = task_id, shlex.split(bash_command)
        self.after: list[str] = []
        Task.made.append(self)

    def __rshift__(self, other: Task) -> None:
        other.after.append(self.name)


class Dag:
    def __init__(self, name: str, **settings: Any) -> None:
        self.name, self.settings = name, settings

    def __enter__(self) -> Dag:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    Task.made = []
    made: dict[str, dict[str, object]] = {
        "airflow": {},
        "airflow.sdk": {"DAG": Dag},
        "airflow.providers": {},
        "airflow.providers.standard": {},
        "airflow.providers.standard.operators": {},
        "airflow.providers.standard.operators.bash": {"BashOperator": Task},
    }
    for name, content in made.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("PIPELINE", str(EXAMPLES / "flight_events.yaml"))
    runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    return Task.made


def test_each_step_of_the_chain_is_a_task_after_the_one_before(tasks: list[Task]) -> None:
    steps = [step.name for step in steps_of(load_pipeline(EXAMPLES / "flight_events.yaml"))]
    assert [task.name for task in tasks] == [*steps, "watch"]
    assert [task.after for task in tasks] == [[], *([each.name] for each in tasks[:-1])]


def test_its_commands_are_those_of_the_command_line(tasks: list[Task]) -> None:
    for task in tasks:
        assert task.command[0] == "hybrid"
        answer = CliRunner().invoke(app, [*task.command[1:], "--help"])
        assert answer.exit_code == 0, answer.output
