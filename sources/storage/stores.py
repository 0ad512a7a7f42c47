"""Which storage a path is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby

from sources.errors import InputError
from sources.storage.base import File, LocalStorage, Storage
from sources.storage.settings import HdfsSettings, S3Settings


class Stores:
    """The storages that a pipeline's paths may be in. Travels to Spark's tasks.

    Args:
        s3: Which object store ``s3://`` means.
        hdfs: How ``hdfs://`` is reached.
    """

    def __init__(self, s3: S3Settings, hdfs: HdfsSettings | None = None) -> None:
        self._s3 = s3
        self._hdfs = hdfs or HdfsSettings()

    def __reduce__(self) -> tuple[type[Stores], tuple[S3Settings, HdfsSettings]]:
        return Stores, (self._s3, self._hdfs)

    def of(self, path: str) -> Storage:
        """The storage of an absolute path.

        Raises:
            InputError: There is none for its scheme.
        """
        if path.startswith("s3://"):
            return self._objects
        if path.startswith("hdfs://"):
            return self._blocks
        if "://" in path:
            message = f"`{path}`: no storage is known by the name {path.partition('://')[0]}."
            hint = "Name a local path, s3://bucket/key, or hdfs://namenode/path."
            raise InputError(message, hint)
        return self._local

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Each file as it is now, in whatever storage; None for one that is not there.

        Raises:
            InputError: A storage can't be asked, or none is known by a path's scheme.
        """
        for storage, own in groupby(paths, self.of):
            yield from storage.stat(list(own))

    def delta_options(self, path: str) -> dict[str, str] | None:
        """Options for delta-rs; None for a table on this machine. It finds logins as boto3 does."""
        if path.startswith("hdfs://"):
            return self._hdfs.client_conf
        if not path.startswith("s3://"):
            return None
        options = {"AWS_REGION": self._s3.region}
        if self._s3.endpoint is not None:
            is_plain = self._s3.endpoint.startswith("http://")
            options |= {"AWS_ENDPOINT_URL": self._s3.endpoint, "AWS_ALLOW_HTTP": str(is_plain)}
        style = "false" if self._s3.path_style else "true"
        return {**options, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": style}

    @cached_property
    def _local(self) -> LocalStorage:
        return LocalStorage()

    @cached_property
    def _objects(self) -> Storage:
        # Only who needs it pays for importing boto3.
        from sources.storage.s3 import S3Storage

        return S3Storage(self._s3)

    @cached_property
    def _blocks(self) -> Storage:
        from sources.storage.hdfs import HdfsStorage

        return HdfsStorage(self._hdfs)
