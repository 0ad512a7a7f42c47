"""The audit finds the files in HDFS that the plan found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hdfs_native import WriteOptions

from hybrid_extensions.hdfs.files import connect
from orchestration.audit.readers.files import AuditFiles
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.storage.listing import find_files
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores
from tests.orchestration.audit.audit_case import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.slow
def test_the_same_files_are_found_in_hdfs(case: Case, namenode: str, tmp_path: Path) -> None:
    client = connect(namenode, HdfsSettings())
    for name in ("a/day=1/x", "a/day=2/y z+%20", "a/_x/z", "ab/w", "ab/u/v"):
        with client.create(f"/audit/{name}", WriteOptions(create_parent=True)) as file:
            file.write(name.encode())
    root = f"hdfs://{namenode}/audit"
    for pattern in ("a", "a/*/*", "a*", "a*/**", "a/day=[12]/*", "ab/w", "*/u/*"):
        source = FileSource(type="files", name="h", path=f"{root}/{pattern}", format="parquet")
        planned = find_files("h", source.patterns, tmp_path, Stores(S3Settings()))["path"]
        files = AuditFiles(case.loaded(), tmp_path / "copies")
        copies = [files.local_path(path) for path in planned.to_pylist()]
        assert files.find(source) == copies, pattern
        names = [path.removeprefix(f"{root}/") for path in planned.to_pylist()]
        assert [Path(copy).read_text() for copy in copies] == names
    source = FileSource(type="files", name="h", path=f"{root}/gone/*", format="parquet")
    with pytest.raises(InputError, match="no file matches"):
        AuditFiles(case.loaded(), tmp_path / "none").find(source)
