"""Extensions in the project's folder: one that can't be used is named, with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources import extensions
from sources.errors import InputError

NAMED = "from sources.extensions import Extension\nEXTENSION = Extension({!r})\n"


def refused(monkeypatch: pytest.MonkeyPatch, folder: Path, **packages: str) -> InputError:
    """The error of a folder of extensions with such packages."""
    for name, code in packages.items():
        (folder / "folder_of_these" / name).mkdir(parents=True)
        (folder / "folder_of_these" / name / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(extensions, "FOLDER", "folder_of_these")
    with pytest.raises(InputError) as caught:
        extensions.extensions.__wrapped__()
    return caught.value


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import a_module_that_is_lacking", "No module named 'a_module_that_is_lacking'"),
        ("", "has no attribute 'EXTENSION'"),
    ],
)
def test_a_broken_package_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    error = refused(monkeypatch, tmp_path, broken=code)
    assert error.message.startswith(
        "Extension `broken` can't be loaded from folder_of_these.broken:EXTENSION: "
    )
    assert why in error.message
    assert error.hint == "Correct or uninstall the package `folder_of_these.broken`."


def test_two_packages_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(monkeypatch, tmp_path, a=NAMED.format("same"), b=NAMED.format("same"))
    assert error.message == (
        "Two extensions have the name `same`; one is folder_of_these.b:EXTENSION."
    )
    assert error.hint == "Uninstall one of them, such as the package `folder_of_these.b`."
