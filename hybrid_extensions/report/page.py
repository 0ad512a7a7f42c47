"""HTML page of a report, and its file: values are escaped, credentials removed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from hybrid_extensions.report.model import HandOver, Missing, PlanPart, Report
from hybrid_extensions.report.redaction import Redaction
from hybrid_extensions.report.timeline import MOST_PARTITIONS, Timeline, offset_lanes, timelines
from orchestration import display
from orchestration.remedies import as_commands
from orchestration.supervision.status import Status
from sources.common.durations import duration
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.storage.folder import Folder

_RULES = {
    "none": "nothing: there are none",
    "key": "key",
    "event_time": "event time",
    "sequence": "log position of the snapshot",
    "replay": "merging them again in the order of the sequence",
    "off": "nothing: `seam_filter: off`",
}


def render(
    report: Report, loaded: LoadedPipeline, environment: Mapping[str, str] = os.environ
) -> str:
    """Return a report as an HTML page that needs no other file.

    Every value is escaped, and credentials are removed from it, wherever it came from.

    Args:
        report: The content.
        loaded: The pipeline, whose secrets are removed.
        environment: Environment variables; values of those whose name is that of a secret are
            removed, too.
    """
    redacted = Redaction(loaded.pipeline, environment)
    # Of a kept copy, the file that people have.
    file = str(loaded.folder / loaded.path.name)

    def command(text: str) -> str:
        return in_shell(text).strip("`")

    def in_shell(text: str) -> str:
        return as_commands(text, file)

    def clean(value: object) -> object:
        # Text that is escaped already was made of values that went through here.
        return value if hasattr(value, "__html__") else redacted(in_shell(str(value)))

    page = Environment(
        loader=PackageLoader("hybrid_extensions", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {
        "ago": lambda at_ms: display.ago(at_ms, report.at_ms),
        "count": display.count,
        "duration": duration,
        "iso": iso,
        "moment": display.moment,
        "size": display.size,
    }
    page.filters["command"] = command
    page.tests["missing"] = lambda part: isinstance(part, Missing)
    return page.get_template("report.html.j2").render(
        report=report,
        rules=_RULES,
        timelines=_timelines(report),
        offset_lanes=offset_lanes,
        most_partitions=MOST_PARTITIONS,
    )


def require_file(path: Path) -> Path:
    """Return the absolute path for a page; refuse one that can't be written.

    Called before the page is made, which may take a while.

    Raises:
        InputError: It is a folder, or its folder does not exist.
    """
    path = path.expanduser().absolute()
    if path.is_dir():
        message = f"{path} is a folder, not a file."
        hint = f"Name a file in it: `--out {path / 'report.html'}`."
        raise InputError(message, hint, file=str(path))
    if not path.parent.is_dir():
        message = f"There is no folder {path.parent} to write the report to."
        hint = "Create it, or name a file in another folder with `--out`."
        raise InputError(message, hint, file=str(path))
    return path


def write(page: str, path: Path) -> None:
    """Write a page atomically, replacing an existing file.

    Args:
        page: The page.
        path: The file, from :func:`require_file`.

    Raises:
        StateError: The file can't be written.
    """
    Folder(path.parent).called("folder of the report").replace_bytes(path.name, page.encode())


def _timelines(report: Report) -> list[Timeline]:
    if not isinstance(report.plan, PlanPart) or isinstance(report.hand_overs, Missing):
        return []
    newest_ms = None
    if isinstance(report.status, Status):
        beat = report.status.sources[-1].heartbeat
        newest_ms = None if beat is None else beat.event_time_ms
    hand_overs: list[HandOver] = report.hand_overs
    return timelines(report.plan, hand_overs, newest_ms)
