"""Collector for Prometheus: each pipeline's status at each scrape; one that fails is just 0."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hybrid_extensions.metrics import catalog
from hybrid_extensions.metrics.catalog import Metric
from hybrid_extensions.metrics.headroom import HeadroomLooks
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status, status_of
from sources.common.optional import needs_extra
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.generations import acting_on
from spark_jobs.run_state.progress_log import read_progress_log

with needs_extra("metrics", "`hybrid metrics`"):
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.registry import Collector

_LOG = logging.getLogger(__name__)
_LABELS = ("pipeline", "generation")
_OF_SOURCE = (*_LABELS, "source")


class Sample(NamedTuple):
    """Value of a metric.

    Attributes:
        metric: The metric.
        labels: Values of its labels, by name.
        value: The value; 1 and 0 for true and false.
    """

    metric: Metric
    labels: dict[str, str]
    value: float


class PipelineCollector(Collector):
    """Collector of the metrics of pipelines, for a registry of ``prometheus_client``.

    A pipeline whose file or state can't be read has ``hybrid_look_success`` 0, and no other metric;
    the scrape does not fail, and others are not affected. Scrapes at the same time wait for each
    other, so that state and brokers are asked once at a time.

    Args:
        paths: The pipelines' files, which are read again at each scrape.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        # A file that can't be read has the name that it had, by which alerts know the pipeline.
        self._names = {path: path.stem for path in paths}
        self._headroom = HeadroomLooks()
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Family]:
        """Yield all metrics of all pipelines; called by the registry at each scrape.

        It looks at states and brokers, which may take seconds. Each metric of the catalog is there,
        maybe without a value.
        """
        with self._lock:
            samples = [sample for path in self._names for sample in self._samples(path)]
        added = [each.metric for each in samples if each.metric not in catalog.EVERY]
        for metric in dict.fromkeys([*catalog.EVERY, *added]):
            own = [each for each in samples if each.metric == metric]
            names = list(own[0].labels) if own else []
            made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made(f"{catalog.PREFIX}{metric.name}", metric.help, labels=names)
            for each in own:
                family.add_metric([each.labels[name] for name in names], each.value)
            yield family

    def describe(self) -> list[Family]:
        """Return an empty list, so that registration does not read the pipelines' status.

        Called by the registry of ``prometheus_client``.
        """
        return []

    def _samples(self, path: Path) -> list[Sample]:
        try:
            loaded = load_pipeline(path)
            self._names[path] = loaded.pipeline.name
            found = status_of(loaded)
            own = list(self._of(loaded, found))
            if found.served_by is not None:
                own += self._of(loaded, found.served_by)
            own += _of_parts(found)
        # Whatever it is, the metrics of the other pipelines must be there.
        except Exception:
            _LOG.exception("The status of pipeline `%s` can't be read.", self._names[path])
            return [Sample(catalog.LOOK, {"pipeline": self._names[path]}, 0)]
        return [Sample(catalog.LOOK, {"pipeline": self._names[path]}, 1), *own]

    def _of(self, loaded: LoadedPipeline, found: Status) -> Iterator[Sample]:
        """Yield the metrics of one generation; none if nothing was planned yet."""
        if found.generation is None:
            return
        labels = dict(zip(_LABELS, (found.pipeline, found.generation), strict=True))
        yield Sample(catalog.HEALTHY, labels, found.own_healthy)
        if found.live is not None:
            for health in catalog.HEALTHS:
                own = {**labels, "health": health}
                yield Sample(catalog.HEALTH, own, health == found.live.health)
            yield Sample(catalog.RED, labels, found.live.is_red)
            for name, metric in catalog.LIVE.items():
                if (value := found.live.numbers.get(name)) is not None:
                    yield Sample(metric, labels, value)
        acting = acting_on(loaded, found.generation, as_kept=True)
        for source in found.sources:
            yield from _of_source(acting, labels, source)
            yield from self._headroom_of(acting, labels, source)

    def _headroom_of(
        self, loaded: LoadedPipeline, labels: dict[str, str], found: SourceStatus
    ) -> Iterator[Sample]:
        headroom = self._headroom.of(loaded, labels["generation"], found)
        if headroom is not None:
            place = {"topic": headroom.topic, "partition": str(headroom.partition)}
            own = {**labels, "source": found.source, **place}
            yield Sample(catalog.HEADROOM, own, headroom.left_ms / 1000)


def _of_parts(found: Status) -> Iterator[Sample]:
    for part in found.parts:
        for each in part.numbers:
            yield Sample(catalog.Metric(each.name, each.help), dict(each.labels), each.value)


def _of_source(
    loaded: LoadedPipeline, labels: dict[str, str], found: SourceStatus
) -> Iterator[Sample]:
    own = dict(zip(_OF_SOURCE, (*labels.values(), found.source), strict=True))
    for state in catalog.SOURCE_STATES:
        yield Sample(catalog.STATE, {**own, "state": state}, state == found.state)
    beat = found.heartbeat
    if beat is None:
        return
    log = read_progress_log(loaded.require_generation(), found.source)
    if log is not None and log.samples:
        last = log.samples[-1]
        unit = {**own, "unit": log.unit}
        yield Sample(catalog.COMMITTED, unit, last.done)
        if last.left is not None:
            yield Sample(catalog.LEFT, unit, last.left)
    yield Sample(catalog.BAD, own, beat.bad_records)
    yield Sample(catalog.OUTSIDE, own, beat.outside_records)
    if beat.late_rows is not None:
        yield Sample(catalog.LATE, own, beat.late_rows)
    if beat.batch_ms is not None:
        yield Sample(catalog.BATCH, own, beat.batch_ms / 1000)
