"""Settings of S3 and HDFS: endpoint, region, namenode, and how long their clients try."""

from __future__ import annotations

import os

from pydantic import Field, field_validator
from pydantic.config import JsonDict

from sources.common.fields import Declared

# With fifteen attempts, Hadoop's default, a wrong address fails after three minutes only. Four are
# enough for the moment in which one namenode takes over from another.
_PATIENCE = {"dfs.client.failover.max.attempts": "4"}
# By default delta-rs waits for a silent store for three minutes.
_DELTA_PATIENCE = {"retry_timeout": "30s"}


_FROM_ENVIRONMENT: JsonDict = {"environment": True}
"""Of a field whose default is a variable's value; the reference shows it."""


def _endpoint() -> str | None:
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _region() -> str:
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


class S3Settings(Declared):
    """Object store behind ``s3://``.

    Credentials come from the environment, as AWS clients find them.

    Attributes:
        endpoint: URL of the store, such as ``http://minio:9000``. By default the environment's
            ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``; without them Amazon S3.
        region: Region of the store. By default the environment's ``AWS_REGION`` or
            ``AWS_DEFAULT_REGION``; without them ``us-east-1``.
        path_style: Whether the bucket is part of the URL's path instead of its host name.

    """

    endpoint: str | None = Field(default_factory=_endpoint, json_schema_extra=_FROM_ENVIRONMENT)
    region: str = Field(default_factory=_region, json_schema_extra=_FROM_ENVIRONMENT)
    path_style: bool = True

    @property
    def delta_options(self) -> dict[str, str]:
        """Storage options of delta-rs for this address; without credentials, never empty."""
        options = {"AWS_REGION": self.region, **_DELTA_PATIENCE}
        if self.endpoint is not None:
            is_plain = self.endpoint.startswith("http://")
            options |= {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": str(is_plain)}
        style = "false" if self.path_style else "true"
        return {**options, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": style}


class HdfsSettings(Declared):
    """HDFS cluster behind ``hdfs://``, in addition to what ``HADOOP_CONF_DIR`` configures.

    Attributes:
        namenode: Namenode that ``hdfs:///…`` stands for: ``host``, ``host:port`` or a name
            service.
        conf: Properties of Hadoop's client, by name; they override those of ``HADOOP_CONF_DIR``.

    """

    namenode: str | None = None
    conf: dict[str, str] = Field(default_factory=dict)

    @field_validator("namenode")
    @classmethod
    def _is_an_authority(cls, value: str | None) -> str | None:
        if value is not None and (not value or "/" in value):
            message = (
                f"`{value}` is not a namenode: write host:port, or a name service, without scheme "
                "and path, such as `namenode:8020`."
            )
            raise ValueError(message)
        return value

    def absolute(self, path: str) -> str:
        """Return a path with its namenode: ``hdfs:///…`` gets the declared one, others stay.

        Args:
            path: A path of any storage.

        Raises:
            ValueError: The path needs a namenode, and none is declared.
        """
        if not path.startswith("hdfs:///"):
            return path
        if self.namenode is None:
            message = (
                f"`{path}` has no namenode: write hdfs://host:8020/…, or declare "
                "`hdfs: {namenode: host:8020}`."
            )
            raise ValueError(message)
        return f"hdfs://{self.namenode}/{path.removeprefix('hdfs:///')}"

    @property
    def client_conf(self) -> dict[str, str]:
        """Properties for HDFS clients other than Spark's; computed from ``conf``.

        With fewer connection attempts than Hadoop's default, so that a wrong address fails soon.
        """
        return {**_PATIENCE, **self.conf}
