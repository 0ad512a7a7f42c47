"""Loading of a pipeline's file: its paths, code and generation; what may not change later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sources.common.state_document import Record
from sources.config.code.own_modules import OwnModules
from sources.config.document.declaration_errors import invalid_file
from sources.config.document.yaml_document import (
    KEPT,
    of_jobs,
    parse_document,
    read_document,
    validated_parts,
)
from sources.config.pipeline import Pipeline
from sources.config.plain_paths import require_plain_path
from sources.config.section import Section
from sources.config.source.file_source import FileSource
from sources.errors import InputError, StateError
from sources.extensions import contributions
from sources.state.generation import Generation, Ways, open_generation
from sources.storage.folder import Folder

S = TypeVar("S", bound=Section)
WRITTEN = "# Written by the code that declares this pipeline: change it there."
"""First line of a file that :func:`declare` has written."""


class KeptDefinition(Record):
    """Note next to a copy of a pipeline's file and modules that says where the copy is from.

    A copy is kept for each generation (one computation of the whole target table), so that later
    changes of the original do not affect its runs.

    Attributes:
        generation: Name of the generation that the copy is for; None if the copy is a pipeline of
            its own.
        home: Folder of the original file, from which relative paths start.
        code: Folder of the modules; None if they are in the folder of the copy.
    """

    generation: str | None
    home: str
    code: str | None = None


@dataclass(frozen=True)
class LoadedPipeline:
    """A pipeline's declaration, and the file that it was read from.

    Attributes:
        path: YAML file, absolute. Spark jobs get this path and read the file again.
        pipeline: Declaration, with environment variables replaced.
        kept: Origin of the file if it is a kept copy, such as of a generation; None if it is the
            user's own file, which declares the newest generation.
        modules: Registry that keeps the modules of its functions apart from those of other
            pipelines, in a process that runs several; None if they are imported as usual.
        sections: Parts of the file that extensions declare.
    """

    path: Path
    pipeline: Pipeline
    kept: KeptDefinition | None = None
    modules: OwnModules | None = field(default=None, compare=False)
    sections: tuple[Section, ...] = ()

    def section(self, kind: type[S]) -> S:
        """Return the part of the file that an extension declares; its defaults if there is none.

        Called by extensions, with their own model.

        Args:
            kind: The extension's model.
        """
        return next((each for each in self.sections if isinstance(each, kind)), kind())

    @property
    def by_input(self) -> dict[str, LoadedPipeline]:
        """The pipeline as each of its inputs sees it, by name; empty without ``inputs``."""
        own = self.pipeline
        return {name: replace(self, pipeline=own.of_input(name)) for name in own.inputs}

    @property
    def folder(self) -> Path:
        """Folder that relative paths of the declaration start from.

        That of the YAML file; for a copy that was kept for a generation, that of the original.
        """
        return self.path.parent if self.kept is None else Path(self.kept.home)

    @property
    def code(self) -> list[Path]:
        """Folders where modules of user functions are looked for before the installed packages.

        The first one that has the module is used: for a kept copy the folder with the kept
        modules, then the folder of the original file.
        """
        if self.kept is None:
            return [self.folder]
        return [Path(self.kept.code or self.path.parent), self.folder]

    def own_file(self, name: str) -> Path:
        """Return the path of a file of the user's code, such as the query; it need not exist.

        For a kept declaration this is the kept copy, or, if none was kept, the file in the folder
        of the original.

        Args:
            name: Its path, relative to the folder of the pipeline's file.
        """
        places = [folder / name for folder in self.code]
        return next((path for path in places if path.exists()), places[-1])

    @property
    def state(self) -> Folder:
        """Folder with the state of all generations: ``<state>/<name>``.

        Raises:
            InputError: The scheme of ``state`` is not supported.
        """
        return self.place(self.pipeline.state).folder(self.pipeline.name)

    @property
    def target(self) -> Folder:
        """Folder of the target table that readers see.

        Raises:
            InputError: The scheme of ``sink.path`` is not supported.
        """
        return self.place(self.pipeline.sink.path).called("target folder")

    def place(self, path: str) -> Folder:
        """Return a declared path as a folder in the store that it names.

        Raises:
            InputError: The path's scheme is not supported.
        """
        return self.pipeline.stores.folder(self.locate(path))

    def locate(self, path: str) -> str:
        """Return a path of the declaration as an absolute one; URLs are returned unchanged.

        Relative paths start from :attr:`folder`; ``~`` is the user's home. ``..`` is resolved in
        the text; links are not followed.
        """
        local = self.folder / Path(path).expanduser()
        return path if "://" in path else os.path.normpath(local)

    def open_generation(self, *, create: bool) -> Generation | None:
        """Open the generation that this declaration is about, after comparing the contract.

        That is the one that the file was copied for, else the newest one. A generation is one
        computation of the whole target table.

        Args:
            create: Whether to create the first generation if there is none.

        Returns:
            The generation; None if there is none and ``create`` is False.

        Raises:
            StateError: The declaration changed in a way that the checkpoint can't follow; or the
                state is damaged, or can't be written.
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            UnavailableError: The store of ``state`` does not answer.
        """
        named = None if self.kept is None else self.kept.generation
        return open_generation(self.state, self.contract(), named, create=create)

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        By field or group of fields, such as ``sources.history.read``. A generation keeps digests of
        them, and :meth:`open_generation` refuses to continue after one was changed. What a plan
        depends on besides is in :mod:`sources.planning.declaration_digests`.
        """
        pipeline = self.pipeline
        # The name in a catalog is for readers; copied files hold the rows that were read.
        free = {"table", "copy_files"}
        sink = pipeline.sink.model_dump(mode="json", exclude_none=True, exclude=free)
        contract: dict[str, object] = {
            "sources": [source.name for source in pipeline.sources],
            "event_time": pipeline.event_time.column,
            "key": pipeline.key,
            "allowed_lateness": pipeline.allowed_lateness.total_seconds(),
            "seam_filter": pipeline.seam_filter,
            "sequence": pipeline.sequence,
            "sink": {**sink, "path": self.locate(pipeline.sink.path)},
        }
        if pipeline.inputs:
            contract["inputs"] = [
                [name, [source.name for source in each.sources], each.key]
                for name, each in pipeline.inputs.items()
            ]
        contract |= pipeline.row_rules.contract()
        for source in pipeline.sources:
            contract |= source.contract()
            if isinstance(source, FileSource) and source.patterns and source.table is None:
                ways = self._ways(source.patterns)
                made = (source.model_copy(update={"path": each}).contract() for each in ways)
                name = f"sources.{source.name}"
                contract[name] = Ways([each[name] for each in made])
        return contract

    def _ways(self, patterns: list[str]) -> list[list[str]]:
        """Return globs as they are declared, absolute, and relative to the pipeline's folder."""
        absolute = [self.locate(each) for each in patterns]
        prefix = f"{self.folder}{os.sep}"
        return [patterns, absolute, [each.removeprefix(prefix) for each in absolute]]

    def require_generation(self) -> Generation:
        """Return the existing generation that this declaration is about; never create one.

        Raises:
            StateError: The pipeline was never planned or run, or the declaration changed in a way
                that the checkpoint can't follow; or the state is damaged.
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            UnavailableError: The store of ``state`` does not answer.
        """
        generation = self.open_generation(create=False)
        if generation is None:
            name, state = self.pipeline.name, self.pipeline.state
            message = f"Pipeline `{name}` has no state in {state}: it was never planned or run."
            hint = "Run `hybrid plan P` or `hybrid run P` first."
            raise StateError(message, hint, pipeline=name, file=state)
        return generation


def declare(
    path: Path, document: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> LoadedPipeline:
    """Declare a pipeline in code: check it, then write it to the file that its runs read.

    A file that has the same text is left alone; another one is replaced. The file's folder is made
    if it is missing.

    Args:
        path: YAML file to write. Its folder holds the pipeline's functions; relative paths start
            from there.
        document: Content of the file, as lists, mappings and scalars. Secrets have to be
            ``${NAME}``, as in a file.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a
            file that has the value (:func:`~sources.common.environment.variable`).

    Returns:
        The checked pipeline.

    Raises:
        InputError: The document has values that YAML has no form for, a secret in plain text, a
            variable that is not set or whose file can't be read, or a field that is not valid; the
            file is not changed.
        StateError: The file can't be written.
    """
    path = path.absolute()
    text = f"{WRITTEN}\n"
    try:
        text += yaml.safe_dump(dict(document), sort_keys=False)
    except yaml.YAMLError as error:
        message = (
            f"The document for {path.name} can't be written as YAML: it has {error.args[-1]!r}."
        )
        hint = "Pass only lists, mappings, texts, numbers and dates to `declare`."
        raise InputError(message, hint, file=str(path)) from None
    loaded = _check(path, parse_document(text), environment)
    # Written only if it differs, as jobs read it while this is called repeatedly.
    if not path.exists() or path.read_text() != text:
        Folder(path.parent).called("pipeline's folder").replace_bytes(path.name, text.encode())
    return loaded


def load_pipeline(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedPipeline:
    """Read a pipeline's YAML file and check its fields, without looking at data or brokers.

    A file with ``tables`` is refused: it stands for several pipelines.

    Args:
        path: YAML file.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a
            file that has the value (:func:`~sources.common.environment.variable`).

    Raises:
        InputError: The file can't be read, a secret is in plain text, an environment variable is
            not set or its file can't be read, or a field is not valid; the message has a line for
            each such field.
        StateError: The file is the copy of a generation, and the note of its origin is damaged.

    """
    path = path.absolute()
    return _check(path, read_document(path), environment)


def load_earlier(path: Path, text: str) -> LoadedPipeline:
    """Return the pipeline that a file declared when it was valid.

    Args:
        path: The YAML file, absolute.
        text: What it contained then.

    Raises:
        InputError, StateError: As :func:`load_pipeline` raises them.
    """
    return _check(path, parse_document(text), os.environ)


def load_for_job(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedPipeline:
    """Read a pipeline's YAML file as its jobs do: variables of supervision alone may be missing.

    A driver on a cluster does not get the address of a webhook, for example.

    Args:
        path: YAML file.
        environment: Values of variables.

    Raises:
        InputError, StateError: As :func:`load_pipeline` raises them.
    """
    path = path.absolute()
    return _check(path, of_jobs(read_document(path)), environment)


def _check(path: Path, document: Any, environment: Mapping[str, str]) -> LoadedPipeline:
    """Return the pipeline that a document declares."""
    if isinstance(document, dict) and "tables" in document:
        message = f"{path.name} declares `tables`, each of which is a pipeline of its own."
        hint = (
            f"Name one of them: `{path}/<schema>.<table>`, or its file "
            f"`{path.stem}.<schema>.<table>.yaml`; `hybrid tables P` makes the files."
        )
        raise InputError(message, hint, file=str(path), field="tables")
    kinds = [*contributions("section")]
    pipeline, *sections = validated_parts(path, document, [Pipeline, *kinds], environment)
    assert isinstance(pipeline, Pipeline)
    for section in sections:
        if pipeline.inputs and section != type(section)() and not section.takes_inputs:
            names = ", ".join(f"`{name}`" for name in sorted(section.model_fields_set))
            line = f"  {names} can't be combined with `inputs` yet. Remove it."
            raise invalid_file(path, [line])
        try:
            section.check(pipeline)
        except ValueError as error:
            raise invalid_file(path, [f"  pipeline: {error}"]) from None
    loaded = LoadedPipeline(path, pipeline, Folder(path.parent).read(KEPT, KeptDefinition))
    located = pipeline.located(loaded.locate)
    require_plain_path("state", loaded.locate(located.state))
    require_plain_path("sink.path", loaded.locate(located.sink.path))
    return replace(
        loaded,
        pipeline=located,
        sections=tuple(each.located(loaded.locate) for each in sections),
    )
