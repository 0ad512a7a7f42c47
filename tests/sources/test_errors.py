"""Texts of errors: what is wrong, then what to do."""

from __future__ import annotations

import pickle

import pytest

from sources.common.positions import Gap
from sources.errors import HybridError, InputError, error_of, leaving
from sources.kafka.start.declared_start import GapError


@pytest.mark.parametrize(
    ("message", "hint", "text"),
    [
        ("It is wrong.", "Mend it.", "It is wrong. Mend it."),
        ("No such file: /data/a.json", "Mend it.", "No such file: /data/a.json. Mend it."),
        ("They differ:\n    a | b", "Mend it.", "They differ:\n    a | b\nMend it."),
        ("No such file: /data/a.json", "", "No such file: /data/a.json"),
    ],
)
def test_the_message_ends_before_the_way_out_begins(message: str, hint: str, text: str) -> None:
    error = InputError(message, hint)
    assert str(error) == str(error.report()) == text


def test_an_error_tells_once_what_became_of_the_data() -> None:
    with pytest.raises(InputError) as caught, leaving("Other rows stay."), leaving("All stays."):
        raise InputError("It is wrong", "Mend it.")
    assert str(caught.value) == "It is wrong. All stays. Mend it."
    assert error_of(caught.value.report()).report() == caught.value.report()
    with pytest.raises(InputError) as caught, leaving("Nothing was changed."):
        raise InputError("It is wrong: nothing was deleted.", "Mend it.")
    assert str(caught.value) == "It is wrong: nothing was deleted. Mend it."
    with pytest.raises(InputError) as caught, leaving("Nothing was changed."):
        raise InputError("It is wrong.", "Mend it. Nothing was read or written.")
    assert str(caught.value) == "It is wrong. Mend it. Nothing was read or written."


@pytest.mark.parametrize(
    "error",
    [
        InputError("It is wrong.", "Mend it.", transient=True, file="/data/a.json", line=3),
        GapError("live", [Gap(topic="events", partition=2, from_offset=7, why="they are gone")]),
    ],
    ids=["any", "with arguments of its own"],
)
def test_an_error_of_another_process_arrives_whole(error: HybridError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (arrived.args, vars(arrived)) == (error.args, vars(error))
    assert arrived.report() == error.report()
