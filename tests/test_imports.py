"""What importing a module loads; `make lint` holds the direction of imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("orchestration.cli.main", "dagster"),
        # The model of declarations needs both.
        ("orchestration.cli.main", "pyarrow"),
        ("orchestration.cli.main", "sqlglot"),
        ("orchestration.supervision.status", "pandas"),
        ("hybrid_testing.plugin", "pyspark"),
        ("orchestration.operations.bounded_run", "pyspark"),
        ("spark_jobs.launch.run_control", "pyspark"),
    ],
)
def test_starting_a_command_does_not_load_what_it_does_not_need(
    module: str, forbidden: str
) -> None:
    code = f"import sys, {module}; sys.exit({forbidden!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_missing_java_is_named_before_the_demo_loads_dagster(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from orchestration.cli.main import app\n"
        "try:\n"
        "    app(['demo'])\n"
        "except SystemExit as end:\n"
        "    print(end.code, 'dagster' in sys.modules)\n"
    )
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["2", "False"]
    assert "No Java was found" in done.stderr
    assert not any(tmp_path.iterdir())


def test_nothing_beside_the_script_of_the_job_hides_a_module_of_python() -> None:
    # A script's own folder comes first where Python looks for modules.
    beside = {file.stem for file in (ROOT / "spark_jobs").glob("*.py")} - {"__init__"}
    assert beside & sys.stdlib_module_names == set()
