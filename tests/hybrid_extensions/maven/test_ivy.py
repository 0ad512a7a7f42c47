from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import InputError
from spark_jobs.jvm.jars import resolve
from tests.spark_jobs.jvm.tiny_repository import Server, tiny_repository, use_tiny_set


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_tiny_set(monkeypatch, tmp_path / "cache [of mine]")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tiny_repository(tmp_path / "repository (of mine)")


@pytest.fixture
def mirror(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", repository.as_uri())
    return repository


@pytest.mark.parametrize("missing", ["two-1.0.jar", "two-1.0.pom", "one-1.0.pom"])
def test_what_a_mirror_lacks_is_named_with_the_ways_out(
    mirror: Path, cache: Path, missing: str
) -> None:
    name = missing.split("-", maxsplit=1)[0]
    path = mirror / "org/example" / name / "1.0" / missing
    path.rename(mirror / "aside")
    with pytest.raises(InputError) as caught:
        resolve("tiny")
    assert f"no org.example:{name}:1.0" in caught.value.message
    said = caught.value.message.split("Ivy reports: ")[1]
    assert said in (
        f"`tried {path.as_uri()}`.",
        f"`[NOT FOUND  ] org.example#{name};1.0!{name}.jar`.",
    )
    assert "HYBRID_MAVEN_REPOSITORY" in caught.value.hint
    assert "HYBRID_JARS" in caught.value.hint
    (mirror / "aside").rename(path)
    assert len(resolve("tiny")) == 3


def test_a_file_that_does_not_match_its_checksum_is_refused(mirror: Path) -> None:
    (mirror / "org/example/two/1.0/two-1.0.jar.sha1").write_text("0" * 40)
    with pytest.raises(InputError, match=r"no org\.example:two:1\.0.*invalid sha1"):
        resolve("tiny")


def test_a_mirror_that_can_not_be_reached_is_told_apart_from_one_that_lacks_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", "http://127.0.0.1:1/maven")
    with pytest.raises(InputError, match=r"org\.example:one:1\.0.*Connection refused"):
        resolve("tiny")


def test_a_mirror_behind_a_password_gets_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(repository, secret="an user:s@fe$1:2") as server:
        monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", server.url("an%20user:s%40fe$1%3A2@"))
        assert len(resolve("tiny")) == 3


def test_a_wrong_password_is_said_to_be_refused_and_is_shown_nowhere(
    repository: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Server(repository, secret="user:another") as server:
        monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", server.url("user:hunter%3242@"))
        with pytest.raises(InputError, match="Unauthorized") as caught:
            resolve("tiny")
    captured = capfd.readouterr()
    written = b"".join(path.read_bytes() for path in cache.rglob("*") if path.is_file())
    for text in (str(caught.value), repr(caught.value.__context__), captured.out, captured.err):
        assert "hunter" not in text
    assert b"hunter" not in written
    assert b"org.example" in written


@pytest.mark.parametrize(
    "url", ["ftp://user:hunter2@host/", "https://user:hunter2@host:port/", "hunter2", "https://"]
)
def test_a_mirror_that_is_no_url_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", url)
    with pytest.raises(InputError, match="HYBRID_MAVEN_REPOSITORY") as caught:
        resolve("tiny")
    assert "hunter2" not in str(caught.value)
