"""Variables in the texts of a declaration: ``${NAME}`` and ``${NAME:-default}`` in its values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import yaml

from sources.common.environment import is_set, variable

VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
"""A variable in a text: its name, and the default that the text gives it, if any."""


def variables_used(document: Any, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the environment variables that a document needs, sorted.

    A variable with a default is included only if it is set.

    Args:
        document: Content of a pipeline's file, or the part of it that jobs read
            (:func:`~sources.config.document.yaml_document.of_jobs`).
        environment: Variables that are set.
    """
    names: set[str] = set()
    fill_in(document, {}, names)
    every = (found[1] for found in VARIABLE.finditer(yaml.safe_dump(document)))
    return sorted({*names, *(name for name in every if is_set(name, environment))})


def fill_in(value: Any, environment: Mapping[str, str], unset: set[str]) -> Any:
    """Return a value with the variables in its texts replaced; names are left as they are.

    What a variable holds is not searched for variables. A variable that is empty counts as not set.

    Args:
        value: Content of a document, or a part of it.
        environment: Variables that are set; ``NAME_FILE`` may name a file that has the value.
        unset: Gets the names of variables that have neither a value nor a default.

    Raises:
        InputError: ``NAME_FILE`` names a file that can't be read or that holds no value.
    """
    if isinstance(value, dict):
        return {key: fill_in(item, environment, unset) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, environment, unset) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        text = variable(name, environment) or default
        if text is None:
            unset.add(name)
            return ""
        return text

    return VARIABLE.sub(replacement, value)
