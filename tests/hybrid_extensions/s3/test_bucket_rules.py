"""What a bucket's own rules would do to a pipeline is said while planning, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hybrid_extensions.s3.bucket_rules import bucket_warnings
from hybrid_extensions.s3.documents import S3Documents
from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[LocalS3]:
    with LocalS3() as running:
        yield running


@pytest.fixture
def bucket(server: LocalS3, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    name = f"b{abs(hash(request.node.name))}"
    client(server.endpoint).create_bucket(Bucket=name)
    return name


def warned(server: LocalS3, bucket: str, key: str = "lake/state") -> list[str]:
    settings = S3Settings(endpoint=server.endpoint)
    folder = Folder(f"s3://{bucket}/{key}", S3Documents(settings))
    return bucket_warnings(settings, folder, "state")


def set_rules(server: LocalS3, bucket: str, *rules: dict[str, Any]) -> None:
    whole = [{"ID": "tidy", "Status": "Enabled", **rule} for rule in rules]
    client(server.endpoint).put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": whole}
    )


def test_a_plain_bucket_needs_no_word(server: LocalS3, bucket: str) -> None:
    assert warned(server, bucket) == []


@pytest.mark.parametrize("prefix", ["", "lake/", "lake/state/orders"])
def test_a_rule_that_deletes_files_in_use_is_named(
    server: LocalS3, bucket: str, prefix: str
) -> None:
    set_rules(server, bucket, {"Filter": {"Prefix": prefix}, "Expiration": {"Days": 7}})
    (text,) = warned(server, bucket)
    assert "`tidy`" in text
    assert "after 7 days" in text
    assert f"s3://{bucket}/lake/state" in text


def test_a_rule_that_deletes_at_a_date_is_named(server: LocalS3, bucket: str) -> None:
    date = datetime(2030, 1, 2, tzinfo=UTC)
    set_rules(server, bucket, {"Filter": {"Prefix": ""}, "Expiration": {"Date": date}})
    (text,) = warned(server, bucket)
    assert "after the 2030-01-02" in text


def test_a_rule_that_archives_files_in_use_is_named(server: LocalS3, bucket: str) -> None:
    to = [{"Days": 30, "StorageClass": "GLACIER"}]
    set_rules(server, bucket, {"Filter": {"Prefix": "lake/"}, "Transitions": to})
    (text,) = warned(server, bucket)
    assert "to GLACIER" in text


@pytest.mark.parametrize(
    "rule",
    [
        {"Filter": {"Prefix": "lake/state2/"}, "Expiration": {"Days": 7}},
        {"Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 7}},
        {"Filter": {"Prefix": ""}, "Expiration": {"Days": 7}, "Status": "Disabled"},
        {"Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    ],
)
def test_a_rule_about_other_objects_is_left_out(
    server: LocalS3, bucket: str, rule: dict[str, Any]
) -> None:
    set_rules(server, bucket, rule)
    assert warned(server, bucket) == []


def test_old_versions_that_are_kept_for_ever_are_said(server: LocalS3, bucket: str) -> None:
    client(server.endpoint).put_bucket_versioning(
        Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    (text,) = warned(server, bucket)
    assert "deletes noncurrent versions below `lake/state/`" in text
    old = {"NoncurrentDays": 1}
    set_rules(server, bucket, {"Filter": {"Prefix": ""}, "NoncurrentVersionExpiration": old})
    assert warned(server, bucket) == []


def test_a_bucket_that_locks_its_objects_is_said(server: LocalS3, bucket: str) -> None:
    locked = f"{bucket}-locked"
    store = client(server.endpoint)
    store.create_bucket(Bucket=locked, ObjectLockEnabledForBucket=True)
    retention = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}}
    store.put_object_lock_configuration(
        Bucket=locked,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": retention},
    )
    assert any("object lock" in text for text in warned(server, locked))


def test_a_bucket_that_can_not_be_asked_is_no_failure(server: LocalS3, bucket: str) -> None:
    assert warned(server, f"{bucket}-missing") == []
