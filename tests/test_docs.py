"""What the docs tell people to type exists, and so do the places that they point to."""

from __future__ import annotations

import doctest
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from benchmarks import page
from hybrid_extensions.generations.dagster import generation_actions
from orchestration.cli.main import app
from orchestration.defs.jobs.control_job import control_actions
from orchestration.pipeline_definitions import pipeline_definitions
from sources import hybrid
from sources.config.loader import load_pipeline
from tests import rooms_page
from tests.command_line import commands
from tests.extensions import needs, whole
from tests.orchestration.supervision.live_case import LiveCase

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# In backticks, or a line of a code block.
_CODE = re.compile(r"`([^`\n]+)`|^ {4}(\S.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+)\. ", re.MULTILINE)


def typed(page: Path, first: str) -> Iterator[list[str]]:
    """The words of each command on a page that begins with a word."""
    for found in _CODE.finditer(page.read_text()):
        text = (found[1] or found[2]).partition(" #")[0]
        words = text.split()
        if words[0] == first and len(words) > 1:
            yield words


def anchor(heading: str) -> str:
    """The name that GitHub gives a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.strip().replace(" ", "-")


@whole
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_command_line_exist_with_their_options(page: Path) -> None:
    there = commands().commands
    for words in typed(page, "hybrid"):
        assert words[1] in there or words[1].startswith("-"), words
        if words[1] not in there:
            continue
        command = there[words[1]]
        if (below := getattr(command, "commands", None)) is not None and words[2] != "…":
            assert words[2] in below, words
            command = below[words[2]]
        opts = [[*each.opts, *each.secondary_opts] for each in command.params]
        known = {option for each in opts for option in each} | {"--help"}
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known, words


@whole
def test_the_page_of_commands_lists_all_of_them() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    text = (ROOT / "docs/commands.md").read_text()
    assert sorted(name for name in commands if f"`hybrid {name}" not in text) == []


JOURNEYS = sorted((ROOT / "docs").glob("start-*.md"))
ENTRIES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md", *JOURNEYS]


@pytest.mark.parametrize("page", ENTRIES, ids=lambda page: page.stem)
def test_each_page_to_begin_with_is_on_one_screen(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 155


@needs("ranges")
def test_what_the_journeys_declare_and_launch_is_accepted(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    document = yaml.safe_load(case.path.read_text())
    text = "\n".join(page.read_text() for page in JOURNEYS)
    for block in re.findall(r"```yaml\n(.+?)```", text, re.DOTALL):
        document |= yaml.safe_load(block)
    case.path.write_text(yaml.safe_dump({**document, "approve": True}))
    loaded = load_pipeline(case.path)
    names = {schedule.name for schedule in pipeline_definitions(loaded).schedules or []}
    assert names == {"events_weekly", "events_nightly"}
    jobs = [control_actions(loaded), generation_actions(loaded)]
    forms = re.findall(r"`(action: \{.+?\}+)`", text)
    assert len(forms) >= 8
    for form in forms:
        [(action, fields)] = yaml.safe_load(form)["action"].items()
        [found] = [actions[action.upper()] for actions in jobs if action.upper() in actions]
        assert fields.keys() <= found.fields.keys(), form


def test_the_ten_files_to_read_first_are_there_and_as_long_as_is_said() -> None:
    text = (ROOT / "docs/ten-files.md").read_text()
    files = re.findall(r"^\| \d+ \| `([^`]+)`", text, re.MULTILINE)
    lines = sum(len((ROOT / file).read_text().splitlines()) for file in files)
    [(said,)] = [re.findall(r"some ([\d,]+) lines", text)]
    assert len(files) == 10
    assert abs(lines - int(said.replace(",", ""))) < 200


def test_the_examples_of_the_chain_of_sources_are_true() -> None:
    found = doctest.testmod(hybrid)
    assert (found.failed, found.attempted > 5) == (0, True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_targets_and_modules_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {words[1] for words in typed(page, "make")} <= targets
    for words in typed(page, "python"):
        if words[1] == "-m":
            assert importlib.util.find_spec(words[2]) is not None, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if "://" in link:
            continue
        name, _, part = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        if part:
            headings = _HEADING.findall(target.read_text())
            assert part in [anchor(heading) for heading in headings], link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_item_is_missing_from_a_numbered_list(page: Path) -> None:
    last = 0
    for number in map(int, _NUMBERED.findall(page.read_text())):
        assert number in (1, last + 1), f"{last} is followed by {number}"
        last = number


def test_the_page_of_the_benchmarks_says_what_they_found() -> None:
    assert page.PAGE.read_text() == page.page_of(page.kept())


@whole
def test_the_page_of_the_rooms_says_what_their_docstrings_say() -> None:
    pages = {rooms_page.PAGE: rooms_page.page(), rooms_page.MODULES: rooms_page.modules_page()}
    for file, text in pages.items():
        assert file.read_text() == text, "Run `python -m tests.rooms_page`."


def test_each_room_says_what_is_decided_there() -> None:
    told = {room: rooms_page.docstring(room) for room in rooms_page.every_room()}
    assert len(told) > 10
    assert [room for room, text in told.items() if "Belongs here: " not in text] == []


def test_the_pages_are_looked_at() -> None:
    found = [
        words for page in PAGES for first in ("hybrid", "make") for words in typed(page, first)
    ]
    assert len(found) > 30


def test_what_differs_from_spark_is_short_and_held_by_tests() -> None:
    text = (ROOT / "docs" / "values.md").read_text()
    _, _, table = text.partition("## What differs from Spark")
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert 0 < len(rows) <= 30
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row.rsplit("|", 2)[1])
        assert named, row
        assert [name for name in named if not (ROOT / name).exists()] == [], row
