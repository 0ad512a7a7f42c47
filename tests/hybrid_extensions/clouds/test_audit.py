"""The audit finds the files in Azure that the plan found."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.servers.azurite import LocalAzurite
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.hybrid_extensions.audit.audit_case import Case
from tests.hybrid_extensions.audit.found_files import NAMES, require_the_same_files


@pytest.mark.slow
def test_the_same_files_are_found_in_azure(
    azurite: LocalAzurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in azurite.login.items():
        monkeypatch.setenv(name, value)
    stores = Stores(S3Settings())
    root = stores.folder(azurite.create_container("audit"))
    for name in NAMES:
        root.replace_bytes(name, name.encode())
    require_the_same_files(Case(tmp_path), root.url, tmp_path, stores)
