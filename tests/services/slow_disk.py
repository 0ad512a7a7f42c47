"""A slow disk: each write and sync below a folder takes longer, as if others used it up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void delay(int file) {
    const char *folder = getenv("SLOW_DISK"), *flag = getenv("SLOW_DISK_FLAG");
    char link[64], path[PATH_MAX];
    ssize_t size;
    if (!folder || !flag || access(flag, F_OK)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = 0;
    if (!strncmp(path, folder, strlen(folder))) usleep(100000);
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    delay(file);
    return real(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    delay(file);
    return real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    delay(file);
    return real(file, data, size, at);
}

int fsync(int file) {
    REAL(fsync);
    delay(file);
    return real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    delay(file);
    return real(file);
}
"""


class SlowDisk:
    """What makes the disk of a folder slow for processes that are started from now on.

    Skips the test where no C can be compiled.

    Args:
        folder: The folder.
        scratch: Where the library is made.
    """

    def __init__(self, folder: Path, scratch: Path, patch: pytest.MonkeyPatch) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler")
        source, library = scratch / "slow_disk.c", scratch / "slow_disk.so"
        source.write_text(_SOURCE)
        command = [compiler, "-shared", "-fPIC", "-O2", str(source), "-o", str(library), "-ldl"]
        subprocess.run(command, check=True)
        self._flag = scratch / "disk-is-slow"
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("SLOW_DISK", str(folder))
        patch.setenv("SLOW_DISK_FLAG", str(self._flag))

    def slow_down(self) -> None:
        """Let each write and sync take 100 ms longer."""
        self._flag.touch()

    def recover(self) -> None:
        """Let the disk be as fast as it is."""
        self._flag.unlink()
