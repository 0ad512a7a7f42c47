"""Values of variables, from the environment or from a file that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.common.environment import is_set, variable
from sources.config.document.variables_in_texts import variables_used
from sources.config.document.yaml_document import of_jobs, read_document
from sources.config.loader import load_for_job, load_pipeline
from sources.errors import InputError
from tests.sources.config.test_loader import write


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("geheim", "geheim"),
        ("geheim\n", "geheim"),
        ("geheim\r\n", "geheim"),
        (" ge heim \n\n", " ge heim \n"),
        ("gehéim€", "gehéim€"),
    ],
)
def test_a_file_has_the_value_without_its_last_line_break(
    tmp_path: Path, content: str, value: str
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content.encode())
    assert variable("A", {"A_FILE": str(file)}) == value


def test_the_variable_itself_comes_first_and_an_empty_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("file")
    named = {"A_FILE": str(tmp_path / "secret")}
    assert variable("A", {"A": "own", **named}) == "own"
    assert variable("A", {"A": "", **named}) == "file"
    assert variable("A", {"A": "", "A_FILE": ""}) is None
    assert variable("A", {}) is None
    assert [is_set("A", each) for each in ({"A": "x"}, named, {"B": "x"})] == [True, True, False]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "can't be read: No such file"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff\xfegeheim", "is not text in UTF-8"),
    ],
)
def test_a_file_without_a_value_is_refused_by_name(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        variable("A", {"A_FILE": str(file)})
    assert f"The file {file}, which the environment variable A_FILE names, {told}" in str(
        caught.value
    )
    assert "geheim" not in str(caught.value)


def test_a_relative_path_is_refused_as_working_directories_differ() -> None:
    with pytest.raises(InputError, match=r"secret, .* is not given by an absolute path"):
        variable("A", {"A_FILE": "secret"})


def test_a_pipeline_reads_its_secrets_anew_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "topic"
    file.write_text("orders\n")
    path, named = write(tmp_path, allowed_lateness="${LATE:-1 h}"), {"TOPIC_FILE": str(file)}
    assert load_pipeline(path, named).pipeline.topics[0].topic == "orders"
    file.write_text("renewed\n")
    assert load_pipeline(path, named).pipeline.topics[0].topic == "renewed"
    used = read_document(path)
    assert variables_used(used, named) == ["TOPIC"]
    assert variables_used(used, {**named, "LATE_FILE": "/late"}) == ["LATE", "TOPIC"]
    with pytest.raises(InputError, match=r"TOPIC is not set, or empty.* in TOPIC_FILE\)"):
        load_pipeline(path, {})
    file.unlink()
    with pytest.raises(InputError, match="TOPIC_FILE names, can't be read"):
        load_pipeline(path, named)


def test_a_job_needs_no_variable_of_the_supervision_but_those_of_late_rows(tmp_path: Path) -> None:
    late = {"history": "${DROPPED}", "live": "${SHARE:-2 %}"}
    watched = {"webhook": "${HOOK}", "lag": "${LAG}", "late_rows": late}
    path, named = write(tmp_path, supervision=watched), {"TOPIC": "orders", "DROPPED": "7"}
    assert variables_used(of_jobs(read_document(path)), named) == ["DROPPED", "TOPIC"]
    assert variables_used(read_document(path), named) == ["DROPPED", "HOOK", "LAG", "TOPIC"]
    found = load_for_job(path, named).pipeline.supervision
    assert (found.late_rows.history, found.late_rows.live, found.webhook) == (7, 0.02, None)
    with pytest.raises(InputError, match="environment variables HOOK, LAG are not set"):
        load_pipeline(path, named)
    with pytest.raises(InputError, match="DROPPED is not set"):
        load_for_job(path, {"TOPIC": "orders"})
