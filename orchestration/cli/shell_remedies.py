"""Remedies on the command line: commands with the real file, ready to be pasted."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from orchestration.remedies import Remedy, render

# What people typed, so that a pasted command means the same file.
_named: ContextVar[Path | None] = ContextVar("named", default=None)


def name(pipeline: Path) -> Path:
    """Remember the pipeline's file that this command is about, as typed; return it.

    Kept for the present context (thread), for :func:`in_shell`.
    """
    _named.set(pipeline)
    return pipeline


def in_shell(text: str, escape: Callable[[str], str] = str) -> str:
    """Return a text with its remedies as commands on the file that this command is about.

    A text stays as it is if no file was named.

    Args:
        text: An error's message or hint, or another text for people.
        escape: Applied to each command, if the text is in a markup of its own.
    """
    pipeline = _named.get()
    if pipeline is None:
        return text

    def show(remedy: Remedy) -> str:
        return escape(remedy.command(str(pipeline)))

    return render(text, show)


def all_in_shell(document: Any) -> Any:
    """Return a JSON document in which :func:`in_shell` was applied to each text.

    Names of fields stay as they are.
    """
    if isinstance(document, str):
        return in_shell(document)
    if isinstance(document, dict):
        return {key: all_in_shell(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [all_in_shell(each) for each in document]
    return document
