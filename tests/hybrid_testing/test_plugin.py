"""pytest finds the fixture of the project by itself, and starts no Spark for tests without it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path


def test_pytest_finds_the_fixture(tmp_path: Path) -> None:
    (found,) = [each for each in entry_points(group="pytest11") if each.name == "hybrid_testing"]
    assert found.value == "hybrid_testing.plugin"
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert 'pyspark' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "--fixtures", "--rootdir", ".", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "\nhybrid_spark [session scope]" in done.stdout
    command.remove("--fixtures")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
