"""How the storages that a pipeline declares are reached."""

from __future__ import annotations

from pydantic import Field, field_validator

from sources.common.fields import Declared

# Fifteen tries, Hadoop's default, are three minutes until a wrong address is told. Four outlast
# the moment in which one namenode takes over from another.
_PATIENCE = {"dfs.client.failover.max.attempts": "4"}


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


class HdfsSettings(Declared):
    """How ``hdfs://`` is reached, beyond what ``HADOOP_CONF_DIR`` says.

    Attributes:
        namenode: What ``hdfs:///…`` stands for: ``host``, ``host:port`` or a name service.
        conf: Properties of Hadoop's client; they win over those of ``HADOOP_CONF_DIR``.

    """

    namenode: str | None = None
    conf: dict[str, str] = Field(default_factory=dict)

    @field_validator("namenode")
    @classmethod
    def _is_an_authority(cls, value: str | None) -> str | None:
        if value is not None and (not value or "/" in value):
            message = "write host:port, or a name service, without scheme and path"
            raise ValueError(message)
        return value

    def absolute(self, path: str) -> str:
        """A path with its namenode.

        Raises:
            ValueError: It has none, and none is declared.
        """
        if not path.startswith("hdfs:///"):
            return path
        if self.namenode is None:
            message = (
                f"`{path}` names no namenode: write hdfs://host:8020/…, or declare "
                "`hdfs: {namenode: host:8020}`"
            )
            raise ValueError(message)
        return f"hdfs://{self.namenode}/{path.removeprefix('hdfs:///')}"

    @property
    def client_conf(self) -> dict[str, str]:
        """Properties for a client that is not Spark's."""
        return {**_PATIENCE, **self.conf}
