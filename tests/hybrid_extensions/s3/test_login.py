"""Logins that expire: found again by each client once they are renewed, and named until then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sources.errors import InputError, UnavailableError
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from sources.storage.tables.delta import delta_table, is_delta_table
from tests.services.processes import wait_for
from tests.services.profile_file import ProfileFile
from tests.services.s3_server import LOGIN, client, s3_server, tell

pytestmark = pytest.mark.slow

Ask = Callable[[Stores], object]


def opened(stores: Stores) -> bytes:
    with stores.of("s3://").open("s3://lake/a.txt") as file:
        content: bytes = file.read()
    return content


ASKED: dict[str, Ask] = {
    "boto3, a document": lambda stores: stores.folder("s3://lake").read_bytes("a.txt"),
    "boto3, without a body": lambda stores: stores.folder("s3://lake").exists("a.txt"),
    "boto3, a listing": lambda stores: stores.of("s3://").children("s3://lake").files,
    "Arrow": opened,
    "delta-rs": lambda stores: delta_table(stores.folder("s3://lake/t")).version() + 1,
    "delta-rs, whether there is one": lambda stores: is_delta_table(stores.folder("s3://lake/t")),
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as running:
        store = client(running)
        store.create_bucket(Bucket="lake")
        store.put_object(Bucket="lake", Key="a.txt", Body=b"text")
        keys = S3Settings(endpoint=running).delta_options | LOGIN
        write_deltalake("s3://lake/t", pa.table({"a": [1]}), storage_options=keys)
        yield running


@pytest.fixture
def stores(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name in LOGIN:
        monkeypatch.delenv(name, raising=False)
    tell(endpoint, "expire", logins=[])
    return Stores(S3Settings(endpoint=endpoint))


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileFile:
    made = ProfileFile(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("how", ASKED)
def test_each_client_follows_a_credentials_file_that_is_rewritten(
    endpoint: str, stores: Stores, profile: ProfileFile, how: str
) -> None:
    ask = ASKED[how]
    profile.write("one")
    assert ask(stores)
    for before, after in (("one", "two"), ("two", "three")):
        tell(endpoint, "expire", logins=[before])
        with pytest.raises(UnavailableError, match="login to the store has expired") as caught:
            ask(stores)
        assert caught.value.transient
        assert caught.value.fields["server"] == endpoint
        assert "whatever writes the credentials file" in caught.value.hint
        assert "secret-of" not in str(caught.value)
        profile.write(after)
        assert ask(stores)


@pytest.mark.parametrize("how", ASKED)
def test_a_login_that_seemed_to_last_is_looked_up_again_once_it_is_refused(
    endpoint: str, stores: Stores, profile: ProfileFile, tmp_path: Path, how: str
) -> None:
    """No file of a profile changes, and no time of expiry is known."""
    answer = tmp_path / "answer.json"

    def answered(key: str) -> None:
        login = {"AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": f"token-of-{key}"}
        answer.write_text(json.dumps({"Version": 1, **login}))

    answered("one")
    command = f"[profile agent]\ncredential_process = /bin/cat {answer}\n"
    (tmp_path / "config").write_text(command)
    ask = ASKED[how]
    assert ask(stores)
    answered("two")
    # By its token, which stands for the key as well.
    tell(endpoint, "expire", logins=["token-of-one"])

    def is_renewed() -> bool:
        # The chain is asked once a second at most.
        try:
            return bool(ask(stores))
        except UnavailableError:
            return False

    wait_for(is_renewed, "the other login", 20)


def test_a_login_that_is_about_to_expire_is_renewed_before(
    stores: Stores, profile: ProfileFile, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    command = f"[profile agent]\ncredential_process = /bin/cat {answer}\n"
    (tmp_path / "config").write_text(command)
    login = {"AccessKeyId": "one", "SecretAccessKey": "s", "SessionToken": "t"}
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    answer.write_text(json.dumps({"Version": 1, "Expiration": past, **login}))
    for ask in ASKED.values():
        with pytest.raises(UnavailableError, match="the login to the store has expired"):
            ask(stores)
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    answer.write_text(json.dumps({"Version": 1, "Expiration": soon, **login}))
    for ask in ASKED.values():
        assert ask(stores)


def test_a_file_that_is_being_written_leaves_the_login_in_place(
    stores: Stores, profile: ProfileFile, tmp_path: Path
) -> None:
    profile.write("one")
    assert ASKED["boto3, a document"](stores)
    for half in ("", "[agent]\naws_access_key_id = two\n", "[agent]\nno line of such a file"):
        (tmp_path / "credentials").write_text(half)
        assert [bool(ask(stores)) for ask in ASKED.values()] == [True] * len(ASKED)


def test_a_login_of_the_environment_can_not_be_renewed_in_a_process(
    endpoint: str, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    tell(endpoint, "expire", logins=[LOGIN["AWS_ACCESS_KEY_ID"]])
    for ask in ASKED.values():
        with pytest.raises(UnavailableError, match="start it again with new values"):
            ask(stores)


def test_only_refusals_of_expired_logins_count_as_such(
    stores: Stores, profile: ProfileFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile.write("one")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    for ask in (ASKED["boto3, a document"], ASKED["Arrow"], ASKED["delta-rs"]):
        with pytest.raises(InputError, match=r"The config profile \(nobody\) could not be found"):
            ask(stores)
