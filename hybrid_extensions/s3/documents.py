"""Documents in an object store with the S3 API, written with conditional requests.

A store that ignores the conditions would lose documents silently; :mod:`sources.storage.probe`
finds out. https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from hybrid_extensions.s3.files import (
    MISSING,
    REFUSALS,
    S3Storage,
    connect,
    head,
    login_keys,
    split,
    store_error,
)
from sources.storage.documents import Document, Listed
from sources.storage.settings import S3Settings

_PRECONDITION = {"412", "PreconditionFailed"}
# Two conditional requests for one key met: the store asks to repeat the later one.
_CONFLICT = {"409", "ConditionalRequestConflict"}
_TRIES = 5
_PAGE = 1000
"""Objects that one request deletes at most."""


class S3Documents:
    """Documents of ``s3://`` paths; connects at first use.

    Args:
        settings: Address of the store.
    """

    deletes_at_once = False

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings

    def __reduce__(self) -> tuple[type[S3Documents], tuple[S3Settings]]:
        # Clients and credentials are not passed on: each process has its own.
        return S3Documents, (self._settings,)

    @property
    def delta_options(self) -> dict[str, str]:
        """Storage options with which delta-rs opens a Delta table in this store, with the login.

        delta-rs keeps them, so they are made again for each table that is opened. Never printed.

        Raises:
            UnavailableError: The login has expired, and can't be renewed at the moment.
            InputError: There are no credentials that can be used.
        """
        login = login_keys(self._settings, "s3://", "opened")
        keys = {} if login is None else _delta_keys(login)
        return {**self._settings.delta_options, **keys}

    def read(self, path: str) -> Document | None:
        """Return a document; None if it does not exist.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        bucket, key = split(path)
        for attempt in range(1, _TRIES + 1):
            try:
                found = self._client.get_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if error.response["Error"]["Code"] in MISSING:
                    return None
                raise store_error(self._settings, path, "read", error) from None
            except BotoCoreError as error:
                raise store_error(self._settings, path, "read", error) from None
            try:
                data = found["Body"].read()
            except (ResponseStreamingError, ReadTimeoutError, FlexibleChecksumError) as error:
                # boto3 repeats requests, but not the reading of an answer's body.
                if attempt == _TRIES:
                    raise store_error(self._settings, path, "read", error) from None
            except BotoCoreError as error:
                raise store_error(self._settings, path, "read", error) from None
            else:
                modified_ms = int(found["LastModified"].timestamp() * 1000)
                return Document(data, found["ETag"], modified_ms)
        raise AssertionError("the last attempt returns or raises")

    def exists(self, path: str) -> bool:
        """Return whether there is a document of this path.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return head(self._settings, path) is not None

    def age_ms(self, path: str) -> int | None:
        """Return how many milliseconds ago an object was written; None if it does not exist.

        Both times are the store's, exact to a second.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        found = head(self._settings, path)
        if found is None:
            return None
        now = parsedate_to_datetime(found["ResponseMetadata"]["HTTPHeaders"]["date"])
        return max(int((now - found["LastModified"]).total_seconds() * 1000), 0)

    def listing(self, folder: str) -> list[Listed]:
        """Return all documents below a prefix, sorted by path.

        Empty if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        bucket, prefix = split(folder)
        pages = self._client.get_paginator("list_objects_v2")
        try:
            return sorted(
                Listed(
                    f"s3://{bucket}/{item['Key']}",
                    item["Size"],
                    int(item["LastModified"].timestamp() * 1000),
                )
                for page in pages.paginate(Bucket=bucket, Prefix=_below(prefix))
                for item in page.get("Contents", [])
            )
        except REFUSALS as error:
            raise store_error(self._settings, folder, "listed", error) from None

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly below a prefix (parts of keys), sorted.

        Empty if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such bucket, or no permission.
        """
        found = S3Storage(self._settings).children(folder).folders
        return sorted(each.rpartition("/")[2] for each in found)

    def put(self, path: str, data: bytes) -> str:
        """Write a document, over an existing one if there is one; return its version tag.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        tag = self._put(path, data)
        assert tag is not None, "a request without a condition can't fail by one"
        return tag

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        """Write a document unless it exists; return its version tag, None if another is there.

        If one with the same content is there, it counts as this writer's own.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return self._put(path, data, IfNoneMatch="*")

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        """Write over a document if it is still the version that was read.

        One that has the new content already counts as written.

        Returns:
            The new version tag; None if the document was changed or deleted meanwhile.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return self._put(path, data, IfMatch=tag)

    def copy(self, source: str, path: str) -> None:
        """Copy an object within the store, in parts if it is large; no data passes through here.

        Nothing is done if the second path exists; the check is not part of the write.

        Raises:
            FileNotFoundError: There is no such object.
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        if self.exists(path):
            return
        (bucket, key), (to, name) = split(source), split(path)
        try:
            self._client.copy({"Bucket": bucket, "Key": key}, to, name)
        except ClientError as error:
            if error.response["Error"]["Code"] in MISSING:
                raise FileNotFoundError(source) from None
            raise store_error(self._settings, path, "copied", error) from None
        except BotoCoreError as error:
            raise store_error(self._settings, path, "copied", error) from None

    def delete(self, path: str) -> None:
        """Delete a document; nothing happens if it does not exist.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        bucket, key = split(path)
        try:
            self._client.delete_object(Bucket=bucket, Key=key)
        except REFUSALS as error:
            raise store_error(self._settings, path, "deleted", error) from None

    def delete_folder(self, folder: str) -> None:
        """Delete all objects below a prefix, up to 1,000 with one request.

        After an error some of them may be gone.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        bucket, _ = split(folder)
        keys = [{"Key": split(each.path)[1]} for each in self.listing(folder)]
        for start in range(0, len(keys), _PAGE):
            part = {"Objects": keys[start : start + _PAGE], "Quiet": True}
            try:
                answer = self._client.delete_objects(Bucket=bucket, Delete=part)
            except REFUSALS as error:
                raise store_error(self._settings, folder, "deleted", error) from None
            for each in answer.get("Errors", []):
                path = f"s3://{bucket}/{each['Key']}"
                raise store_error(
                    self._settings, path, "deleted", each.get("Message", each["Code"])
                )

    def _put(self, path: str, data: bytes, **condition: str) -> str | None:
        bucket, key = split(path)
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._client.put_object(Bucket=bucket, Key=key, Body=data, **condition)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code in _PRECONDITION or (condition and code in MISSING):
                    # A repeated request of one's own meets the document that the first one wrote.
                    there = self.read(path)
                    return there.tag if there is not None and there.data == data else None
                if code not in _CONFLICT or attempt == _TRIES:
                    raise store_error(self._settings, path, "written", error) from None
            except BotoCoreError as error:
                raise store_error(self._settings, path, "written", error) from None
            else:
                return str(answer["ETag"])
        raise AssertionError("the last attempt returns or raises")

    @cached_property
    def _client(self) -> Any:
        return connect(self._settings)


def _delta_keys(login: Any) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": login.access_key, "AWS_SECRET_ACCESS_KEY": login.secret_key}
    return keys if login.token is None else {**keys, "AWS_SESSION_TOKEN": login.token}


def _below(prefix: str) -> str:
    """Return the beginning of all keys in a folder; empty for the bucket itself."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def documents_of(_scheme: str, settings: S3Settings) -> S3Documents:
    """Return the documents of ``s3://`` paths; connected at first use."""
    return S3Documents(settings)
