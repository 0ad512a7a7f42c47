"""The audit's own search for files, by globs: names that begin with `_` or `.` are no data.

It does not use :mod:`sources.storage.listing`, with which the plan searches, so that a file that
one of the two overlooks is reported as a difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import iglob
from pathlib import Path

from hybrid_extensions.audit.readers.local_copies import MAGIC

_NO_DATA = re.compile(r"\.|_[^=]*$|.*\._COPYING_$|\+tmp$")


def matching_files(pattern: str, folder: Path) -> Iterator[Path]:
    """Yield the files of this machine that a glob matches, and those in folders that it matches.

    As in Spark, names that begin with ``_`` or ``.`` are no data, be it the file's or that of a
    folder below the glob's fixed part, but for partition folders such as ``_day=1``; nor is what a
    sink or Hadoop has not completed (``…._COPYING_``, ``…+tmp``). Links to folders are followed.

    Args:
        pattern: The glob; a relative one starts at ``folder``.
        folder: Folder of the pipeline's file.
    """
    parts = (folder / Path(pattern.removeprefix("file://")).expanduser()).parts
    fixed = next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    base = Path(*parts[:fixed])
    pattern = str(Path(*parts[fixed:]))
    found = iglob(pattern, root_dir=base, recursive=True) if parts[fixed:] else [""]
    for match in map(base.joinpath, found):
        inside = [
            Path(place, name)
            for place, _, names in os.walk(match, followlinks=True)
            for name in names
        ]
        for file in inside if match.is_dir() else [match]:
            below = file.relative_to(base).parts
            if file.is_file() and not any(map(_NO_DATA.match, below)):
                yield file
