"""A run that declares what no installed extension does is refused before anything is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sources import extensions
from sources.errors import InputError
from spark_jobs.inside.query.added_sinks import copying_sink, require_copying


def query(*, is_bounded: bool, **pipeline: Any) -> Any:
    """A run of a pipeline with a sink that copies files."""
    sink = SimpleNamespace(copy_files=True)
    declared = SimpleNamespace(**{"sink": sink, "sample": None, **pipeline})
    return SimpleNamespace(is_bounded=is_bounded, context=SimpleNamespace(pipeline=declared))


def test_a_run_that_was_planned_to_copy_files_does_not_go_on_without_the_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extensions, "extensions", lambda: ())
    nothing: Any = None
    with pytest.raises(InputError, match="No installed extension copies files of history") as error:
        require_copying(query(is_bounded=True))
    assert error.value.fields["field"] == "sink.copy_files"
    assert "Install the extension that does" in error.value.hint
    with pytest.raises(InputError, match="No installed extension copies files of history"):
        copying_sink(query(is_bounded=True), nothing, nothing, nothing)
    # These copy nothing.
    for each in (
        query(is_bounded=False),
        query(is_bounded=True, sample=0.5),
        query(is_bounded=True, sink=SimpleNamespace(copy_files=False)),
    ):
        require_copying(each)
        assert copying_sink(each, nothing, nothing, nothing) is None
