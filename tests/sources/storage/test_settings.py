"""Addresses of stores: what is declared, else what the environment says."""

from __future__ import annotations

import pytest

from sources.storage.settings import S3Settings


def test_endpoint_and_region_of_the_environment_are_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert (S3Settings().endpoint, S3Settings().region) == (None, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert (S3Settings().endpoint, S3Settings().region) == ("http://minio:9000", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://ceph:8080")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert (S3Settings().endpoint, S3Settings().region) == ("http://ceph:8080", "eu-west-1")
    declared = S3Settings(endpoint="https://store.example", region="eu-central-1")
    assert (declared.endpoint, declared.region) == ("https://store.example", "eu-central-1")
