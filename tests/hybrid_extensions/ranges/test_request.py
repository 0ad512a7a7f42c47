"""One request for ranges of several pipelines: what became of each, and how to do the rest."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.ranges import side_pipeline
from hybrid_extensions.ranges.request import Span
from orchestration.chain import ChainRun
from orchestration.remedies import program
from sources.errors import InputError
from tests.command_line import invoke
from tests.orchestration.generations.generation_case import GenerationCase

# No file has rows of 2023, so that no Spark is started.
DAYS = ["--range", "2023-12-02", "--range", "2023-12-04/2023-12-06"]


def declared(folder: Path, name: str) -> GenerationCase:
    folder.mkdir()
    case = GenerationCase(folder)
    source = {
        "type": "files",
        "name": "history",
        "format": "json",
        "schema": {"id": "bigint", "at": "timestamp", "v": "bigint"},
        "path": "in/*/*.json",
        "folder_time": "%Y-%m-%d",
    }
    case.write(name=name, sources=[source])
    at = datetime(2023, 11, 30, tzinfo=UTC)
    (folder / "in/2023-11-30").mkdir(parents=True)
    (folder / "in/2023-11-30/a.json").write_text('{"id": 1, "at": "2023-11-30T00:00:00Z"}\n')
    case.run({1: 10}, at=at)
    return case


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two pipelines, of which a file of the second one's 4 December is in a wrong folder."""
    return [str(declared(tmp_path / name, name).loaded.path) for name in ("one", "two")]


def call(*words: str) -> tuple[int, dict[str, Any]]:
    done = invoke(["backfill", *words, "--json"])
    return done.exit_code, json.loads(done.stdout)


def states(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["pipeline"], each["since"][:10], each["state"]) for each in found["ranges"]]


def test_a_range_that_fails_holds_up_no_other_and_the_rest_is_a_command(files: list[str]) -> None:
    bad = Path(files[0]).parent / "in" / "oops"
    bad.mkdir()
    (bad / "a.json").write_text("{}\n")
    status, found = call(*files, *DAYS)
    assert status == 1
    assert states(found) == [
        ("one", "2023-12-02", "failed"),
        ("one", "2023-12-04", "failed"),
        ("two", "2023-12-02", "done"),
        ("two", "2023-12-04", "done"),
    ]
    assert "oops does not match `folder_time" in found["ranges"][0]["error"]["message"]
    [rest] = found["rest"]
    words = shlex.split(rest.strip("`"))
    assert words[:3] == [program(), "backfill", files[0]]

    told = invoke(["backfill", *files, *DAYS])
    assert "2 of 4 ranges are done." in told.stdout
    assert rest in told.stdout
    assert "3 of 4: two 2023-12-02T00:00:00Z/2023-12-03T00:00:00Z: done." in told.stderr

    # What it is about is mended; then the command does what is left, and nothing else.
    (bad / "a.json").unlink()
    bad.rmdir()
    status, found = call(*words[2:])
    assert (status, states(found), found["rest"]) == (
        0,
        [("one", "2023-12-02", "done"), ("one", "2023-12-04", "done")],
        [],
    )


def test_an_interruption_ends_the_request_and_says_what_is_left(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(files[0]).parent / "in" / "2023-12-04"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 2, "at": "2023-12-04T00:00:00Z"}\n')

    def interrupt(_: ChainRun) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(side_pipeline, "run_chain", interrupt)
    status, found = call(*files, *DAYS)
    assert status == 130
    assert [each[2] for each in states(found)] == [
        "done",
        "interrupted",
        "not started",
        "not started",
    ]
    assert [rest.count("--range") for rest in found["rest"]] == [1, 2]


def test_a_dry_run_looks_at_each_range(files: list[str]) -> None:
    status, found = call(*files, "--range", "2023-11-30", "--dry-run")
    assert status == 0
    assert [each["splits"] for each in found["ranges"]] == [1, 1]


def test_nothing_is_touched_if_one_of_the_files_is_no_pipeline(files: list[str]) -> None:
    Path(files[1]).write_text("name: [two")
    status, found = call(*files, *DAYS)
    assert (status, found["fields"]["file"]) == (2, files[1])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--range", "2023-12"], "`2023-12` is not a range of event times"),
        (["--range", "2023-12-02/2023-12-02"], "is empty"),
        (["--range", "noon/2023-12-02"], "`noon` is not a time"),
        (["--since", "2023-12-02"], "by `--since` and `--until`, or one or several by"),
        (["--range", "2023-12-02", "--until", "2023-12-03"], "one or several by `--range`"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(
    files: list[str], words: list[str], told: str
) -> None:
    done = invoke(["backfill", *files, *words])
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_a_day_is_a_range() -> None:
    assert Span.parse("2024-03-01") == Span.parse("2024-03-01T00:00:00Z/2024-03-02")
    with pytest.raises(InputError, match="not a time with a time zone"):
        Span.parse("2024-03-01T00:00/2024-03-02")
