"""Check of a topic's event times: those out of bounds are refused, dropped or quarantined.

Where ``event_time.not_after`` is not declared, the highest time that counts follows a clock:

- Of a topic that is followed it is the clock of the micro-batch. Spark writes it to the offset log
  before the micro-batch runs (``batchTimestampMs``), so a replay decides the same.
- Of a bounded topic it is the time at which its range was decided, for a stream as for a batch: all
  of its records were in the log by then.
- A followed topic that is read again as a batch (to count the seam, or to look up rows older than
  the keys kept of history) follows the clock of that moment. It is later than that of any
  micro-batch before, so nothing is left out that the stream has kept. A record that the stream left
  out may be inside by now: it counts as a row of the seam then, and is not among those removed
  unless history holds its key. It is never older than the keys kept, as it was in the future.

Bounds that are changed later apply to records that are read later. Those left out before come back
in a new generation only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.durations import DAY_MS
from sources.common.sql.sql_names import in_backticks
from sources.config.source.event_time import EventTime
from sources.errors import InputError
from sources.storage.folder import Folder
from spark_jobs.inside.readers.staged_bad_records import STAGED, unmovable, without_staged
from spark_jobs.inside.readers.topics.decode_records import KEY, RECORD, TIME, VALUE
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC
from spark_jobs.inside.readers.topics.record_errors import raise_at_record

_HINT = (
    "If the time is right, correct `event_time.not_before` or `event_time.not_after`. To continue "
    "without such records, declare `event_time.outside: quarantine`, which keeps them in a table; "
    "with `drop` they are lost, with `keep` they are read like any other. Then run the pipeline "
    "again: `hybrid run P`. No row of this micro-batch was written."
)
_MARK = "__marked"
_SHOWN = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


@dataclass(frozen=True)
class EventTimeCheck:
    """Check of the event times of a topic's rows.

    Attributes:
        declared: The pipeline's event time: column, bounds, policy.
        clock_ms: Clock at which ``not_after`` is measured if it is not declared, in Unix
            milliseconds; None for the clock of each micro-batch, or of the query if it is a batch.
    """

    declared: EventTime
    clock_ms: int | None = None

    def needed(self, *, is_staged: bool) -> list[str]:
        """Return the columns of a record that :meth:`apply` needs besides its position in the log.

        Args:
            is_staged: Whether records that are left out are staged.

        Returns:
            Names out of ``RECORD``; empty if nothing more is needed.
        """
        if not is_staged or self.declared.outside in ("fail", "keep"):
            return []
        return [*RECORD] if self.declared.outside == "quarantine" else [TIME]

    def apply(self, rows: DataFrame, staging: Folder | None) -> DataFrame:
        """Return the rows whose event time is within bounds or null; handle the others as declared.

        Under ``outside: fail`` any other row fails the query with an :class:`InputError` that has
        topic, partition, offset, the time and the bounds. Under ``drop`` and ``quarantine`` it is
        left out, and staged (:mod:`spark_jobs.inside.readers.staged_bad_records`). Under ``keep``
        all rows stay.

        Args:
            rows: Rows with the event-time column, ``LOG_COLUMNS`` and the columns that
                :meth:`needed` names.
            staging: Folder in which the source's bad records are staged; None if nothing is.
        """
        if self.declared.outside == "keep":
            return rows
        always = unmovable()
        if staging is not None and self.declared.outside != "fail":
            return without_staged(rows, F.when(self._is_outside & always, self._staged), staging)
        outside = F.lit(False)
        if self.declared.outside == "fail":
            reason = F.concat(self._reason, F.lit("."))
            outside = raise_at_record(InputError, reason, _HINT).cast("boolean")
        marked = F.when(self._is_outside, outside).otherwise(always)
        return rows.select("*", marked.alias(_MARK)).where(_MARK).drop(_MARK)

    @property
    def bounds_ms(self) -> tuple[Column, Column]:
        """Lowest and highest valid event time, both inclusive, in Unix milliseconds."""
        low, high = self.declared.bounds_ms(self.clock_ms or 0)
        if self.declared.not_after is None and self.clock_ms is None:
            # What was measured from zero is what is added to the day.
            return F.lit(low), _start_of_day_ms() + F.lit(high)
        return F.lit(low), F.lit(high)

    @property
    def _is_outside(self) -> Column:
        """Whether a row's event time is outside of the bounds; never null."""
        low, high = self.bounds_ms
        time = F.unix_millis(F.col(in_backticks(self.declared.column)))
        return F.coalesce((time < low) | (time > high), F.lit(False))

    @property
    def _reason(self) -> Column:
        low, high = (F.date_format(F.timestamp_millis(bound), _SHOWN) for bound in self.bounds_ms)
        time = F.date_format(F.col(in_backticks(self.declared.column)), _SHOWN)
        parts = ["the event time `", self.declared.column, "` is ", time, ", but only times from "]
        return F.concat(
            *(part if isinstance(part, Column) else F.lit(part) for part in parts),
            *(low, F.lit(" to "), high, F.lit(" count")),
        )

    @property
    def _staged(self) -> Column:
        nothing = F.lit(None).cast("binary")
        keeps = self.declared.outside == "quarantine"
        columns = {
            "place": F.col(TOPIC),
            "partition": F.col(PARTITION),
            "offset": F.col(OFFSET),
            "timestamp": F.col(TIME),
            "key": F.col(KEY) if keeps else nothing,
            "value": F.col(VALUE) if keeps else nothing,
            "kind": F.lit("outside"),
            "reason": self._reason,
        }
        return F.struct(*(columns[name].alias(name) for name in STAGED.names))


def _start_of_day_ms() -> Column:
    """Return the start of a micro-batch's day, in UTC, in Unix milliseconds.

    The date is the same number in all micro-batches of a day, the time is another in each, for
    which Spark would compile the query's code again.
    """
    if SparkSession.active().conf.get("spark.sql.session.timeZone") == "UTC":
        return F.unix_date(F.current_date()).cast("long") * F.lit(DAY_MS)
    now = F.unix_millis(F.current_timestamp())
    return now - now % F.lit(DAY_MS)
