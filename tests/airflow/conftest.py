"""One Airflow with this project's provider for all tests in here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.installed import install, install_provider


@pytest.fixture(scope="session")
def programs() -> Path:
    """Folder of the programs of Airflow's environment."""
    return install()


@pytest.fixture(scope="session")
def packages(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which the provider is installed."""
    assert programs.exists()
    return install_provider(tmp_path_factory.mktemp("provider"))
