"""Requests for documents in a bucket, and what each answer means, one by one; without a server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber
from urllib3.exceptions import ProtocolError

from hybrid_extensions.s3.documents import S3Documents
from hybrid_extensions.s3.files import connect
from sources.errors import InputError, UnavailableError
from sources.storage.documents import Document, Listed
from sources.storage.settings import S3Settings

KEY = {"Bucket": "lake", "Key": "state/a.json"}
PATH = "s3://lake/state/a.json"
AT = datetime(2024, 1, 1, tzinfo=UTC)
AT_MS = 1_704_067_200_000
SETTINGS = S3Settings(endpoint="http://127.0.0.1:9")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> S3Documents:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "example")
    return S3Documents(SETTINGS)


@pytest.fixture
def answers(store: S3Documents) -> Iterator[Stubber]:
    """What the store answers, request by request; each has to be made."""
    with Stubber(connect(SETTINGS)) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


class CutOff(io.RawIOBase):
    """An answer of which the connection was lost."""

    def read(self, _: int = -1) -> bytes:
        raise ProtocolError


def content(data: io.RawIOBase | bytes) -> dict[str, Any]:
    """An answer with a document."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    size = str(len(data)) if isinstance(data, bytes) else None
    return {"Body": StreamingBody(stream, size), "ETag": '"tag"', "LastModified": AT}


def refuse(answers: Stubber, method: str, code: str, status: int, times: int = 1) -> None:
    for _ in range(times):
        answers.add_client_error(method, code, http_status_code=status)


def test_a_document_comes_with_its_tag_and_its_time(store: S3Documents, answers: Stubber) -> None:
    answers.add_response("get_object", content(b"{}"), KEY)
    assert store.read(PATH) == Document(b"{}", '"tag"', AT_MS)


def test_one_that_is_missing_is_none_and_a_refusal_is_told(
    store: S3Documents, answers: Stubber
) -> None:
    refuse(answers, "get_object", "NoSuchKey", 404)
    assert store.read(PATH) is None
    refuse(answers, "get_object", "AccessDenied", 403)
    with pytest.raises(InputError, match=f"{PATH} can't be read"):
        store.read(PATH)


def test_an_answer_that_is_cut_off_is_asked_for_again_five_times_in_all(
    store: S3Documents, answers: Stubber
) -> None:
    for _ in range(4):
        answers.add_response("get_object", content(CutOff()), KEY)
    answers.add_response("get_object", content(b"{}"), KEY)
    found = store.read(PATH)
    assert found is not None
    assert found.data == b"{}"
    for _ in range(5):
        answers.add_response("get_object", content(CutOff()), KEY)
    with pytest.raises(UnavailableError, match="can't be read"):
        store.read(PATH)


def test_each_way_to_write_has_its_condition_and_returns_the_new_tag(
    store: S3Documents, answers: Stubber
) -> None:
    written = {**KEY, "Body": b"1"}
    for condition in ({}, {"IfNoneMatch": "*"}, {"IfMatch": '"old"'}):
        answers.add_response("put_object", {"ETag": '"new"'}, {**written, **condition})
    assert store.put(PATH, b"1") == '"new"'
    assert store.put_if_absent(PATH, b"1") == '"new"'
    assert store.replace(PATH, b"1", '"old"') == '"new"'


@pytest.mark.parametrize("code", ["412", "PreconditionFailed"])
def test_a_condition_that_fails_over_ones_own_document_counts_as_written(
    store: S3Documents, answers: Stubber, code: str
) -> None:
    for there, tag in ((b"1", '"tag"'), (b"2", None)):
        refuse(answers, "put_object", code, 412)
        answers.add_response("get_object", content(there), KEY)
        assert store.put_if_absent(PATH, b"1") == tag


def test_a_document_that_is_gone_is_not_replaced_and_a_bucket_that_is_not_there_is_named(
    store: S3Documents, answers: Stubber
) -> None:
    refuse(answers, "put_object", "NoSuchKey", 404)
    refuse(answers, "get_object", "NoSuchKey", 404)
    assert store.replace(PATH, b"1", '"old"') is None
    refuse(answers, "put_object", "NoSuchKey", 404)
    with pytest.raises(InputError, match="can't be written"):
        store.put(PATH, b"1")


def test_two_requests_that_met_are_repeated_five_times_in_all(
    store: S3Documents, answers: Stubber
) -> None:
    refuse(answers, "put_object", "ConditionalRequestConflict", 409, 4)
    answers.add_response("put_object", {"ETag": '"new"'}, {**KEY, "Body": b"1", "IfNoneMatch": "*"})
    assert store.put_if_absent(PATH, b"1") == '"new"'
    refuse(answers, "put_object", "ConditionalRequestConflict", 409, 5)
    with pytest.raises((InputError, UnavailableError), match="can't be written"):
        store.put_if_absent(PATH, b"1")


def test_a_document_is_there_or_not_and_as_old_as_the_store_says(
    store: S3Documents, answers: Stubber
) -> None:
    date = "Mon, 01 Jan 2024 00:01:30 GMT"
    there = {"LastModified": AT, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}
    for _ in range(2):
        answers.add_response("head_object", there, KEY)
    assert (store.exists(PATH), store.age_ms(PATH)) == (True, 90_000)
    refuse(answers, "head_object", "404", 404, 2)
    assert (store.exists(PATH), store.age_ms(PATH)) == (False, None)


def listed(*names: str, **more: Any) -> dict[str, Any]:
    found = [{"Key": name, "Size": size, "LastModified": AT} for size, name in enumerate(names)]
    return {"Contents": found, "IsTruncated": False, **more}


def test_a_listing_has_all_pages_in_order(store: S3Documents, answers: Stubber) -> None:
    asked = {"Bucket": "lake", "Prefix": "state/"}
    first = listed("state/b", "state/c", IsTruncated=True, NextContinuationToken="more")
    answers.add_response("list_objects_v2", first, asked)
    answers.add_response(
        "list_objects_v2", listed("state/a"), {**asked, "ContinuationToken": "more"}
    )
    assert store.listing("s3://lake/state") == [
        Listed("s3://lake/state/a", 0, AT_MS),
        Listed("s3://lake/state/b", 0, AT_MS),
        Listed("s3://lake/state/c", 1, AT_MS),
    ]
    answers.add_response("list_objects_v2", {"IsTruncated": False}, asked)
    assert store.listing("s3://lake/state/") == []
    refuse(answers, "list_objects_v2", "AccessDenied", 403)
    with pytest.raises(InputError, match="can't be listed"):
        store.listing("s3://lake/state")


def test_a_folder_is_deleted_by_a_thousand_at_a_time_and_whatever_stays_is_told(
    store: S3Documents, answers: Stubber
) -> None:
    keys = [f"state/{number:04}" for number in range(1001)]
    answers.add_response("list_objects_v2", listed(*keys))
    for part in (keys[:1000], keys[1000:]):
        asked = {"Objects": [{"Key": key} for key in part], "Quiet": True}
        answers.add_response("delete_objects", {}, {"Bucket": "lake", "Delete": asked})
    store.delete_folder("s3://lake/state")
    answers.add_response("list_objects_v2", listed("state/a"))
    stays = {"Errors": [{"Key": "state/a", "Code": "AccessDenied", "Message": "denied"}]}
    answers.add_response("delete_objects", stays)
    with pytest.raises(InputError, match=r"s3://lake/state/a can't be deleted.*denied"):
        store.delete_folder("s3://lake/state")
    answers.add_response("list_objects_v2", listed("state/a"))
    refuse(answers, "delete_objects", "AccessDenied", 403)
    with pytest.raises(InputError, match="s3://lake/state can't be deleted"):
        store.delete_folder("s3://lake/state")


def test_a_document_is_deleted_and_a_refusal_is_told(store: S3Documents, answers: Stubber) -> None:
    answers.add_response("delete_object", {}, KEY)
    store.delete(PATH)
    refuse(answers, "delete_object", "AccessDenied", 403)
    with pytest.raises(InputError, match="can't be deleted"):
        store.delete(PATH)


def test_a_copy_is_made_by_the_store_and_a_missing_original_is_told(
    store: S3Documents, answers: Stubber
) -> None:
    original = {"Bucket": "lake", "Key": "state/b.json"}
    refuse(answers, "head_object", "404", 404)
    answers.add_response("head_object", {"ContentLength": 2, "ETag": '"b"'}, original)
    answers.add_response("copy_object", {})
    store.copy("s3://lake/state/b.json", PATH)
    refuse(answers, "head_object", "404", 404, times=2)
    with pytest.raises(FileNotFoundError, match=r"state/b\.json"):
        store.copy("s3://lake/state/b.json", PATH)
    refuse(answers, "head_object", "404", 404)
    refuse(answers, "head_object", "AccessDenied", 403)
    with pytest.raises(InputError, match="can't be copied"):
        store.copy("s3://lake/state/b.json", PATH)


def test_an_object_that_is_there_is_not_copied_again(store: S3Documents, answers: Stubber) -> None:
    answers.add_response("head_object", {"ContentLength": 2, "ETag": '"a"'}, KEY)
    store.copy("s3://lake/state/b.json", PATH)
