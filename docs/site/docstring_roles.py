"""Griffe extension that shows Sphinx roles of docstrings, such as ``:func:`name```, as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


class DocstringRoles(Extension):
    """Replacement of each role by its target in backticks, before docstrings are parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object that was just loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
