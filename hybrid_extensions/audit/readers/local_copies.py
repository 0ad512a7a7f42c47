"""Copies of S3's and HDFS's files on this machine, for DuckDB: each once, paths shown as URLs."""

from __future__ import annotations

import re
from pathlib import Path

from sources.config.pipeline import Pipeline

MAGIC = re.compile(r"[*?\[]")
"""Characters that make a part of a path a glob."""


class Copies:
    """Local copies of the files that globs in remote stores match, for DuckDB to read.

    Args:
        pipeline: Declares how to reach the stores.
        folder: Local folder of the copies; each lies at ``<scheme>/<bucket or namenode>/<path>``.
    """

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self._pipeline = pipeline
        self._folder = folder

    def local_path(self, path: str) -> str:
        """Return the local path of a file's copy, made or not; without a scheme it is unchanged."""
        return path if "://" not in path else str(self._folder / path.replace("://", "/", 1))

    def as_declared(self, text: str) -> str:
        """Return a text in which the paths of copies are the URLs of their files.

        Other text is unchanged.
        """
        return re.sub(rf"{re.escape(str(self._folder))}/(\w+)/", r"\1://", text)

    def local_pattern(self, pattern: str) -> str:
        """Copy all files that a glob may match, and return the glob over the copies.

        A glob of local files is returned without its scheme, and nothing is copied. Files that were
        copied before are not copied again. Copies of more files than the glob matches are harmless:
        the returned glob leaves them out.

        Raises:
            InputError: The store refuses, or there is no such bucket.
            UnavailableError: The store does not answer.
        """
        if "://" not in pattern or pattern.startswith("file://"):
            return pattern.removeprefix("file://")
        scheme, _, rest = pattern.partition("://")
        authority, _, key = rest.partition("/")
        prefix = key[: match.start()] if (match := MAGIC.search(key)) else key
        copies = self._folder / scheme / authority
        self._copy(f"{scheme}://{authority}/", prefix, copies)
        return str(copies / key)

    def _copy(self, root: str, prefix: str, copies: Path) -> None:
        """Copy all files of a store whose path below its root begins with a prefix.

        Lists everything below the prefix's last complete folder.
        """
        stores = self._pipeline.stores
        base = f"{root}{prefix.rpartition('/')[0]}".rstrip("/")
        for found in stores.folder(base).documents.listing(base):
            key = found.path.removeprefix(root)
            target = copies / key
            # In an object store a key with a slash at its end stands for a folder.
            if key.startswith(prefix) and not key.endswith("/") and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with stores.of(found.path).open(found.path) as file:
                    file.download(str(target))
