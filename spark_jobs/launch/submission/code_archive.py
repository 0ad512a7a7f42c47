"""Archive of a pipeline's modules for executors that can't read its folder, 64 MiB at most."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sources.errors import InputError

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of the modules next to a pipeline's file that an archive may have."""


def write_code_archive(folders: Sequence[Path], archive: Path) -> Path:
    """Write a ZIP file of all Python modules of folders and of the packages in them; return it.

    For ``spark-submit --py-files``. Hidden folders, virtual environments and other folders that no
    import can name are left out.

    Args:
        folders: The folders; of two modules of one name the one in the earlier folder is taken.
        archive: The file to write.

    Raises:
        InputError: The modules have more than 64 MiB.
    """
    taken: set[str] = set()
    size = 0
    # Times before 1980, which ZIP does not know, come from reproducible builds.
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as made:
        for folder in folders:
            for path in _modules(folder):
                name = path.relative_to(folder).as_posix()
                if name in taken:
                    continue
                taken.add(name)
                for above in reversed(path.relative_to(folder).parents[:-1]):
                    # Without it Python finds no package that has no `__init__.py`.
                    if f"{above.as_posix()}/" not in taken:
                        taken.add(f"{above.as_posix()}/")
                        made.mkdir(above.as_posix())
                size += path.stat().st_size
                if size > MOST_BYTES:
                    message = (
                        f"The Python modules in {' and '.join(map(str, folders))} and below have "
                        f"more than {MOST_BYTES >> 20} MiB, and would be sent to each executor. No "
                        "driver was started."
                    )
                    hint = (
                        "Move the pipeline's file and its modules to a folder of their own, then "
                        "run it again: `hybrid run P`."
                    )
                    raise InputError(message, hint, file=str(folder))
                made.write(path, name)
    return archive


def _modules(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(
            name
            for name in folders
            if name.isidentifier()
            and name != "__pycache__"
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        # Editors leave links that lead nowhere, whose names begin with a dot.
        modules = (Path(place, name) for name in sorted(files) if name.endswith(".py"))
        yield from (path for path in modules if path.stem.isidentifier() and path.is_file())
