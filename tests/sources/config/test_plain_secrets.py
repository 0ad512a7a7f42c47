"""Secrets in a pipeline's file have to come from the environment."""

from __future__ import annotations

import pytest

from sources.config.plain_secrets import check_secrets_come_from_environment
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
