"""The reference says what the models say, and its schema accepts what they accept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from hybrid_extensions.reference.fields import json_schema, markdown
from sources.common.durations import parse_duration
from tests.command_line import invoke
from tests.extensions import whole

ROOT = Path(__file__).parents[3]


@whole
def test_the_page_in_the_docs_is_the_one_that_is_printed() -> None:
    printed = invoke(["reference"]).stdout
    assert printed == markdown()
    page = (ROOT / "docs" / "pipeline.md").read_text()
    assert page == printed, "hybrid reference > docs/pipeline.md"


def test_every_field_has_a_meaning_and_every_link_a_section() -> None:
    page = markdown()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if len(row[-1].strip(" |")) < 5] == []
    sections = {line.removeprefix("## ").lower() for line in page.splitlines() if line[:3] == "## "}
    linked = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert linked <= sections


@whole
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_schema_accepts_the_examples_and_refuses_what_they_do_not_hold(path: Path) -> None:
    schema = json.loads(invoke(["reference", "--json"]).stdout)
    assert schema == json_schema()
    document = yaml.safe_load(path.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(document)] == []
    document["sources"][0]["formt"] = "parquet"
    assert not validator.is_valid(document)


def test_the_schema_accepts_the_pipeline_that_the_page_begins_with() -> None:
    [text] = re.findall(r"```yaml\n(.+?)```", markdown(), re.DOTALL)
    jsonschema.validate(yaml.safe_load(text), json_schema())


def test_every_default_duration_can_be_written_as_it_is_shown() -> None:
    cells = [line.split(" | ") for line in markdown().splitlines() if line.startswith("| `")]
    shown = [row[2].strip("` ") for row in cells if len(row) > 3 and row[1] == "duration"]
    shown = [text for text in shown if text not in ("", "none")]
    assert "0.01 s" in shown
    for text in shown:
        parse_duration(text)
