"""Files in a store, which the audit has to find as the plan does."""

from __future__ import annotations

from pathlib import Path

from hybrid_extensions.audit.readers.file_views import AuditFiles
from sources.config.source.file_source import FileSource
from sources.storage.listing import find_files
from sources.storage.stores import Stores
from tests.hybrid_extensions.audit.audit_case import Case

NAMES = ("a/day=1/x", "a/day=2/y z+%20", "a/_x/z", "ab/w", "ab/u/v")
"""Files in the store, each of which contains its name."""
_PATTERNS = ("a", "a/*/*", "a*", "a*/**", "a/day=[12]/*", "ab/w", "*/u/*")


def require_the_same_files(case: Case, root: str, folder: Path, stores: Stores) -> None:
    """The audit finds the files of each pattern that the plan finds, and reads copies of them.

    Args:
        case: A pipeline that is audited.
        root: URL of the folder with the files.
        folder: Where copies may be made.
        stores: Clients of the plan.
    """
    for pattern in _PATTERNS:
        source = FileSource(type="files", name="h", path=f"{root}/{pattern}", format="parquet")
        planned = find_files("h", source.patterns, folder, stores)["path"].to_pylist()
        files = AuditFiles(case.loaded(), folder / "copies")
        copies = [files.local_path(path) for path in planned]
        assert files.find(source) == copies, pattern
        names = [path.removeprefix(f"{root}/") for path in planned]
        assert [Path(copy).read_text() for copy in copies] == names
