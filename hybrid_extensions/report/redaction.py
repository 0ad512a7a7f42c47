"""Redaction of reports: logins, queries of URLs, secrets of declaration and environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from sources.config.pipeline import Pipeline

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"passw|(^|_)pwd(_|$)|secret|token|credential|webhook|dsn|(access|api|account|private)_?key|(^|_)sas(_|$)",
    re.IGNORECASE,
)
# Where a shell is and was, which paths on the page are below.
_FOLDERS = {"PWD", "OLDPWD"}
# `user:password@`, with or without a scheme before it; `container@account` of Azure is none.
_LOGIN = re.compile(r"[^\s/@:,\"'`(]*:[^\s/,\"'`]+@")
# The query of a URL: that of a signed one is as good as a login.
_QUERY = re.compile(r"(://[^\s?\"'`]+)\?[^\s\"'`]+")
_PASSWORD = re.compile(r"(password\s*=\s*)[^\s,;&]+", re.IGNORECASE)
# Shorter ones would take ordinary words with them.
_SHORTEST = 4


class Redaction:
    """Function that removes credentials from a text; call the object with the text.

    Secrets of fewer than four characters stay, as ordinary words may contain them.

    Args:
        pipeline: The declaration, whose secret fields are removed wherever they occur.
        environment: Environment variables; values of those whose name is that of a secret, such as
            ``DB_PASSWORD``, are removed, too.
    """

    def __init__(self, pipeline: Pipeline, environment: Mapping[str, str]) -> None:
        named = {name for name in environment if _SECRET_NAME.search(name)}
        values = {environment[name] for name in named - _FOLDERS}
        values |= set(_secrets(pipeline))
        # The longest first: one may be a part of another.
        self._values = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return a text without logins and queries in URLs, and without known secrets."""
        for value in self._values:
            text = text.replace(value, HIDDEN)
        text = _QUERY.sub(rf"\1?{HIDDEN}", _LOGIN.sub("", text))
        return _PASSWORD.sub(rf"\1{HIDDEN}", text)


def _secrets(value: Any) -> Iterator[str]:
    """Yield all secrets in a declaration."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _secrets(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item)
