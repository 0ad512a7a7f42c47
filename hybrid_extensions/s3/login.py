"""Login to object stores: credentials from boto3's chain, looked up again when renewed.

All clients have it from here, but Spark's, which looks in the same places. boto3 by itself renews
what has a time of expiry (a role, a web identity, ``credential_process``). It reads a credentials
file once, though an agent may rewrite it, and it never looks again after a store has refused.
"""

from __future__ import annotations

import os
import re
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import botocore.exceptions
import botocore.session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    SSOError,
    TokenRetrievalError,
)

from sources.errors import UnavailableError

# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_EXPIRED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidToken",
    "RequestExpired",
    "TokenRefreshRequired",
)
_EXPIRED_CODE = re.compile(rf"<Code>({'|'.join(_EXPIRED)})</Code>")
# What boto3 raises where it can't renew a login. Older versions know no `LoginError`.
_NOT_RENEWED = (
    CredentialRetrievalError,
    TokenRetrievalError,
    SSOError,
    getattr(botocore.exceptions, "LoginError", SSOError),
)
# An answer to HEAD has no body, and so no code.
_UNTOLD = (400, 403)
_LOOK_AGAIN_S = 1.0
_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Login:
    """Credentials in boto3's interface; threads may share them.

    They are looked up at first use, whenever a profile's file was rewritten, and after a store said
    that they have expired. A file that can't be used at the moment, because it is being written,
    leaves the ones before in place.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Any = None
        self._stamp: _Stamp | None = None
        self._at = 0.0

    @property
    def method(self) -> str:
        """Where the credentials come from, in boto3's words (``env``); empty before first use."""
        return "" if self._found is None else str(self._found.method)

    def get_frozen_credentials(self) -> Any:
        """Return key, secret and token, renewed if they are about to expire; None without a login.

        boto3 calls it for each request that it signs.

        Raises:
            botocore.exceptions.BotoCoreError: They can't be looked up or renewed.
        """
        with self._lock:
            if (stamp := _stamp()) != self._stamp:
                self._look_up(stamp)
            found = self._found
        try:
            return None if found is None else found.get_frozen_credentials()
        except RuntimeError as error:
            # boto3's word for what was renewed, and has expired all the same.
            raise CredentialRetrievalError(provider=found.method, error_msg=str(error)) from None

    def get_deferred_property(self, _name: str) -> Any:
        """Return a function that returns None, for each other property that boto3 asks for."""
        return lambda: None

    def look_again(self) -> None:
        """Look up the credentials again after a store refused them; at most once a second.

        Raises:
            botocore.exceptions.BotoCoreError: They can't be looked up, and there are no earlier
                ones.
        """
        with self._lock:
            if time.monotonic() - self._at >= _LOOK_AGAIN_S:
                self._look_up(_stamp())

    def _look_up(self, stamp: _Stamp) -> None:
        self._at = time.monotonic()
        try:
            found = botocore.session.Session().get_credentials()
        except BotoCoreError:
            if self._found is None:
                raise
            return
        if found is not None or self._found is None:
            self._found, self._stamp = found, stamp


def current_login() -> Login:
    """Return the login of this process's environment; all callers with one environment share it."""
    return _login(environment_login())


def environment_login() -> tuple[tuple[str, str], ...]:
    """Return all ``AWS_`` variables of the environment as sorted pairs of name and value.

    They are secret. A change of them means that the login has to be looked up again; nothing is
    cached here.
    """
    return tuple(sorted((name, os.environ[name]) for name in os.environ if name.startswith("AWS_")))


def login_session(login: Login) -> Any:
    """Return a botocore session that signs with a login, and looks it up again once it expires.

    A request that is refused with an expired login is repeated once.
    """
    session = botocore.session.Session()
    session.register_component("credential_provider", _Provider(login))

    def again(response: Any, operation: Any, attempts: int, **_: Any) -> float | None:
        if response is None or attempts > 1:
            return None
        status, answer = response[0].status_code, response[1]
        is_untold = operation.name == "HeadObject" and status in _UNTOLD
        if answer.get("Error", {}).get("Code") not in _EXPIRED and not is_untold:
            return None
        login.look_again()
        # The request is signed again and repeated at once.
        return 0.0

    session.register("needs-retry.s3", again)
    return session


def is_untold(error: ClientError) -> bool:
    """Return whether a store refused with a status alone (400 or 403), without an error code.

    So do answers to HEAD requests, which have no body.
    """
    return error.response["Error"].get("Code") in {str(status) for status in _UNTOLD}


def expiry_reason(error: object) -> str | None:
    """Return why an error means that a login has expired; None if it means something else.

    Args:
        error: What boto3 or delta-rs raised.
    """
    if isinstance(error, ClientError):
        code = str(error.response["Error"].get("Code"))
        return code if code in _EXPIRED else None
    if isinstance(error, _NOT_RENEWED):
        return str(error).strip().rstrip(".")
    told = _EXPIRED_CODE.search(str(error)) if isinstance(error, Exception) else None
    return told and told[1]


def expired_login(where: str, path: str, what: str, why: str) -> UnavailableError:
    """Return the error to raise where the login to an object store has expired.

    Args:
        where: Address of the store.
        path: File or folder.
        what: What can't be done with it: a participle, such as ``listed``.
        why: The store's code, or what kept boto3 from renewing the login.
    """
    message = f"{path} can't be {what} at {where}: the login to the store has expired ({why})."
    if current_login().method == "env":
        hint = (
            "It comes from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, which "
            "no process can renew that runs: start it again with new values; or use AWS_PROFILE "
            "with a credentials file that is rewritten in time, or a role."
        )
    else:
        hint = (
            "Renew it where it comes from: `aws sso login`, whatever writes the credentials file, "
            "the command of `credential_process`, or the role's token. Then try again; processes "
            "that run find the renewed login by themselves."
        )
    return UnavailableError(message, hint, server=where, file=path)


def expired_login_of(path: str, error: Exception, where: str) -> UnavailableError | None:
    """Return the error to raise if delta-rs failed because the login to the store has expired.

    None if the failure has another cause. If the login has expired, it is also looked up again, so
    that the next attempt may succeed.

    Args:
        path: URL of the table.
        error: What delta-rs raised.
        where: Address of the store, for the message.
    """
    if (code := expiry_reason(error)) is None:
        return None
    current_login().look_again()
    return expired_login(where, path, "read", code)


class _Provider:
    """What a session of botocore asks for credentials."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def load_credentials(self) -> Login:
        """Return the login; it finds the credentials when they are needed."""
        return self._login


@cache
def _login(_environment: tuple[tuple[str, str], ...]) -> Login:
    return Login()


def _stamp() -> _Stamp:
    """Return what changes if a profile's file is rewritten."""
    return tuple(_file_stamp(os.environ.get(name) or path) for name, path in _FILES.items())


def _file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).expanduser().stat()
    except (OSError, RuntimeError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
