"""Local copies of files in remote stores, for readers that only read local files."""

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
        """Return the local path of a file's copy, made or not; a local path is unchanged."""
        return path if "://" not in path else str(self._folder / path.replace("://", "/", 1))

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
        if scheme == "s3":
            self._copy_from_s3(authority, prefix, copies)
        else:
            self._copy_from_store(f"{scheme}://{authority}/", prefix, copies)
        return str(copies / key)

    def _copy_from_s3(self, bucket: str, prefix: str, copies: Path) -> None:
        """Copy all objects of a bucket whose key begins with a prefix."""
        # boto3 takes a quarter of a second to import, and most pipelines don't need it.
        from sources.storage.objects.s3 import REFUSALS, connect, store_error  # noqa: PLC0415

        settings = self._pipeline.s3
        store = connect(settings)
        try:
            pages = store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            for item in (item for page in pages for item in page.get("Contents", [])):
                target = copies / item["Key"]
                if not item["Key"].endswith("/") and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    store.download_file(bucket, item["Key"], str(target))
        except REFUSALS as error:
            raise store_error(settings, f"s3://{bucket}/{prefix}*", "read", error) from None

    def _copy_from_store(self, root: str, prefix: str, copies: Path) -> None:
        """Copy all files of another store whose path below its root begins with a prefix.

        Lists everything below the prefix's last complete folder.
        """
        stores = self._pipeline.stores
        base = f"{root}{prefix.rpartition('/')[0]}".rstrip("/")
        for found in stores.folder(base).documents.listing(base):
            key = found.path.removeprefix(root)
            target = copies / key
            if key.startswith(prefix) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with stores.of(found.path).open(found.path) as file:
                    file.download(str(target))
