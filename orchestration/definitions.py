"""Entry point for Dagster: which files are pipelines (`HYBRID_PIPELINES`); bad ones stand apart.

``HYBRID_PIPELINES`` lists folders and files to search, separated like ``PATH``; the examples are
used if it is not set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from orchestration.defs.assets.unloadable_pipeline import (
    UnreadableFile,
    file_name,
    unreadable_definitions,
)
from orchestration.defs.known_files import files_before, load_known
from orchestration.defs.pipeline_group import PipelineGroup, group_of
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.extensions import contributions

_EXAMPLES = Path(__file__).parent.parent / "examples"
_DECLARES = re.compile(rb"^(sink|tables) *:", re.MULTILINE)
_PLACES = os.environ.get("HYBRID_PIPELINES") or str(_EXAMPLES)


class Declared(NamedTuple):
    """Declarations found in some files.

    Attributes:
        pipelines: The pipelines of files that declare one.
        groups: The files that declare several pipelines each; those are not in ``pipelines``.
        unreadable: The files that can't be loaded, and why.
    """

    pipelines: list[LoadedPipeline]
    groups: list[PipelineGroup]
    unreadable: list[UnreadableFile]


def find_pipelines(places: Iterable[Path]) -> Declared:
    """Return the declarations in some files, and in ``*.yaml`` of some folders.

    So are files ``*.yml`` of a folder that declare ``sink`` or ``tables``, as pipelines do; names
    that begin with ``.`` are left out. A file that can't be loaded raises nothing: it is in
    ``unreadable``. Files of a group's pipelines count as part of the group. They come in the order
    of the places, those of a folder by name.

    Args:
        places: Files and folders; folders below a folder are not searched.
    """
    given = [place.absolute() for place in places]
    files = [file for at in given for file in (_files_in(at) if at.is_dir() else [at])]
    found = Declared([], [], [])
    made, plain = set[Path](), list[Path]()
    for file in files:
        with _apart(file, found.unreadable):
            if (group := group_of(file)) is None:
                plain.append(file)
            else:
                made.update(group.files())
                found.groups.append(group)
    # Last: a file that has another name since has the jobs of the one before.
    before = (each for each in files_before() if not {each, each.parent}.isdisjoint(given))
    for file in dict.fromkeys((*plain, *before)):
        if file not in made:
            with _apart(file, found.unreadable):
                found.pipelines.append(load_known(file))
    return found


def _files_in(folder: Path) -> list[Path]:
    # Editors and systems keep files of their own beside one that is worked at: `.#orders.yaml`.
    files = folder.glob("[!.]*")
    return sorted(file for file in files if file.suffix == ".yaml" or _declares(file))


def _declares(file: Path) -> bool:
    # Files of other tools, such as of Docker Compose, mostly have the shorter suffix.
    with suppress(OSError):
        return file.suffix == ".yml" and _DECLARES.search(file.read_bytes()) is not None
    return False


def find_definitions(places: Iterable[Path]) -> dg.Definitions:
    """Return the Dagster definitions of all pipelines in some files and folders.

    A file that can't be loaded, or whose name another file has, raises nothing: Dagster shows it
    with the reason, and all others are there.

    Args:
        places: Files and folders, as of :func:`find_pipelines`.
    """
    pipelines, groups, unreadable = find_pipelines(places)
    made: list[dg.Definitions] = []
    shown: list[LoadedPipeline] = []
    files, taken = dict[str, Path](), dict[str, Path]()
    for loaded in pipelines:
        with _apart(loaded.path, unreadable):
            _require_new(loaded.pipeline.name, loaded.path, files)
            made.append(_fitting(pipeline_definitions(loaded), loaded.path, taken))
            shown.append(loaded)
    for group in groups:
        with _apart(group.path, unreadable):
            _require_new(group.name, group.path, files)
            members, failed = group.load()
            for loaded in members:
                _require_new(loaded.pipeline.name, loaded.path, files)
            made.append(_fitting(group.definitions(members), group.path, taken))
            shown += members
            unreadable += failed
    names = [each.pipeline.name for each in shown] + [file_name(each.path) for each in unreadable]
    return dg.Definitions.merge(
        *made,
        *(make(shown) for make in contributions("location_definitions")),
        *(
            unreadable_definitions(each, names[:at].count(names[at]))
            for at, each in enumerate(unreadable, len(shown))
        ),
        # The steps of a chain run one after another: a process for each would only cost its start.
        dg.Definitions(executor=dg.in_process_executor),
    )


@contextmanager
def _apart(file: Path, unreadable: list[UnreadableFile]) -> Iterator[None]:
    """Keep errors of one file from affecting the others."""
    try:
        yield
    except Exception as error:
        unreadable.append(UnreadableFile(file, error))


def _fitting(own: dg.Definitions, file: Path, taken: dict[str, Path]) -> dg.Definitions:
    """Return a file's definitions; refuse those that Dagster would not load with the others."""
    ticking = (*(own.schedules or ()), *(own.sensors or ()))
    # Dagster knows schedules and sensors by one name, apart from that of a job.
    names = [f"{each.name} (schedule or sensor)" for each in ticking]
    for name in (*(each.name for each in own.jobs or ()), *names):
        _require_new(name, file, taken)
    return own


def _require_new(name: str, file: Path, files: dict[str, Path]) -> None:
    """Refuse a name that another file has taken."""
    if (other := files.setdefault(name, file)) != file:
        message = f"The name `{name}` is also that of {other}, so this file is not loaded."
        hint = "Give one of them another `name`, or leave its file out of `HYBRID_PIPELINES`."
        raise InputError(message, hint, pipeline=name, file=str(file), field="name")


defs = find_definitions([Path(place) for place in _PLACES.split(os.pathsep)])
