"""Kinds of second sinks: opens the one that a feed declares, importing its client on demand."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid_extensions.feeds.base import FeedSink
from hybrid_extensions.feeds.declare import AnyFeed, KafkaFeed, PostgresFeed, RedisFeed
from sources.common.optional import needs_extra
from sources.config.loader import LoadedPipeline
from sources.storage.folder import Folder


def open_sink(
    feed: AnyFeed, loaded: LoadedPipeline, key: Sequence[str], folder: Folder
) -> FeedSink:
    """Return the sink of a feed, without connecting to it.

    Args:
        feed: The declaration.
        loaded: The pipeline.
        key: Columns that identify a row of the target.
        folder: State folder of the feed.

    Raises:
        InputError: A package that the kind of sink needs is not installed, a function can't be
            imported, or the file of a password can't be read.
        UnavailableError: The feed is to the local broker, which does not run.
    """
    owner = f"{loaded.pipeline.name}.{feed.name}"
    if isinstance(feed, PostgresFeed):
        with needs_extra("postgres", "A feed of `type: postgres`"):
            from hybrid_extensions.feeds.sinks.postgres import PostgresSink
        return PostgresSink(feed, owner, key)
    if isinstance(feed, RedisFeed):
        with needs_extra("redis", "A feed of `type: redis`"):
            from hybrid_extensions.feeds.sinks.redis_keys import RedisSink
        return RedisSink(feed, owner)
    if isinstance(feed, KafkaFeed):
        from hybrid_extensions.feeds.sinks.kafka_topic import KafkaSink

        return KafkaSink(feed, owner)
    from hybrid_extensions.feeds.sinks.python_function import PythonSink

    return PythonSink(feed, loaded, folder)
