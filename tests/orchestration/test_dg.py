"""Dagster's command line `dg`: in this repository, and in a new project that has this package."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.extensions import needs

ROOT = Path(__file__).parents[2]
PACKAGES = ["hybrid_extensions", "orchestration", "sources", "spark_jobs"]
COMPONENT = "orchestration.component.HybridPipeline"

pytestmark = pytest.mark.slow


class Project(NamedTuple):
    """A folder to call `dg` in; programs are those of this environment."""

    folder: Path
    imports: list[Path]
    home: Path

    def run(self, *words: str) -> str:
        """What a command prints."""
        (self.home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(map(str, self.imports)),
            "VIRTUAL_ENV": sys.prefix,
        }
        environment.pop("HYBRID_PIPELINES", None)
        done = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def keys(listed: str) -> set[str]:
    """Keys of the assets in the output of `dg list defs --json`."""
    document: Mapping[str, Any] = json.loads(listed[listed.index("{") :])
    return {each["asset_key"] for each in document["assets"]}


def test_dg_checks_and_lists_the_pipelines_of_this_repository(tmp_path: Path) -> None:
    here = Project(ROOT, [ROOT], tmp_path)
    assert "All definitions loaded" in here.run("dg", "check", "defs")
    listed = keys(here.run("dg", "list", "defs", "--json"))
    assert {"flight_events/live", "flight_delays/table", "kafka/flights"} <= listed


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package as a wheel installs it, and `create-dagster` in Dagster's version."""
    folder = tmp_path_factory.mktemp("packages")
    # pip builds in the folder that it installs from.
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    version = importlib.metadata.version("dagster")
    made = [str(folder / "source"), f"create-dagster=={version}"]
    into = ["--no-deps", "--target", str(folder / "installed")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *into, *made], check=True)
    return folder / "installed"


@needs("starter")
def test_two_pipelines_that_dg_scaffolds_in_a_new_project_share_a_folder_and_are_loaded_unedited(
    tmp_path: Path, packages: Path
) -> None:
    place = tmp_path / "shop"
    place.mkdir()
    project = Project(place, [packages, place / "src"], tmp_path)
    create = [sys.executable, str(packages / "bin" / "create-dagster"), "project", "."]
    project.run(*create, "--no-uv-sync")
    assert COMPONENT in project.run("dg", "list", "components", "--json")
    project.run("dg", "scaffold", "defs", COMPONENT, "orders")
    in_code = ["--format", "python", "--topic", "returned"]
    project.run("dg", "scaffold", "defs", COMPONENT, "returns", *in_code)
    assert "validated successfully" in project.run("dg", "check", "yaml")
    assert "All definitions loaded" in project.run("dg", "check", "defs")
    assert keys(project.run("dg", "list", "defs", "--json")) == {
        "files/data", "kafka/orders", "kafka/returned",
        *(
            f"{name}/{step}"
            for name in ("orders", "returns")
            for step in ("plan", "history", "live_handover", "live", "table", "progress")
        ),
    }  # fmt: skip
