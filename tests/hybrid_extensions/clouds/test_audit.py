"""The audit finds the files in Azure that the plan found."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.servers.azurite import LocalAzurite
from orchestration.audit.readers.files import AuditFiles
from sources.config.source.file_source import FileSource
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.orchestration.audit.audit_case import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.slow
def test_the_same_files_are_found_in_azure(
    case: Case, azurite: LocalAzurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in azurite.login.items():
        monkeypatch.setenv(name, value)
    stores = Stores(S3Settings())
    root = stores.folder(azurite.create_container("audit"))
    for name in ("a/day=1/x", "a/day=2/y z+%20", "a/_x/z", "ab/w", "ab/u/v"):
        root.replace_bytes(name, name.encode())
    for pattern in ("a", "a/*/*", "a*", "a*/**", "a/day=[12]/*", "ab/w", "*/u/*"):
        source = FileSource(type="files", name="h", path=root.location(pattern), format="parquet")
        planned = find_files("h", source.patterns, tmp_path, stores)["path"].to_pylist()
        files = AuditFiles(case.loaded(), tmp_path / "copies")
        copies = [files.local_path(path) for path in planned]
        assert files.find(source) == copies, pattern
        names = [path.removeprefix(f"{root}/") for path in planned]
        assert [Path(copy).read_text() for copy in copies] == names
