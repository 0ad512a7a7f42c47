"""Where `approvers` are declared, only they promote and roll back; who did it is kept."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch import steps as switch_steps
from sources.errors import InputError
from sources.generations import begin, generations
from sources.serving import pending_switch, read_serving
from tests.command_line import invoke
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, call, two
from tests.hybrid_extensions.generations.test_switch import broken_off, content
from tests.orchestration.generations.generation_case import GenerationCase


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    return two(tmp_path, approvers=["Ada", " Grace "])


@pytest.mark.parametrize("by", ["Bob", "ada"])
def test_another_name_is_refused_with_the_list_and_the_way_out(
    case: GenerationCase, by: str
) -> None:
    before = content(case.folder)
    with pytest.raises(InputError) as refused:
        promotion.promote(case.loaded, by=by)
    assert f"`{by}` may not promote a generation of pipeline `events`" in refused.value.message
    assert "Its `approvers` are: Ada, Grace." in refused.value.message
    assert "add the name to `approvers`" in refused.value.hint
    assert (content(case.folder), case.seen()) == (before, OLD)


@pytest.mark.parametrize("by", [None, "", "  "])
def test_without_a_name_it_is_refused(case: GenerationCase, by: str | None) -> None:
    with pytest.raises(InputError, match="No name is given of the person who is to promote"):
        promotion.promote(case.loaded, by=by)
    assert "Ada, Grace" in call(case, "promote", "--by", "", status=2)["message"]
    assert pending_switch(case.loaded) is None


def test_a_rollback_needs_one_of_them_too_and_each_is_kept_with_what_they_let_readers_see(
    case: GenerationCase,
) -> None:
    promotion.promote(case.loaded, by=" Grace ")
    assert read_serving(case.loaded).by == "Grace"
    with pytest.raises(InputError, match="`Bob` may not roll back a generation"):
        promotion.roll_back(case.loaded, by="Bob")
    assert case.seen() == NEW
    promotion.roll_back(case.loaded, by="Ada")
    shown = {line["name"]: line["by"] for line in call(case, "list")["generations"]}
    assert shown == {"g1": "Ada", "g2": "Grace"}
    text = invoke(["generation", "list", str(case.loaded.path)]).stdout
    assert "Ada" in text
    assert "Grace" in text


def test_who_began_a_promotion_is_kept_whoever_finishes_it(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (switch_steps, "commit", False)
    broken_off(case, monkeypatch, at, lambda loaded: promotion.promote(loaded, by="Ada"))
    promotion.finish(case.loaded)
    assert read_serving(case.loaded).by == "Ada"


def test_anyone_may_give_up_what_readers_do_not_see_yet(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (switch_steps, "commit", False)
    broken_off(case, monkeypatch, at, lambda loaded: promotion.promote(loaded, by="Ada"))
    assert call(case, "abort")["aborted"] == "g2"


def test_a_rerun_that_promotes_is_refused_before_it_begins_anything(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(approvers=["Ada"])
    case.run(OLD)
    with pytest.raises(InputError, match="`Bob` may not promote"):
        lifecycle.rerun(case.loaded, promote=True, rows_at_least=0, say=print, by="Bob")
    assert [each.name for each in generations(case.loaded)] == ["g1"]


def test_a_schedule_that_promotes_by_itself_contradicts_approvers(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    nightly = {"name": "nightly", "cron": "0 3 * * *"}
    case.write(approvers=["Ada"], generations={"reruns": [nightly]})
    with pytest.raises(
        InputError, match="`nightly` with `promote: checks`, which promotes without"
    ):
        _ = case.loaded
    case.write(approvers=["Ada"], generations={"reruns": [{**nightly, "promote": "never"}]})
    assert case.loaded.pipeline.approvers == ["Ada"]


def test_an_empty_name_among_them_is_refused(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(approvers=["Ada", " "])
    with pytest.raises(InputError, match="approvers"):
        _ = case.loaded


@pytest.mark.parametrize("approvers", [{}, {"approvers": []}])
def test_without_approvers_anyone_may_and_the_name_is_kept_all_the_same(
    tmp_path: Path, approvers: dict[str, list[str]]
) -> None:
    case = two(tmp_path, **approvers)
    promotion.promote(case.loaded, by="Bob")
    assert read_serving(case.loaded).by == "Bob"
    promotion.roll_back(case.loaded)
    assert read_serving(case.loaded).by is None


def test_on_the_command_line_the_name_is_that_of_the_user_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    monkeypatch.setattr(getpass, "getuser", lambda: "linus")
    assert call(case, "promote")["by"] == "linus"

    def unknown() -> str:
        raise KeyError

    # In a container whose user has no name.
    monkeypatch.setattr(getpass, "getuser", unknown)
    assert call(case, "rollback")["by"] is None


def test_approvers_can_change_while_a_generation_is_in_use(tmp_path: Path) -> None:
    case = two(tmp_path)
    case.write(approvers=["Ada"])
    assert case.loaded.require_generation().name == "g2"
    promotion.promote(case.loaded, by="Ada")
    begin(case.loaded)
