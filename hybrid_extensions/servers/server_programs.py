"""Programs of servers (and tools) for tests and demos, unpacked without installation or root.

Debian's packages are unpacked into the cache folder once. Only where there is no apt are programs
used that the machine has installed.

    python -m hybrid_extensions.servers.server_programs NAME …      makes them available now; all
    without a name
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hybrid_extensions.servers import debian
from hybrid_extensions.servers.process import last_lines
from sources.common.cache import cache_folder, make_private
from sources.errors import InputError

_LIBRARIES = ("lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/pulseaudio")
_LOADER = "usr/lib/*-linux-gnu*/ld-linux*.so.*"
_PROGRAMS = ("usr/bin/*", "usr/sbin/*", "usr/lib/postgresql/*/bin/*")
_COMPILED = ".compiled"


def make_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; create and fill it first if it does not exist.

    Several processes may call this at once: one fills the folder while the others wait, without a
    limit of time. The folder appears by one rename, when it is complete.

    Args:
        folder: The folder.
        fill: Called with an empty folder next to it, which is renamed afterwards. Its errors are
            raised, and the folder does not appear.

    Raises:
        OSError: The cache can't be written.
    """
    if folder.is_dir():
        return folder
    make_private(folder.parent)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have finished while this one waited.
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o700)
            fill(part)
            part.rename(folder)
    return folder


class Server(NamedTuple):
    """A server's packages in Debian's archive, or another one.

    Attributes:
        name: Name of the server, for messages.
        packages: Names of the packages.
        programs: Paths of the programs in them, as patterns below the root.
        suite: Suite of the archive that has them.
        own_loader: Whether the suite is newer than machines are, so that the programs run with its
            C library.
        archive: The archive that has them; None for Debian's.
    """

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    suite: str = "bookworm"
    own_loader: bool = False
    archive: debian.Archive | None = None

    @property
    def installed_by(self) -> str:
        """Command that installs it on a Debian-like system."""
        return f"apt-get install {' '.join(self.packages)}"


class Programs(NamedTuple):
    """Programs of a server, ready to run.

    Attributes:
        paths: Path of each program, by name.
        root: The folder that corresponds to ``/`` for files that the programs look for at fixed
            places.
        libraries: Folders of the libraries that came with them; none if they are installed.
    """

    paths: Mapping[str, Path]
    root: Path
    libraries: tuple[Path, ...] = ()


class MissingServerError(InputError):
    """Error: a server is not installed on this machine and can't be obtained.

    Args:
        server: Name of the server, for messages.
        why: What is missing, or what failed: a sentence.
        command: The command that installs it.

    Attributes:
        server: As given.
        command: As given.
    """

    def __init__(self, server: str, why: str, command: str) -> None:
        super().__init__(f"{server} is not available. {why}", f"Install it: `{command}`.")
        self.server = server
        self.command = command


_NEWER = os.environ.get("HYBRID_NEWER_SERVERS") == "1"
"""Whether PostgreSQL and MariaDB are those of the newest suite, so that tests run with them."""
_SUITE = "sid" if _NEWER else "bookworm"
_OLDER_MYSQL = {
    "8.0": ("mysql-server-core-8.0", "noble"),
    "8.4": ("mysql-server-core", "resolute"),
}
"""Package and suite of Ubuntu's archive of each version that Debian does not have."""


def _mysql(version: str | None) -> Server:
    """Return MySQL in the version that tests shall run with: Debian's, unless one is named."""
    paths = ("usr/sbin/mysqld",)
    if not version:
        return Server("MySQL", ("mysql-server-core",), paths, suite="sid", own_loader=True)
    if version not in _OLDER_MYSQL:
        message = f"HYBRID_MYSQL is `{version}`, which is not a version that is known here."
        raise InputError(message, f"Name one of {', '.join(_OLDER_MYSQL)}, or unset it.")
    package, suite = _OLDER_MYSQL[version]
    return Server("MySQL", (package,), paths, suite, own_loader=True, archive=debian.UBUNTU)


POSTGRESQL, MARIADB, MYSQL, REDIS, PROMETHEUS, CHROMIUM, SYSBENCH = SERVERS = (
    Server(
        "PostgreSQL",
        ("postgresql-18" if _NEWER else "postgresql-15",),
        tuple(
            f"usr/lib/postgresql/*/bin/{name}"
            for name in ("initdb", "pg_isready", "pg_recvlogical", "postgres")
        ),
        _SUITE,
        _NEWER,
    ),
    Server(
        "MariaDB",
        ("mariadb-server-core", "mariadb-client-core"),
        ("usr/sbin/mariadbd", "usr/bin/mariadb-install-db", "usr/bin/mariadb"),
        _SUITE,
        _NEWER,
    ),
    _mysql(os.environ.get("HYBRID_MYSQL")),
    Server("Redis", ("redis-server",), ("usr/bin/redis-server",)),
    Server("Prometheus", ("prometheus",), ("usr/bin/prometheus",)),
    Server(
        "Chromium",
        # Playwright's own program needs the last one.
        ("chromium-headless-shell", "fonts-dejavu-core", "libatomic1"),
        ("usr/lib/chromium/chromium-headless-shell",),
    ),
    # No server, but what puts load on one.
    Server("sysbench", ("sysbench",), ("usr/bin/sysbench",)),
)


def obtain(server: Server) -> Programs:
    """Return the programs of a server; unpack its packages first if they are not in the cache.

    Several processes may call this at once: one downloads and unpacks, the others wait for it.

    Args:
        server: One of ``SERVERS``.

    Raises:
        MissingServerError: The packages can't be downloaded or lack a program; or there is no apt,
            and the programs are not installed.
        OSError: The cache folder can't be written.
    """
    if not debian.has_apt():
        return _installed(server)
    digest = hashlib.sha256(repr((server, debian.LEFT_OUT)).encode()).hexdigest()[:10]
    folder = cache_folder() / "servers" / f"{server.name.lower()}-{digest}"
    make_once(folder, partial(_unpack, server, folder))
    names = (Path(pattern).name for pattern in server.programs)
    paths = {name: folder / "bin" / name for name in names}
    return Programs(paths, folder / "root", _libraries(folder / "root"))


def _installed(server: Server) -> Programs:
    """Return programs that are on PATH, or where Debian's packages have them."""
    paths = {}
    for pattern in server.programs:
        name = Path(pattern).name
        on_path = shutil.which(name)
        # Of several versions the newest.
        found = [Path(on_path)] if on_path else sorted(Path("/").glob(pattern), reverse=True)
        if not found:
            why = f"There is no program `{name}`, and no apt-get with dpkg-deb to get it with."
            raise MissingServerError(server.name, why, server.installed_by)
        paths[name] = found[0]
    return Programs(paths, Path("/"))


def _unpack(server: Server, final: Path, folder: Path) -> None:
    """Unpack a server into a folder and write scripts that run its programs.

    Args:
        server: The server.
        final: What the folder is called later; the scripts name it.
        folder: An empty folder.
    """
    # The same again: what is installed on the machine is not used where there is apt.
    again = shlex.join(
        [sys.executable, "-m", "hybrid_extensions.servers.server_programs", server.name]
    )
    try:
        root = debian.unpack(
            folder,
            server.suite,
            server.packages,
            with_c_library=server.own_loader,
            archive=server.archive,
        )
    except subprocess.CalledProcessError as error:
        why = f"`{shlex.join(error.cmd)}` failed:\n{last_lines(error.stdout.encode())}"
        raise MissingServerError(server.name, why, again) from None

    def later(pattern: str) -> list[str]:
        return [str(final / path.relative_to(folder)) for path in root.glob(pattern)]

    libraries = ":".join(str(final / path.relative_to(folder)) for path in _libraries(root))
    if server.own_loader:
        (loader,) = later(_LOADER)
        _run_by(loader, libraries, root, final / root.relative_to(folder))
    (folder / "bin").mkdir()
    for pattern in server.programs:
        if not (program := later(pattern)):
            why = f"Its packages have no program `{Path(pattern).name}`."
            raise MissingServerError(server.name, why, server.installed_by)
        # Programs that it starts need them, too.
        how = [] if server.own_loader else ["env", f"LD_LIBRARY_PATH={libraries}"]
        _write_script(folder / "bin" / Path(pattern).name, [*how, *program])


def _run_by(loader: str, libraries: str, root: Path, final: Path) -> None:
    """Let a loader run programs, whoever starts them: a script is where each was.

    Args:
        loader: Path of the loader.
        libraries: Folders of its libraries, with colons in between.
        root: The folder that corresponds to ``/``.
        final: What it is called later.
    """
    for pattern in _PROGRAMS:
        for program in root.glob(pattern):
            if program.is_symlink() or not program.is_file() or not _is_compiled(program):
                continue
            moved = program.rename(f"{program}{_COMPILED}")
            place = str(final / program.relative_to(root))
            code = str(final / moved.relative_to(root))
            # Programs look for what belongs to them where they are by their name.
            words = ["--argv0", place, "--library-path", libraries, code]
            _write_script(program, [loader, *words])


def _is_compiled(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _write_script(file: Path, command: Sequence[str]) -> None:
    """Write a script that runs a command with its own arguments."""
    file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    file.chmod(0o755)


def _libraries(root: Path) -> tuple[Path, ...]:
    return tuple(path for pattern in _LIBRARIES for path in root.glob(pattern))


def main() -> None:
    """Make the servers available that the command line names, or all; print their programs' paths.

    Raises:
        MissingServerError: A server can't be obtained.
    """
    wanted = {name.lower() for name in sys.argv[1:]}
    for server in SERVERS:
        if not wanted or server.name.lower() in wanted:
            for path in obtain(server).paths.values():
                sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
