"""Secrets in a pipeline's file have to come from the environment."""

from __future__ import annotations

import pytest

from sources.config.document.plain_secrets import check_secrets_come_from_environment
from sources.errors import InputError

SECRET, KEY_SECRET = "hunter2", "swordfish"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (SECRET, "sources[1].security.password"),
        (12345678, "sources[1].security.password"),
        ("", "sources[1].security.password"),
        ("$KAFKA_PASSWORD", "sources[1].security.password"),
        (f"${{KAFKA_PASSWORD:-{SECRET}}}", "sources[1].security.password"),
        (f"${{A}}${{B:-{SECRET}}}", "sources[1].security.password"),
    ],
)
def test_a_password_in_the_file_is_refused_by_its_place(value: object, place: str) -> None:
    document = {"sources": [{"name": "a"}, {"security": {"username": "u", "password": value}}]}
    with pytest.raises(InputError) as caught:
        check_secrets_come_from_environment(document)
    assert caught.value.message == f"`{place}` is written in plain text in the file."
    assert caught.value.hint == (
        "Replace the value by `${KAFKA_PASSWORD}`, and set that variable in the environment; "
        "change the secret if others can read the file."
    )


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"sink": {"path": f"s3://key:{SECRET}@bucket/table"}}, "sink.path"),
        ({"a": [{"url": f"https://reader:{SECRET}@registry:8081"}]}, "a[0].url"),
        ({"feeds": [{"url": f"redis://:{SECRET}@cache:6379/0"}]}, "feeds[0].url"),
        ({"a": {"brokers": ["b:1", f"x http://u:{SECRET}@connect:8083/y"]}}, "a.brokers[1]"),
    ],
)
def test_a_password_within_a_url_is_refused_by_its_place(
    document: dict[str, object], place: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_secrets_come_from_environment(document)
    assert caught.value.message == f"`{place}` is a URL with a password in it."
    assert SECRET not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "abfss://container@account.dfs.core.windows.net/table",
        "hdfs://namenode:8020/a@b/c:d",
        "https://reader:${REGISTRY_PASSWORD}@registry:8081",
        "http://[::1]:8083/connectors/a@b",
        "http://connect:8083/connectors/shop?as=a:b@c",
    ],
)
def test_a_url_without_a_password_is_no_secret(url: str) -> None:
    check_secrets_come_from_environment({"sink": {"path": url}})


def test_a_key_password_in_the_file_is_refused_too() -> None:
    with pytest.raises(InputError) as caught:
        check_secrets_come_from_environment({"security": {"key_password": KEY_SECRET}})
    assert caught.value.message == "`security.key_password` is written in plain text in the file."
    assert caught.value.hint == (
        "Replace the value by `${KAFKA_KEY_PASSWORD}`, and set that variable in the environment; "
        "change the secret if others can read the file."
    )


@pytest.mark.parametrize(
    "value",
    [None, "${KAFKA_PASSWORD}", "${KAFKA_PASSWORD:-}", "Endpoint=sb://x/;SharedAccessKey=${KEY}"],
)
def test_a_password_from_the_environment_passes(value: object) -> None:
    check_secrets_come_from_environment({"sources": [{"security": {"password": value}}]})


def test_a_column_may_be_named_password() -> None:
    check_secrets_come_from_environment({"sources": [{"schema": {"password": "string", 1: "x"}}]})
    check_secrets_come_from_environment(["no", "mapping"])
