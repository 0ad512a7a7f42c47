"""Files in an S3 store: listing, reading, repeated requests, and which errors are transient.

Credentials come from where boto3 looks for them (environment, profile, role of the machine;
https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html), never from a
pipeline's file (:mod:`hybrid_extensions.s3.login`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import boto3
import obstore
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ReadTimeoutError,
)
from botocore.exceptions import ConnectionError as StoreConnectionError
from obstore.exceptions import BaseError, GenericError
from obstore.store import S3Store
from pyarrow import fs

from hybrid_extensions.s3.login import (
    Login,
    current_login,
    environment_login,
    expired_login,
    expiry_reason,
    is_untold,
    login_session,
)
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.base import Children, File, hadoop_path, table_of, tail_of
from sources.storage.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import S3Config

_WORKERS = 32
_ATTEMPTS = 6
# A store that says nothing is given up after half a minute, before a supervision's look is: boto3's
# own limits of 60 s would add up to six minutes. A lease survives one connection that has died.
_CONNECT_S, _ANSWER_S = 5, 10
_SILENT_ATTEMPTS = 3
REFUSALS = (BotoCoreError, ClientError)
"""What boto3 raises where a store does not answer, or refuses."""
DENIED = {"403", "AccessDenied"}
"""Codes of the store's answer where the login has no permission."""
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
        self._buckets: dict[tuple[str, Any], S3Store] = {}
        self._reader: tuple[Any, fs.S3FileSystem] | None = None

    def __reduce__(self) -> tuple[type[S3Storage], tuple[S3Settings]]:
        # Clients and credentials are not passed on: each process has its own.
        return S3Storage, (self._settings,)

    def children(self, folder: str) -> Children:
        """Return the objects and prefixes directly below a prefix; empty if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        bucket, prefix = split(folder)
        # Below a bucket there may be keys that begin with a slash.
        prefix = f"{prefix}/" if prefix or folder.endswith(f"//{bucket}/") else ""
        folders: list[str] = []

        def files() -> Iterator[File]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, Delimiter="/"
            )
            for page in pages:
                # Not all slashes: below `in/` there may be keys that begin with `in//`.
                names = (part["Prefix"][:-1] for part in page.get("CommonPrefixes", []))
                folders.extend(f"s3://{bucket}/{name}" for name in names)
                for item in page.get("Contents", []):
                    if item["Key"] != prefix:
                        yield _described(bucket, item["Key"], item["Size"], item)

        try:
            return Children(folders, table_of(files()))
        except REFUSALS as error:
            raise store_error(self._settings, folder, "listed", error) from None

    def version(self, _: str) -> Sequence[int]:
        """Return nothing: prefixes of objects have no version."""
        return ()

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
        before = login_keys(self._settings, path, "opened")
        try:
            return self._files(before).open_input_file(f"{bucket}/{key}")
        except FileNotFoundError:
            raise
        except OSError as error:
            # Arrow's error has no type that says why: boto3's has, and it renews the login.
            self._head(path, "opened")
            if login_keys(self._settings, path, "opened") != before:
                return self.open(path)
            raise store_error(self._settings, path, "opened", error) from None

    def tail(self, path: str, size: int) -> bytes:
        """Return the last ``size`` bytes of an object by one request; all of a shorter one.

        Raises:
            FileNotFoundError: The object does not exist.
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, or there are no credentials.
        """
        bucket, key = split(path)
        login = login_keys(self._settings, path, "opened")
        for _ in range(0 if login is None else _ATTEMPTS):
            try:
                store = self._bucket(bucket, login)
                found = obstore.get(store, key, options={"range": {"suffix": size}})
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

    def _bucket(self, name: str, login: Any) -> S3Store:
        """Return a bucket as obstore reads it, with the credentials that it is made with."""
        if (name, login) not in self._buckets:
            settings = self._settings
            config: S3Config = {
                "region": settings.region,
                "access_key_id": login.access_key,
                "secret_access_key": login.secret_key,
            }
            if login.token is not None:
                config["session_token"] = login.token
            if settings.endpoint is not None:
                scheme, host = settings.endpoint.split("://", 1)
                # The library takes the endpoint as the bucket's, unless it is part of the path.
                at = host if settings.path_style else f"{name}.{host}"
                config["endpoint"] = f"{scheme}://{at}"
            self._buckets[name, login] = S3Store(
                name,
                config=config,
                virtual_hosted_style_request=not settings.path_style,
                client_options={"allow_http": True},
                retry_config={"max_retries": 4},
            )
        return self._buckets[name, login]

    def _files(self, login: Any) -> fs.S3FileSystem:
        """Return Arrow's file system, which keeps the credentials that it is made with."""
        if self._reader is not None and self._reader[0] == login:
            return self._reader[1]
        if login is None:
            raise store_error(self._settings, "s3://", "opened", "there are no credentials")
        where = urlsplit(self._settings.endpoint or "")
        made = fs.S3FileSystem(
            access_key=login.access_key,
            secret_key=login.secret_key,
            session_token=login.token,
            region=self._settings.region,
            endpoint_override=where.netloc or None,
            scheme=where.scheme or "https",
            force_virtual_addressing=not self._settings.path_style,
        )
        self._reader = login, made
        return made


def login_keys(settings: S3Settings, path: str, what: str) -> Any:
    """Return boto3's present credentials: access key, secret key and token; None without a login.

    Secret: never printed or kept.

    Args:
        settings: Address of the store.
        path: File or folder that they are for, for the message of an error.
        what: What fails without them, for the message: a participle, such as ``opened``.

    Raises:
        InputError: The credentials are not usable.
        UnavailableError: The login has expired, or can't be looked up now.
    """
    try:
        return current_login().get_frozen_credentials()
    except REFUSALS as error:
        raise store_error(settings, path, what, error) from None


def store_error(settings: S3Settings, path: str, what: str, why: object) -> HybridError:
    """Return the error to raise where an object store refuses or does not answer.

    Args:
        settings: Address of the store.
        path: File or folder.
        what: What can't be done with it: a participle, such as ``listed``.
        why: What boto3 raised, or the reason in words.

    Returns:
        An :class:`UnavailableError` if waiting may help (no connection, throttling, status 5xx, a
        login that has expired), otherwise an :class:`InputError`.
    """
    where = settings.endpoint or "Amazon S3"
    if (reason := expiry_reason(why)) is not None:
        return expired_login(where, path, what, reason)
    message = f"{path} can't be {what} at {where}: {str(why).rstrip('.')}."
    if _is_outage(why):
        hint = (
            f"Check that the store {where} runs and can be reached from this machine "
            "(`s3.endpoint`), then try again."
        )
        return UnavailableError(message, hint, server=where, file=path)
    return InputError(message, _way_out(why, path), server=where, file=path)


def _way_out(why: object, path: str) -> str:
    """Return what to do about a refusal of a store, by the code of its answer."""
    answer = why.response if isinstance(why, ClientError) else {}
    code = answer.get("Error", {}).get("Code")
    if code == "NoSuchBucket":
        return f"Correct the bucket in {path}, or `s3.endpoint`; or create the bucket."
    credentials = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    if code in DENIED:
        return (
            f"Grant the credentials in use ({credentials}) permission for {path}: to list and read "
            "it, and, in a state folder or a table that is written to, also to write and delete. "
            "Or set other credentials."
        )
    return (
        f"Set the credentials of this store ({credentials}). If they are right, correct "
        "`s3.endpoint`, or the bucket in the path."
    )


def _is_outage(error: object) -> bool:
    """Return whether a store did not answer, or can't serve the request at the moment."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return _asks_to_wait(status, error.response["Error"].get("Code"))
    damaged = IncompleteReadError | FlexibleChecksumError
    return isinstance(error, StoreConnectionError | HTTPClientError | damaged)


def _asks_to_wait(status: int, code: str | None) -> bool:
    # 501: a store that lacks a feature of Amazon's lacks it the next time, too.
    return (status >= 500 and status != 501) or code in _THROTTLED


def head(settings: S3Settings, path: str, what: str = "examined") -> dict[str, Any] | None:
    """Return the metadata of an object as boto3's ``head_object`` does; None if it does not exist.

    Args:
        settings: Address of the store.
        path: The object, ``s3://bucket/key``.
        what: What fails if the store refuses, for the message: a participle, such as ``examined``.

    Raises:
        InputError: The store refuses.
        UnavailableError: The store does not answer.
    """
    bucket, key = split(path)
    client = connect(settings)
    found: dict[str, Any]
    try:
        try:
            found = client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if not is_untold(error):
                raise
            # The same request as GET, whose answer contains the reason.
            found = client.get_object(Bucket=bucket, Key=key)
            found["Body"].close()
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            return None
        raise store_error(settings, path, what, error) from None
    except BotoCoreError as error:
        raise store_error(settings, path, what, error) from None
    return found


def connect(settings: S3Settings) -> Any:
    """Return boto3's client for an object store; callers with the same login share it.

    Nothing is connected yet. It repeats a failed request up to five times; one without an answer
    within 10 s twice.

    Args:
        settings: Address of the store.
    """
    # Variables such as AWS_PROFILE may change while a process runs.
    return _client(settings, environment_login(), current_login())


@cache
def _client(settings: S3Settings, _environment: tuple[tuple[str, str], ...], login: Login) -> Any:
    style = "path" if settings.path_style else "virtual"
    config = Config(
        s3={"addressing_style": style},
        # Those of boto3 end after some hundred lost requests of a process: only answers with
        # content refill its quota, and most of what a supervision asks for is not there.
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=_WORKERS,
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
    )
    session = boto3.Session(region_name=settings.region, botocore_session=login_session(login))
    client = session.client("s3", endpoint_url=settings.endpoint, config=config)
    client.meta.events.register("needs-retry.s3", _ask_again)
    return client


def _ask_again(
    response: Any,
    operation: Any,
    attempts: int,
    caught_exception: Exception | None = None,
    **_others: object,
) -> float | None:
    """Let boto3 repeat a request that got no answer, a part of one, or one that asks to wait.

    By itself boto3 takes an answer without a byte for an empty one: a listing would have no files
    (``enforce_content_length=False`` in ``botocore.httpsession``).

    Args:
        response: The answer as botocore has received and as it has parsed it; None if there is
            none.
        operation: What was asked (botocore's ``OperationModel``).
        attempts: Number of this request's attempts.
        caught_exception: Why there is no answer; None if there is one.

    Returns:
        Seconds until the next attempt; None if this answer, or its absence, counts.
    """
    if response is None:
        is_silence = isinstance(caught_exception, (ConnectTimeoutError, ReadTimeoutError))
        most = _SILENT_ATTEMPTS if is_silence else _ATTEMPTS
        return _pause_s(attempts) if _is_outage(caught_exception) and attempts < most else None
    answer, parsed = response
    if _asks_to_wait(answer.status_code, parsed.get("Error", {}).get("Code")):
        return _pause_s(attempts) if attempts < _ATTEMPTS else None
    # boto3 itself watches over the length of content that is read as a stream.
    if operation.has_streaming_output or operation.http["method"] == "HEAD":
        return None
    length = int(answer.headers.get("content-length") or 0)
    if len(answer.content) >= length:
        return None
    if attempts >= _ATTEMPTS:
        raise IncompleteReadError(actual_bytes=len(answer.content), expected_bytes=length)
    return _pause_s(attempts)


def _pause_s(attempts: int) -> float:
    """Return a random time that doubles at most with each attempt, as boto3 waits, too."""
    return random.random() * 2.0 ** (attempts - 1)


def split(path: str) -> tuple[str, str]:
    """Split ``s3://bucket/key`` into bucket and key; the key is empty for a whole bucket."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def _described(bucket: str, key: str, size: int, item: dict[str, Any]) -> File:
    modified_ns = int(item["LastModified"].timestamp() * 1000) * 1_000_000
    return File(f"s3://{bucket}/{key}", size, modified_ns, item["ETag"].strip('"'))
