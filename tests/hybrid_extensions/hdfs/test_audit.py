"""The audit finds the files in HDFS that the plan found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hdfs_native import WriteOptions

from hybrid_extensions.audit.readers.file_views import AuditFiles
from hybrid_extensions.hdfs.files import connect
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores
from tests.hybrid_extensions.audit.audit_case import Case
from tests.hybrid_extensions.audit.found_files import NAMES, require_the_same_files


@pytest.mark.slow
def test_the_same_files_are_found_in_hdfs(namenode: str, tmp_path: Path) -> None:
    case, root = Case(tmp_path), f"hdfs://{namenode}/audit"
    client = connect(namenode, HdfsSettings())
    for name in NAMES:
        with client.create(f"/audit/{name}", WriteOptions(create_parent=True)) as file:
            file.write(name.encode())
    require_the_same_files(case, root, tmp_path, Stores(S3Settings()))
    source = FileSource(type="files", name="h", path=f"{root}/gone/*", format="parquet")
    with pytest.raises(InputError, match="no file matches"):
        AuditFiles(case.loaded(), tmp_path / "none").find(source)
