"""Debian's packages, unpacked with all their libraries into any folder, without root.

apt-get works on lists of packages of its own, and dpkg-deb extracts what it has downloaded: nothing
is installed, and it does not matter which packages the machine has.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# apt regards them as installed, and no server needs them: they serve an installation, compile
# PostgreSQL's queries, or draw for a browser without a window.
LEFT_OUT = (
    *("adduser", "debconf", "dpkg", "init-system-helpers", "locales", "lsb-base", "openssl"),
    *("passwd", "perl", "perl-base", "postgresql-client-common", "postgresql-common", "procps"),
    *("ssl-cert", "sysvinit-utils", "tar", "ucf"),
    *("libgl1-mesa-dri", "libllvm14", "x11-utils", "xdg-utils"),
)
"""Packages that are not unpacked although others depend on them."""
_C_LIBRARY = "libc6"
_UNUSED_FOLDERS = ("doc", "icons", "info", "javascript", "lintian", "locale", "man", "perl5")
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Archive(NamedTuple):
    """An archive other than Debian's, whose packages have the same form.

    Attributes:
        url: Its address.
        keys: The file with the keys that sign it, below the root of a system.
        keys_package: The package that has this file, in Debian's archive.
    """

    url: str
    keys: Path
    keys_package: str


UBUNTU = Archive(
    "http://archive.ubuntu.com/ubuntu",
    Path("usr/share/keyrings/ubuntu-archive-keyring.gpg"),
    "ubuntu-archive-keyring",
)
_KEYS_SUITE = "trixie"


def has_apt() -> bool:
    """Return whether this machine has ``apt-get`` and ``dpkg-deb``, which :func:`unpack` needs."""
    return all(map(shutil.which, ("apt-get", "dpkg-deb")))


def unpack(
    folder: Path,
    suite: str,
    packages: Sequence[str],
    *,
    with_c_library: bool,
    archive: Archive | None = None,
) -> Path:
    """Download packages and what they depend on, but for :data:`LEFT_OUT`, and extract them.

    Nothing is installed. Without an archive they come, on Debian, from the one that the machine's
    own sources name. On related systems, such as Ubuntu, they come from these sources themselves,
    whatever the suite.

    Args:
        folder: An empty folder.
        suite: The archive's suite, such as ``bookworm``.
        packages: Names of packages.
        with_c_library: Whether their C library is extracted, too; its own loader has to run them.
        archive: The archive to use; None for the one that the machine's own sources name.

    Returns:
        The folder below ``folder`` that corresponds to ``/``.

    Raises:
        subprocess.CalledProcessError: apt-get or dpkg-deb failed, as without a network.
    """
    keys = _keys(folder / "keys", archive) if archive else _KEYS
    root, work = folder / "root", folder / "apt"
    (work / "cache" / "archives" / "partial").mkdir(parents=True)
    (work / "state" / "lists" / "partial").mkdir(parents=True)
    _write_status(work / "status", LEFT_OUT if with_c_library else (*LEFT_OUT, _C_LIBRARY))
    settings = _settings(work)
    if archive or platform.freedesktop_os_release()["ID"] == "debian":
        url = archive.url if archive else _archive(work, settings)
        suites = [suite, f"{suite}-updates"] if archive else [suite]
        signed = f"signed-by={keys} " if keys.exists() else ""
        sources = [f"deb [{signed}target=Packages] {url} {each} main\n" for each in suites]
        (work / "sources.list").write_text("".join(sources))
        settings += f'Dir::Etc::SourceList "{work}/sources.list";\n'
        settings += 'Dir::Etc::SourceParts "/dev/null";\n'
    _apt(work, settings, "update")
    _apt(work, settings, "install", "--yes", "--download-only", *packages)
    for package in sorted((work / "cache" / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    shutil.rmtree(work)
    shutil.rmtree(folder / "keys", ignore_errors=True)
    for name in _UNUSED_FOLDERS:
        shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)
    return root


def _keys(folder: Path, archive: Archive) -> Path:
    """Return the file with an archive's keys: the machine's own, else the one that Debian has."""
    installed = "/" / archive.keys
    if installed.exists():
        return installed
    folder.mkdir()
    packages = [archive.keys_package]
    return unpack(folder, _KEYS_SUITE, packages, with_c_library=False) / archive.keys


def _write_status(file: Path, packages: Sequence[str]) -> None:
    """Write the list of installed packages, in versions that every dependency accepts."""
    common = "Status: install ok installed\nVersion: 999\nArchitecture: all\nMulti-Arch: allowed\n"
    file.write_text("".join(f"Package: {name}\n{common}\n" for name in packages))


def _settings(work: Path) -> str:
    """Return settings of apt by which it neither reads nor changes anything of the machine's.

    The machine's other settings hold, such as those of a proxy.
    """
    hooks = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
    return "".join(
        [
            *(f"#clear APT::Update::{hook};\n" for hook in hooks),
            f'Dir::State "{work}/state";\n',
            f'Dir::State::Status "{work}/status";\n',
            f'Dir::Cache "{work}/cache";\n',
            'Dir::Etc::Preferences "/dev/null";\n',
            'Dir::Etc::PreferencesParts "/dev/null";\n',
            'Acquire::Languages "none";\n',
            'APT::Install-Recommends "false";\n',
            # Otherwise an archive that does not answer is a warning.
            'APT::Update::Error-Mode "any";\n',
            # As root, it would download as an account that may not enter the folder.
            'APT::Sandbox::User "root";\n',
            # The lock is that of the machine's packages, which ordinary users can't take.
            'Debug::NoLocking "true";\n',
        ]
    )


def _archive(work: Path, settings: str) -> str:
    """Return the address of Debian's archive that the machine's own sources name."""
    printed = _apt(work, settings, "update", "--print-uris")
    found = re.findall(r"^'(\S+)/dists/(\S+)/InRelease' ", printed, re.MULTILINE)
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME")
    # Sources may also name a suite such as `stable`; the archive is the first of them then.
    return str(next((url for url, suite in found if suite == codename), found[0][0]))


def _apt(work: Path, settings: str, *words: str) -> str:
    file = work / "apt.conf"
    file.write_text(settings)
    return _run(["apt-get", "--quiet", f"--config-file={file}", *words])


def _run(command: list[str]) -> str:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    ).stdout
