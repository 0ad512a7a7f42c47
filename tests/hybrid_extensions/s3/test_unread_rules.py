"""Rules of a bucket that can't be read are unknown: neither none, nor the reason for a warning."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from hybrid_extensions.s3 import bucket_rules
from hybrid_extensions.s3.documents import S3Documents
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings

OLD = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
RULES = {"Rules": [{"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": ""}, **OLD}]}
ANSWERS: dict[str, Any] = {
    "get_bucket_lifecycle_configuration": RULES,
    "get_bucket_versioning": {"Status": "Enabled"},
    "get_object_lock_configuration": {},
}


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "Get")


class Bucket:
    """A client of a bucket that answers as told."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def answer(Bucket: str) -> Any:  # noqa: N803 (as boto3 has it)
            found = self._answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def warned(patch: pytest.MonkeyPatch, **answers: Any) -> list[str]:
    patch.setattr(bucket_rules, "connect", lambda _: Bucket({**ANSWERS, **answers}))
    settings = S3Settings()
    folder = Folder("s3://lake/state", S3Documents(settings))
    return bucket_rules.bucket_warnings(settings, folder, "state")


def test_a_bucket_whose_old_versions_are_deleted_needs_no_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert warned(monkeypatch) == []


@pytest.mark.parametrize("code", ["AccessDenied", "403"])
def test_rules_that_the_login_may_not_read_are_unknown_with_the_permission_that_reads_them(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    (text,) = warned(monkeypatch, get_bucket_lifecycle_configuration=refusal(code))
    assert "Of bucket `lake` of `state` the lifecycle rules can't be read" in text
    assert "grant the credentials in use `s3:GetLifecycleConfiguration`" in text


def test_what_may_not_be_read_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = warned(monkeypatch, **dict.fromkeys(ANSWERS, refusal("AccessDenied")))
    for permission in (
        "GetLifecycleConfiguration",
        "GetBucketVersioning",
        "GetBucketObjectLockConfiguration",
    ):
        assert f"`s3:{permission}`" in text


def test_a_store_that_does_not_answer_gives_no_reason_for_another_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = ConnectTimeoutError(endpoint_url="http://store")
    (text,) = warned(monkeypatch, get_bucket_lifecycle_configuration=silent)
    assert "the store does not answer" in text
    assert "grant" not in text


@pytest.mark.parametrize("code", ["NoSuchLifecycleConfiguration", "NotImplemented"])
def test_a_bucket_without_rules_keeps_old_versions(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    (text,) = warned(monkeypatch, get_bucket_lifecycle_configuration=refusal(code))
    assert "old versions pile up without an end" in text
