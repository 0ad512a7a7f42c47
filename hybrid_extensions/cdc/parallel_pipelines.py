"""Parallel work on pipelines, 4 at a time, in threads that Ctrl-C ends; results as they come."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 4
"""How many pipelines are brought to their live run at a time."""


@contextmanager
def run_in_threads(work: Callable[[T], R], given: Sequence[T]) -> Iterator[Iterator[R]]:
    """Call a function in parallel, in at most :data:`AT_ONCE` threads; yield results as they come.

    The threads begin when the first result is asked for.

    If an interrupt (Ctrl-C) or an error ends the ``with`` block, nothing more is begun, and each
    thread gets a :class:`KeyboardInterrupt`, as the main thread does by Ctrl-C; the block then
    waits until all have cleaned up. A second interrupt does not wait for them. The order of results
    is that in which they are ready.

    Args:
        work: The function. Its errors are raised where its results would be yielded.
        given: What it is called with.

    Yields:
        The results, which are to be iterated within the block.
    """
    known: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
    # Iterators of lists may be shared by threads.
    waiting = iter(list(given))
    is_over = threading.Event()

    def act() -> None:
        with suppress(KeyboardInterrupt):
            for each in waiting:
                if is_over.is_set():
                    return
                result: Future[R] = Future()
                try:
                    result.set_result(work(each))
                except BaseException as error:
                    result.set_exception(error)
                known.put(result)

    # A second interrupt does not wait for daemons.
    threads = [threading.Thread(target=act, daemon=True) for _ in given[:AT_ONCE]]

    def results() -> Iterator[R]:
        for thread in threads:
            thread.start()
        for _ in given:
            yield known.get().result()

    try:
        # Nothing is begun before the block is: an interrupt before that would leave it behind.
        yield results()
    except BaseException:
        is_over.set()
        # One that starts only now sees that it is over.
        begun = [thread for thread in threads if thread.is_alive()]
        for thread in begun:
            _interrupt(thread)
        for thread in begun:
            thread.join()
        raise


def _interrupt(thread: threading.Thread) -> None:
    """Raise a KeyboardInterrupt in a thread as soon as it runs Python code, unless it has ended."""
    number, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error)
