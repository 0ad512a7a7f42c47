"""Apache Ivy: a repository with its login, pinned and excluded jars, and what its errors mean."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import quoteattr

from sources.errors import InputError

REPOSITORY_VARIABLE = "HYBRID_MAVEN_REPOSITORY"
RETRIEVED = "out"
_CENTRAL = "https://repo1.maven.org/maven2/"
_PROBE_TIMEOUT_S = 10.0

_DOWNLOADING = re.compile(r"^downloading \S*/([^/\s]+\.jar) \.\.\.")
# ":: io.delta#delta-spark;4.4.0: not found", or with "!delta-spark.jar" where only that is missing
_MISSING = re.compile(r"^(?:WARN:)?\s*:: ([^\s#]+)#([^\s;]+);([^\s:!]+)(?:!|: |$)")
_REASON = re.compile(
    r"Server access error|^Host .* not found|(CLIENT|SERVER) ERROR|\[(FAILED|NOT FOUND) *\]"
    r"|Exception|tried \S+$"
)


@dataclass(frozen=True)
class Repository:
    """A repository in Maven's layout, from which Ivy downloads jars, with its login.

    Attributes:
        root: Its URL with a slash at the end; never contains the user's name and password.
        user: User name of its login; empty without a login.
        password: Password of its login.
    """

    root: str
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Request:
    """Jars for Ivy to download, as Maven coordinates ``group:artifact:version``.

    Attributes:
        name: Name of the set of jars, for messages.
        packages: Direct dependencies; their own dependencies are resolved too.
        pins: Exact versions of transitive dependencies.
        excludes: ``group:artifact`` or ``group:*`` that is never downloaded.
    """

    name: str
    packages: tuple[str, ...]
    pins: tuple[str, ...]
    excludes: tuple[str, ...]


def repository() -> Repository:
    """Return the repository that Ivy downloads from: ``HYBRID_MAVEN_REPOSITORY``, or Maven Central.

    Raises:
        InputError: ``HYBRID_MAVEN_REPOSITORY`` is not a usable URL.
    """
    named = os.environ.get(REPOSITORY_VARIABLE)
    if not named:
        return Repository(_CENTRAL)
    try:
        url = urlsplit(named)
        port = f":{url.port}" if url.port else ""
    except ValueError:
        url, port = urlsplit(""), ""
    usable = url.scheme == "file" or (url.scheme in ("http", "https") and url.hostname)
    if not usable or url.query or url.fragment:
        message = (
            f"The environment variable {REPOSITORY_VARIABLE} is not a usable URL; its value is not "
            "shown, since it may contain a password. It needs the scheme http, https or file, a "
            "host unless it is a file, and neither a query (`?`) nor a fragment (`#`)."
        )
        hint = (
            "Set it to https://host:port/path, https://user:password@host/path (with `/` of a "
            "password as `%2F`) or file:///path, or unset it to download from Maven Central."
        )
        raise InputError(message, hint)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else (url.hostname or "")
    return Repository(
        root=f"{url.scheme}://{host}{port}{url.path.rstrip('/')}/",
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
    )


def fetch(
    launcher: Sequence[str],
    request: Request,
    place: Repository,
    folder: Path,
    lock: int,
    on_progress: Callable[[str], None],
) -> None:
    """Download packages and their dependencies into ``folder``/``RETRIEVED`` by Ivy.

    Waits until Ivy, a process of its own, has ended.

    Args:
        launcher: The command that starts Ivy: Java, its flags, and ``-jar``.
        request: The packages.
        place: Repository to download from.
        folder: Ivy's working folder; files that an earlier run verified are used again.
        lock: A locked file descriptor that Ivy inherits, so that the lock lasts as long as Ivy
            runs, even if this process is killed.
        on_progress: Called with the file name of each jar whose download begins.

    Raises:
        InputError: A package can't be downloaded; names it and the reason.
    """
    (folder / "ivy.xml").write_text(_module(request), encoding="utf-8")
    (folder / "settings.xml").write_text(_settings(request, place), encoding="utf-8")
    # Relative to `folder`: brackets in an absolute path would be part of Ivy's pattern.
    command = [
        *launcher,
        *("-cache", str(folder.absolute() / "ivy")),
        *("-settings", "settings.xml", "-ivy", "ivy.xml", "-confs", "jars"),
        *("-retrieve", f"{RETRIEVED}/[artifact]-[revision](-[classifier]).[ext]"),
        # Without this, Ivy reports a refused password as "not found".
        "-verbose",
    ]
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        # The password is passed in the environment, never on disk or on the command line.
        env={**os.environ, "IVY_REPO_USER": place.user, "IVY_REPO_PASSWORD": place.password},
        pass_fds=[lock],
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if (begun := _DOWNLOADING.match(lines[-1])) is not None:
                    on_progress(begun.group(1))
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0 or not any((folder / RETRIEVED).glob("*.jar")):
        raise _failure(request, place, lines)


def _module(request: Request) -> str:
    # `default` in place of `master,runtime` leaves out parts that are needed at run time.
    pinned = "".join(f"<exclude {_names(pin, 'module')}/>" for pin in request.pins)
    wanted = [
        f"<dependency {_names(coordinate, 'name')} rev={quoteattr(coordinate.split(':')[2])} "
        f'conf="jars->master,runtime">{pinned if coordinate in request.packages else ""}'
        "</dependency>"
        for coordinate in (*request.packages, *request.pins)
    ]
    left_out = [f"<exclude {_names(exclude, 'module')}/>" for exclude in request.excludes]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            f'<info organisation="hybrid" module={quoteattr(request.name)}/>',
            '<configurations><conf name="jars"/></configurations>',
            *("<dependencies>", *wanted, *left_out, "</dependencies>"),
            "</ivy-module>",
        ]
    )


def _names(coordinate: str, attribute: str) -> str:
    group, artifact = coordinate.split(":")[:2]
    module = "" if artifact == "*" else f" {attribute}={quoteattr(artifact)}"
    return f"org={quoteattr(group)}{module}"


def _settings(request: Request, place: Repository) -> str:
    credentials = ""
    if place.user:
        host = quoteattr(urlsplit(place.root).hostname or "")
        realm = quoteattr(_realm(place.root, request.packages[0]))
        secret = 'username="${env.IVY_REPO_USER}" passwd="${env.IVY_REPO_PASSWORD}"'
        credentials = f"<credentials host={host} realm={realm} {secret}/>"
    return "\n".join(
        [
            "<ivysettings>",
            '<properties environment="env"/>',
            '<settings defaultResolver="repository"/>',
            credentials,
            # Without its POM, a jar would be fetched without its dependencies, and Ivy would
            # report success.
            '<resolvers><ibiblio name="repository" m2compatible="true" descriptor="required"',
            f' useMavenMetadata="false" root={quoteattr(place.root)}/></resolvers>',
            "</ivysettings>",
        ]
    )


def _realm(root: str, coordinate: str) -> str:
    """Return the realm of the repository's login, which Ivy has to know before it sends one."""
    group, artifact, version = coordinate.split(":")
    url = f"{root}{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.pom"
    try:
        with urllib.request.urlopen(url, timeout=_PROBE_TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as refused:
        with refused:
            asked = ", ".join(refused.headers.get_all("WWW-Authenticate", []))
    except OSError:
        # Ivy will fail in the same way, and its message is the one that is shown.
        return ""
    found = re.search(r'\bBasic\s+realm="([^"]*)"', asked, re.IGNORECASE)
    return found.group(1) if found else ""


def _failure(request: Request, place: Repository, lines: list[str]) -> InputError:
    found = [match.groups() for line in lines if (match := _MISSING.match(line)) is not None]
    missing = ", ".join(":".join(parts) for parts in dict.fromkeys(found))
    what = f"no {missing}" if missing else f"asked for {', '.join(request.packages)}"
    # Only lines about the missing packages: for parent POMs Ivy tries files that never exist.
    marks = [mark for _, name, rev in found for mark in (f"/{name}/{rev}/", f"#{name};{rev}")]
    said = [re.sub(r"^(WARN|ERROR):\s*|\s*\(\d+ms\)$", "", line) for line in lines if line]
    about = [line for line in said if any(mark in line for mark in marks)]
    crash = [line for line in said if line.startswith("Exception in thread")]
    last = ([line for line in about if _REASON.search(line)] or crash or about or said or [""])[-1]
    if place.password:
        last = last.replace(place.password, "***")
    reported = f" Apache Ivy reports: `{last}`." if last else ""
    message = f"The {request.name} jars can't be downloaded from {place.root}: {what}.{reported}"
    hint = (
        f"Check the network and run `hybrid jars {request.name}` again; or name a mirror in the "
        f"environment variable {REPOSITORY_VARIABLE}; or set HYBRID_JARS to a folder in which a "
        f"folder {request.name} contains the jars."
    )
    return InputError(message, hint, server=place.root)
