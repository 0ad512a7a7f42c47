"""Java exceptions below an error of PySpark or Py4J, outermost first, while the JVM is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

P = ParamSpec("P")
R = TypeVar("R")


def none_without_jvm(question: Callable[P, R | None]) -> Callable[P, R | None]:
    """Decorate a question about Java exceptions: its answer is None if the JVM is gone."""

    @wraps(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return question(*args, **kwargs)
        except Py4JError:
            return None

    return asked


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exceptions that caused an error of PySpark or Py4J, outermost first.

    For look-ups of a cause's class, as PySpark keeps class and condition of the outermost one only.

    Args:
        error: An exception of PySpark or Py4J; for any other one nothing is yielded.

    Raises:
        Py4JError: The JVM is gone.
    """
    name = "java_exception" if isinstance(error, Py4JJavaError) else "_origin"
    below = getattr(error, name, None)
    while below is not None:
        yield below
        below = below.getCause()


def first_line(cause: Any) -> str:
    """Return the first line of a Java exception's message, without its full stop; else its class.

    Args:
        cause: One of :func:`java_causes`.

    Raises:
        Py4JError: The JVM is gone.
    """
    text = str(cause.getMessage() or cause.getClass().getName().rpartition(".")[2])
    return text.strip().partition("\n")[0].rstrip(".")


def class_names(cause: Any) -> Iterator[str]:
    """Yield the names of the class of a Java exception, and of all classes above it.

    Args:
        cause: One of :func:`java_causes`.

    Raises:
        Py4JError: The JVM is gone.
    """
    kind = cause.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()
