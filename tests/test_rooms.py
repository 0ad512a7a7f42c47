"""Dependencies point one way: orchestration → spark_jobs → sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "sources": {"sources"},
    "spark_jobs": {"spark_jobs", "sources"},
    "services": {"services", "spark_jobs", "sources"},
    "orchestration": {"orchestration", "services", "spark_jobs", "sources"},
}
FOREIGN = {
    "sources": {"pyspark", "dagster", "dagster_pipes"},
    "spark_jobs": {"dagster"},
    "services": {"dagster", "pyspark"},
    "orchestration": {"pyspark"},
}


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    for file in (ROOT / room).rglob("*.py"):
        names = imported(file)
        assert names & set(ALLOWED) <= ALLOWED[room], file
        assert not names & FOREIGN[room], file


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("orchestration.cli", "dagster"),
        ("orchestration.chain", "pyspark"),
        ("spark_jobs.process", "pyspark"),
    ],
)
def test_starting_a_command_does_not_load_what_it_does_not_need(
    module: str, forbidden: str
) -> None:
    code = f"import sys, {module}; sys.exit({forbidden!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_nothing_beside_the_script_of_the_job_hides_a_module_of_python() -> None:
    # A script's own folder comes first where Python looks for modules.
    beside = {file.stem for file in (ROOT / "spark_jobs").glob("*.py")} - {"__init__"}
    assert beside & sys.stdlib_module_names == set()
