"""The errors that people see: what is wrong, which value, and the way out."""

from __future__ import annotations


class HybridError(Exception):
    """Base of every error that this project raises on purpose.

    Args:
        message: What is wrong; names the thing and its value.
        hint: What to do about it, one sentence; empty where the message already says so.

    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InputError(HybridError, ValueError):
    """What the user handed in can't be run: nothing was read or written yet.

    Also a ``ValueError``, so that Pydantic's validators may raise it.
    """


class SeamError(HybridError):
    """The hand-over between two sources can't be made without losing or doubling rows."""


class StateError(HybridError):
    """The state folder does not allow this step: out of turn, in use, or of another generation."""


class RunError(HybridError):
    """A process that was launched failed, or ended without having done its work."""
