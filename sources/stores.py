"""Which storage a path is in."""

from __future__ import annotations

from functools import cached_property

from sources.declared import Declared
from sources.errors import InputError
from sources.storage import LocalStorage, Storage


class S3Settings(Declared):
    """Which object store ``s3://`` means.

    Attributes:
        endpoint: Its URL, if it is not Amazon's.
        region: As its clients name it.
        path_style: Whether the bucket is written in the path, not in the host name.

    """

    endpoint: str | None = None
    region: str = "us-east-1"
    path_style: bool = True


class Stores:
    """The storages that a pipeline's paths may be in. Travels to Spark's tasks.

    Args:
        s3: Which object store ``s3://`` means.
    """

    def __init__(self, s3: S3Settings) -> None:
        self._s3 = s3

    def __reduce__(self) -> tuple[type[Stores], tuple[S3Settings]]:
        return Stores, (self._s3,)

    def of(self, path: str) -> Storage:
        """The storage of an absolute path.

        Raises:
            InputError: There is none for its scheme.
        """
        if path.startswith("s3://"):
            return self._objects
        if "://" in path:
            message = f"`{path}`: no storage is known by the name {path.partition('://')[0]}."
            raise InputError(message, "Name a local path, or s3://bucket/key.")
        return self._local

    def delta_options(self, path: str) -> dict[str, str] | None:
        """Options for delta-rs; None for a table on this machine. It finds logins as boto3 does."""
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
        from sources.s3 import S3Storage

        return S3Storage(self._s3)
