"""An S3 server as a process of its own, which fails as it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.request import Request, urlopen

import boto3

from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from tests.services.versitygw import Versitygw

__all__ = ["LOGIN", "STORES", "client", "require_logins", "s3_server", "tell"]

Store = Literal["moto", "versitygw"]
STORES = ["moto", "versitygw"]
"""What tests of races run on: moto answers one request after the other, versitygw many at once."""


class _FailingS3(LocalS3):
    """The server with faults, and what is behind it."""

    def __init__(self, *store: str) -> None:
        super().__init__("tests.services.s3_app")
        self._store = store

    def _command(self, folder: Path, port: int) -> list[str]:
        return [*super()._command(folder, port), *self._store]


@contextmanager
def s3_server(store: Store = "moto") -> Iterator[str]:
    """Its endpoint; the server can be told to fail, whatever is behind it."""
    with ExitStack() as stack:
        behind = []
        if store == "versitygw":
            behind.append(stack.enter_context(Versitygw()).endpoint)
        yield stack.enter_context(_FailingS3(*behind)).endpoint


def require_logins(endpoint: str) -> dict[str, str]:
    """Let a server check signatures from now on; returns the one login that it accepts.

    Without this it takes any login for good
    (https://docs.getmoto.org/en/latest/docs/iam.html).
    """
    anyone = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    users = boto3.client("iam", endpoint_url=endpoint, region_name="us-east-1", **anyone)
    users.create_user(UserName="reader")
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    users.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=policy)
    key = users.create_access_key(UserName="reader")["AccessKey"]
    url, plain = f"{endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    urlopen(Request(url, b"0", plain, method="POST")).close()
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


def tell(endpoint: str, what: str, **fields: Any) -> Any:
    """Tell a server how to fail (``faults``, ``expire``), or ask it (``requests``, ``held``)."""
    body = json.dumps(fields).encode()
    with urlopen(Request(f"{endpoint}/_{what}", body, method="POST")) as answer:
        return json.loads(answer.read())
