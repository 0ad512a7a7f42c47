"""Document of a declaration in YAML: no key twice, variables filled in, each wrong field told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sources.common.counting import counted_as
from sources.common.environment import FILE_SUFFIX
from sources.common.fields import Declared
from sources.config.document.declaration_errors import explained, invalid_file, with_source
from sources.config.document.plain_secrets import check_secrets_come_from_environment
from sources.config.document.variables_in_texts import fill_in
from sources.errors import InputError

M = TypeVar("M", bound=BaseModel)
KEPT = "hybrid-definition.json"
"""Name of the file next to a copy of a pipeline's file, made for a generation."""


def read_document(path: Path) -> Any:
    """Return the content of a YAML file as it is written, without environment variables.

    Args:
        path: The file, absolute.

    Returns:
        The content; None if the file is empty.

    Raises:
        InputError: The file does not exist, can't be read, is not YAML, or has a key twice; not of
            a generation's copy, which nobody can correct.
    """
    try:
        return parse_document(path.read_text(), is_kept=path.with_name(KEPT).exists())
    except FileNotFoundError:
        message = f"There is no file {path}."
        hint = "Name the YAML file of a pipeline; `hybrid init` creates one for existing files."
        if (meant := path.with_name(f"{path.name}.yaml")).exists():
            hint = f"Name {meant.name}, which is there."
        raise InputError(message, hint, file=str(path)) from None
    except IsADirectoryError:
        message = f"{path} is a folder, not the YAML file of a pipeline."
        there = ", ".join(sorted(each.name for each in path.glob("*.yaml")))
        hint = f"Name a file in it: {there}." if there else "Name a pipeline's file."
        raise InputError(message, hint, file=str(path)) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # A browser takes the name of a text, in angle brackets, for HTML.
        told = str(error).replace('in "<unicode string>", ', "in ")
        message = f"{path} can't be read as YAML: {told}."
        hint = "Correct the place that the message names."
        if not isinstance(error, yaml.YAMLError):
            hint = "Correct the path, or the file's permissions or encoding."
        raise InputError(message, hint, file=str(path)) from None


def parse_document(text: str, *, is_kept: bool = False) -> Any:
    """Return the content of a YAML text as lists, mappings and scalars; None if it is empty.

    Raises:
        yaml.YAMLError: The text is not YAML, or has a key twice, unless ``is_kept``.
    """
    # libyaml is eight times as fast; each look of the supervision reads the pipeline's file.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    node = loader.get_single_node()
    if not is_kept:
        _require_single_keys(node, set())
    return None if node is None else loader.construct_document(node)


def _require_single_keys(node: yaml.Node | None, seen: set[yaml.Node]) -> None:
    """Refuse a key that a mapping has twice: of its values YAML would take the last in silence."""
    if not isinstance(node, yaml.CollectionNode) or node in seen:
        return
    seen.add(node)
    names = set[str]()
    for each in node.value:
        for part in each if isinstance(each, tuple) else (each,):
            _require_single_keys(part, seen)
        key = each[0] if isinstance(each, tuple) else None
        if isinstance(key, yaml.ScalarNode) and key.value in names:
            told = f"the key `{key.value}` is there twice"
            raise yaml.MarkedYAMLError(problem=told, problem_mark=key.start_mark)
        names |= {key.value} if isinstance(key, yaml.ScalarNode) else set()


def validated(
    path: Path, document: Any, model: type[M], environment: Mapping[str, str] = os.environ
) -> M:
    """Parse a YAML document as a model, with environment variables replaced.

    Args:
        path: The file that it is from, for messages.
        document: Content of the file.
        model: Model of the declaration.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a file
            that has the value (:func:`~sources.common.environment.variable`).

    Raises:
        InputError: A secret is in plain text, a variable is not set, or a field is not valid; the
            message has a line for each such field.
    """
    found: M
    (found,) = validated_parts(path, document, [model], environment)
    return found


def validated_parts(
    path: Path, document: Any, models: Sequence[type[Any]], environment: Mapping[str, str]
) -> list[Any]:
    """Parse a YAML document as several models, each of which has its own fields of the document.

    Args:
        path: The file that it is from, for messages.
        document: Content of the file.
        models: The first one gets all fields that no other one has.
        environment: As for :func:`validated`.

    Returns:
        The declaration of each model, in the order of ``models``.

    Raises:
        InputError: As :func:`validated` raises it.
    """
    if not isinstance(document, dict):
        message = f"{path} does not consist of `field: value` lines."
        hint = "Write such lines, as `name: shop`; `hybrid reference` prints all fields."
        raise InputError(message, hint, file=str(path))
    check_secrets_come_from_environment(document)
    unset: set[str] = set()
    filled = fill_in(document, environment, unset)
    if unset:
        names = sorted(unset)
        given = ", ".join(names)
        are = counted_as(len(names), f"variable {given} is", f"variables {given} are")
        message = f"{path.name}: environment {are} not set, or empty."
        hint = (
            f"Set {given} first (`export {names[0]}=…`, or the path of a file with "
            f"the value in {names[0]}{FILE_SUFFIX}). What is no secret may have a default in the "
            f"pipeline's file: `${{{names[0]}:-default}}`."
        )
        raise InputError(message, hint, file=str(path))
    lines: list[str] = []
    found: list[Any] = []
    for model in reversed(models):
        own = filled if model is models[0] else _taken(filled, model)
        try:
            found.append(model.model_validate(own))
        except ValidationError as error:
            told = [
                with_source(explained(dict(item), model, models), item["loc"], own)
                for item in error.errors()
            ]
            lines = [*told, *lines]
    if lines:
        raise invalid_file(path, lines)
    return found[::-1]


def _taken(document: dict[str, Any], model: type[Declared]) -> dict[str, Any]:
    """Remove the fields of a model from a document, and return them."""
    return {name: document.pop(name) for name in model.written() if name in document}


def of_jobs(document: Any) -> Any:
    """Return what jobs read of a pipeline's document: nothing that supervision alone needs.

    Of ``supervision`` that is ``late_rows``, by which the driver ends a run.

    Args:
        document: Content of the pipeline's file.
    """
    if not isinstance(document, dict) or not isinstance(document.get("supervision"), dict):
        return document
    read = {name: each for name, each in document["supervision"].items() if name == "late_rows"}
    return {**document, "supervision": read}
