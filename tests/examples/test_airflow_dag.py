"""The Airflow example names the steps of its pipeline; `tests/airflow` runs it for real."""

from __future__ import annotations

import ast
from pathlib import Path

from orchestration.chain import steps_of
from sources.config.loader import load_pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_each_step_of_the_chain_is_a_task_in_order() -> None:
    calls = [
        node
        for node in ast.walk(ast.parse((EXAMPLES / "airflow_dag.py").read_text()))
        if isinstance(node, ast.Call)
    ]
    named = [
        keyword.value.value
        for call in sorted(calls, key=lambda call: call.lineno)
        for keyword in call.keywords
        if keyword.arg == "step" and isinstance(keyword.value, ast.Constant)
    ]
    assert named == [step.name for step in steps_of(load_pipeline(EXAMPLES / "flight_events.yaml"))]
