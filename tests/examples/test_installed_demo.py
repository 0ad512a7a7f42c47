"""The built package, away from any checkout: `hybrid demo` proves both tables right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the variables of a plain shell."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "JAVA_HOME") if name in os.environ}
    more = {name: value for name, value in os.environ.items() if name.startswith("HYBRID_")}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **more, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of an environment with the wheel, which shares the packages that it needs."""
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "environment" / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(folder / "environment")})
    build = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")
    # A build leaves files behind in its folder.
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "docs", "tests"))
    made = run(*build, "-w", folder, source, cwd=folder)
    assert made.returncode == 0, made.stderr
    [wheel] = folder.glob("*.whl")
    made = run(sys.executable, "-m", "venv", "--without-pip", python.parents[1], cwd=folder)
    assert made.returncode == 0, made.stderr
    # The packages below are found there, but not the checkout: its own file is not followed.
    (Path(own) / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps")
    made = run(*install, "--ignore-installed", wheel, cwd=folder)
    assert made.returncode == 0, made.stderr
    where = run(python, "-c", "import sources; print(sources.__file__)", cwd=folder)
    assert where.stdout.startswith(own), where
    return python.with_name("hybrid")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.e2e
def test_the_demo_of_the_wheel_ends_with_both_tables_proved(
    installed: Path, tmp_path: Path
) -> None:
    done = run(installed, "demo", "--no-ui", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Passed: the table is proved right.") == 2
    folder = tmp_path / "hybrid-demo"
    assert (folder / "pipelines" / "flights.py").exists()
    assert (folder / "tables" / "flight_events" / "_delta_log").is_dir()
    again = run(installed, "demo", "--no-ui", cwd=tmp_path)
    assert again.returncode == 2
    assert "--reset" in again.stderr


@pytest.mark.slow
def test_what_it_needs_is_said_before_anything_is_made(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apt-get").touch(mode=0o755)
    without = run(installed, "demo", cwd=tmp_path, PATH=str(tmp_path / "bin"), JAVA_HOME="")
    assert without.returncode == 2
    assert re.search(r"No Java was found.*`sudo apt-get install openjdk-\d+", without.stderr)
    assert not (tmp_path / "hybrid-demo").exists()
    own = tmp_path / "hybrid-demo" / "thesis.txt"
    own.parent.mkdir()
    own.write_text("of years")
    refused = run(installed, "demo", "--no-ui", "--reset", cwd=tmp_path)
    assert refused.returncode == 2
    assert "something else than a demo" in refused.stderr
    assert own.read_text() == "of years"
