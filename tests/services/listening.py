"""Which processes a launch consists of, and the addresses that they listen on, by the kernel."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"


def session_of(leader: int) -> list[int]:
    """All processes that a process has started and that share its session, itself included."""
    found = []
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # After the command's name in parentheses: state, parent, group, session.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                found.append(int(folder.name))
    return sorted(found)


def command_of(pid: int) -> str:
    """The command line, as anyone on the machine may read it; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    return ""


def listening(pids: list[int]) -> set[str]:
    """The TCP addresses that processes listen on, without ports."""
    sockets: dict[str, str] = {}
    for name in ("tcp", "tcp6"):
        for line in (PROC / "net" / name).read_text().splitlines()[1:]:
            _, local, _, state, *_, = fields = line.split()  # fmt: skip
            if state == _LISTEN:
                sockets[f"socket:[{fields[9]}]"] = _address(local.partition(":")[0])
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in (PROC / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found |= {
                        sockets[each] for each in [os.readlink(descriptor)] if each in sockets
                    }
    return found


def _address(written: str) -> str:
    """An address as the kernel writes it: words of four bytes in the machine's byte order."""
    words = struct.unpack(f">{len(written) // 8}I", bytes.fromhex(written))
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
