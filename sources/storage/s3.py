"""Files in an object store with the S3 API: boto3 lists them, Arrow reads them.

Credentials come from where boto3 looks for them (environment, profile, role of the machine;
https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html), never from a
pipeline's file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import boto3
import obstore
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as StoreConnectionError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import BaseError, GenericError
from obstore.store import S3Store
from pyarrow import fs

from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.base import Children, File, hadoop_path, table_of, tail_of
from sources.storage.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import S3Config

_WORKERS = 32
_ATTEMPTS = 5
_PAUSE_S = 0.2
_LOGIN_TTL = timedelta(seconds=60)
"""How long a login is used before boto3 is asked for it again."""
REFUSALS = (BotoCoreError, ClientError)
"""What boto3 raises where a store does not answer, or refuses."""
MISSING = {"404", "NoSuchKey", "NotFound"}
"""Codes of the store's answer where there is no object of that key."""
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_THROTTLED = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"}


class S3Storage:
    """Storage of ``s3://`` paths: an object store with the S3 API; connects at first use.

    Args:
        settings: Address of the store.
    """

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._buckets: dict[str, S3Store] = {}

    def __reduce__(self) -> tuple[type[S3Storage], tuple[S3Settings]]:
        # Clients and credentials are not passed on: each process has its own.
        return S3Storage, (self._settings,)

    def children(self, folder: str) -> Children:
        """Return the objects and prefixes directly below a prefix; none if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        bucket, prefix = split(folder)
        prefix = f"{prefix}/" if prefix else ""
        folders: list[str] = []

        def files() -> Iterator[File]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, Delimiter="/"
            )
            for page in pages:
                names = (part["Prefix"].rstrip("/") for part in page.get("CommonPrefixes", []))
                folders.extend(f"s3://{bucket}/{name}" for name in names)
                for item in page.get("Contents", []):
                    if item["Key"] != prefix:
                        yield _described(bucket, item["Key"], item["Size"], item)

        try:
            return Children(folders, table_of(files()))
        except REFUSALS as error:
            raise refused(self._settings, folder, "listed", error) from None

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size, modification time and ETag of each object as it is now, in the given order.

        None stands for an object that does not exist. Up to 32 objects are asked for at once.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        with ThreadPoolExecutor(_WORKERS) as pool:
            yield from pool.map(self._head, paths)

    def open(self, path: str) -> pa.NativeFile:
        """Open an object for reading at any position; the caller closes it.

        Raises:
            FileNotFoundError: The object does not exist.
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, or there are no credentials.
        """
        bucket, key = split(path)
        try:
            return self._files.open_input_file(f"{bucket}/{key}")
        except FileNotFoundError:
            raise
        except OSError as error:
            # Arrow's error has no type that says why: boto3's has.
            self._head(path, "opened")
            raise refused(self._settings, path, "opened", error) from None

    def tail(self, path: str, size: int) -> bytes:
        """Return the last bytes of an object, all of them if it is shorter, with one request.

        Raises:
            OSError, UnavailableError, InputError: As :meth:`open`.
        """
        bucket, key = split(path)
        for _ in range(_ATTEMPTS):
            try:
                found = obstore.get(self._bucket(bucket), key, options={"range": {"suffix": size}})
                return bytes(found.bytes())
            except GenericError:
                # The library repeats requests, but not the reading of an answer's body.
                continue
            except (BaseError, OSError, ValueError):
                break
        # An object without a byte has no range; and what is refused says why when opened.
        with self.open(path) as file:
            return tail_of(file, size)

    def uri(self, path: str) -> str:
        """Return the URI by which Spark reads a path: Hadoop's client has the scheme ``s3a``."""
        bucket, key = split(path)
        return hadoop_path(f"s3://{bucket}/{quote(key)}")

    def _head(self, path: str, what: str = "examined") -> File | None:
        bucket, key = split(path)
        if not key:
            return None
        found = head(self._settings, path, what)
        return None if found is None else _described(bucket, key, found["ContentLength"], found)

    @cached_property
    def _client(self) -> Any:
        return connect(self._settings)

    def _bucket(self, name: str) -> S3Store:
        if name not in self._buckets:
            settings = self._settings
            config: S3Config = {"region": settings.region}
            if settings.endpoint is not None:
                scheme, host = settings.endpoint.split("://", 1)
                # The library takes the endpoint as the bucket's, unless it is part of the path.
                at = host if settings.path_style else f"{name}.{host}"
                config["endpoint"] = f"{scheme}://{at}"
            self._buckets[name] = S3Store(
                name,
                config=config,
                virtual_hosted_style_request=not settings.path_style,
                client_options={"allow_http": True},
                retry_config={"max_retries": 4},
                credential_provider=Boto3CredentialProvider(ttl=_LOGIN_TTL),
            )
        return self._buckets[name]

    @cached_property
    def _files(self) -> fs.S3FileSystem:
        login = boto3.Session().get_credentials()
        if login is None:
            raise refused(self._settings, "s3://", "opened", "there are no credentials")
        known = login.get_frozen_credentials()
        where = urlsplit(self._settings.endpoint or "")
        return fs.S3FileSystem(
            access_key=known.access_key,
            secret_key=known.secret_key,
            session_token=known.token,
            region=self._settings.region,
            endpoint_override=where.netloc or None,
            scheme=where.scheme or "https",
            force_virtual_addressing=not self._settings.path_style,
        )


def refused(settings: S3Settings, path: str, what: str, why: object) -> HybridError:
    """Return the error to raise where an object store does not answer, or refuses.

    Args:
        settings: Address of the store.
        path: File or folder.
        what: What can't be done with it: a participle, such as ``listed``.
        why: What boto3 raised, or the reason in words.

    Returns:
        An :class:`UnavailableError` if waiting may help (no connection, throttling, status 5xx),
        otherwise an :class:`InputError`.
    """
    where = settings.endpoint or "Amazon S3"
    message = f"{path} can't be {what} at {where}: {str(why).rstrip('.')}."
    if _is_outage(why):
        hint = (
            f"Check that the store {where} runs and can be reached from this machine "
            "(`s3.endpoint`), then repeat the command that failed."
        )
        return UnavailableError(message, hint, server=where, file=path)
    hint = (
        "Correct `s3.endpoint`, the bucket in the path, or the credentials (AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE), or grant them permission to list and read it."
    )
    return InputError(message, hint, server=where, file=path)


def _is_outage(error: object) -> bool:
    """Return whether a store did not answer, or can't serve the request at the moment."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or error.response["Error"].get("Code") in _THROTTLED
    return isinstance(error, StoreConnectionError | HTTPClientError | IncompleteReadError)


def head(settings: S3Settings, path: str, what: str = "examined") -> dict[str, Any] | None:
    """Return what boto3 tells of an object without its content.

    Args:
        settings: Address of the store.
        path: The object.
        what: What could not be done if the store refuses, for the message.

    Returns:
        boto3's answer to ``head_object``; None if there is no such object.

    Raises:
        UnavailableError: The store does not answer, or can't serve the request at the moment.
        InputError: The store refuses, for example without permission.
    """
    bucket, key = split(path)
    try:
        found: dict[str, Any] = connect(settings).head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            return None
        raise refused(settings, path, what, error) from None
    except BotoCoreError as error:
        raise refused(settings, path, what, error) from None
    return found


def connect(settings: S3Settings) -> Any:
    """Return the client of boto3 for an object store; all callers with one login share it.

    Nothing is connected yet. It repeats a failed request up to four times.

    Args:
        settings: Address of the store.
    """
    # Variables such as AWS_PROFILE may change while a process runs.
    login = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    return _client(settings, tuple(sorted(login.items())))


@cache
def _client(settings: S3Settings, _login: tuple[tuple[str, str], ...]) -> Any:
    style = "path" if settings.path_style else "virtual"
    config = Config(
        s3={"addressing_style": style},
        retries={"mode": "standard", "max_attempts": _ATTEMPTS},
        max_pool_connections=_WORKERS,
    )
    client = boto3.Session(region_name=settings.region).client(
        "s3", endpoint_url=settings.endpoint, config=config
    )
    client.meta.events.register("needs-retry.s3", _ask_again_if_cut_off)
    return client


def _ask_again_if_cut_off(
    response: Any, operation: Any, attempts: int, **_others: object
) -> float | None:
    """Let boto3 repeat a request whose answer ended before the length in its header.

    By itself boto3 takes an answer without a byte for an empty one: a listing would have no files
    (``enforce_content_length=False`` in ``botocore.httpsession``).

    Args:
        response: The answer as botocore has received and as it has parsed it; None if there is
            none.
        operation: What was asked (botocore's ``OperationModel``).
        attempts: Number of this request's attempts.

    Returns:
        Seconds until the next attempt; None if nothing is missing.

    Raises:
        IncompleteReadError: The last attempt was cut off, too.
    """
    # boto3 itself watches over the length of content that is read as a stream.
    if response is None or operation.has_streaming_output or operation.http["method"] == "HEAD":
        return None
    answer, _ = response
    length = int(answer.headers.get("content-length") or 0)
    if len(answer.content) >= length:
        return None
    if attempts >= _ATTEMPTS:
        raise IncompleteReadError(actual_bytes=len(answer.content), expected_bytes=length)
    return _PAUSE_S * attempts


def split(path: str) -> tuple[str, str]:
    """Return the bucket and the key of an ``s3://`` path; the key may be empty."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def _described(bucket: str, key: str, size: int, item: dict[str, Any]) -> File:
    modified_ns = int(item["LastModified"].timestamp() * 1000) * 1_000_000
    return File(f"s3://{bucket}/{key}", size, modified_ns, item["ETag"].strip('"'))
