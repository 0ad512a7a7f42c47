"""Error of a launched driver for those who wait: its own report, or transient without one."""

from __future__ import annotations

from typing import cast

from sources.errors import ErrorFields, ErrorReport, RunError

_AGAIN = "Run the pipeline again: `hybrid run P`. It resumes after the last committed micro-batch."
_UNREPORTED = f"Read more of its output with `hybrid logs P`, and correct the cause. {_AGAIN}"
KILLED = ("with status -9", "with status 137")
"""How a driver of this machine ended that was killed, by itself or below a shell."""


class DriverError(RunError):
    """Error that a launched driver failed, or ended without having completed its work.

    If the driver reported an error before it ended, this error has the kind, the hint, the fields
    and the transient flag of that report. One that ended without a report, because it was killed or
    the cluster lost it, is transient: another attempt may succeed.

    Args:
        source: Name of the source that the driver read.
        how: How the driver ended, such as ``with status 1``; empty if that is not known.
        reported: The driver's own report; None if it wrote none.
        words: Whatever else explains the end, such as the last lines of its log.
    """

    def __init__(
        self, source: str, how: str, reported: ErrorReport | None, words: str = ""
    ) -> None:
        self.reported = reported
        cause = words if reported is None else f"{words} {reported.message}".strip()
        known: dict[str, str | int] = {} if reported is None else reported.fields
        super().__init__(
            f"The Spark run of `{source}` ended{how and f' {how}'}. {cause}".rstrip(),
            (reported and reported.hint) or (_AGAIN if how in KILLED else _UNREPORTED),
            transient=None if reported is None else reported.transient,
            **cast("ErrorFields", {"source": source, **known}),
        )

    def report(self) -> ErrorReport:
        """Return the error as a document, with the ``kind`` of the error that the driver reported.

        ``run`` if the driver ended without a report.
        """
        own = super().report()
        return own if self.reported is None else own.model_copy(update={"kind": self.reported.kind})
