"""Declaration of feeds: second sinks, which get the rows of the target from its commits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from sources.common.durations import Duration
from sources.common.fields import Declared, Name, Reference
from sources.common.login.security import Security
from sources.config.document.plain_secrets import without_password
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.section import Section
from sources.config.table.sink import VECTORS
from sources.errors import InputError

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
"""Name of an environment variable."""


# The user, and the rest.
_URL = re.compile(r"rediss?://([^:@/\s]+@)?[^@\s]+")


def _address(url: str) -> str:
    if not _URL.fullmatch(url):
        message = (
            "`url` is not an address such as redis://user@host:6379/0, without a password (it is "
            "not shown, as it may contain one). Correct it; the password comes from the "
            "environment variable that `password_variable` names."
        )
        raise ValueError(message)
    return url


class Keep(Declared):
    """What a feed keeps of its deliveries, to compare what was served with what training takes.

    Attributes:
        path: Folder of the Delta table that gets the rows of each delivery. Nobody else writes to
            it, and each feed has one of its own.
        days: Days for which deliveries are kept.
        trained_on: File of the pipeline whose table training reads, if that is another one: it has
            the columns of this pipeline's ``sink.key``, and keeps all values.
        known_at: Column of that table with the time at which a row became known; by default as for
            a training set.
        max_different: Largest share of look-ups, from 0 to 1, that may have found another value
            than training takes: the feed is not healthy above it. By default any share is shown,
            and none is unhealthy.

    """

    path: str
    days: int = Field(default=30, ge=1)
    trained_on: str | None = None
    known_at: str | None = None
    max_different: float | None = Field(default=None, ge=0, le=1)


class Feed(Declared):
    """A second sink of any type.

    Attributes:
        name: Name of the feed.
        columns: Columns that it gets, besides ``sink.key``; all by default.
        every: Least time between two looks at the table for a new version.
        max_lag: A feed is late, which is not healthy, if a commit of the table has waited for it
            for longer.
        keep: Where deliveries are kept; by default they are not.
    """

    name: Name
    columns: list[str] = Field(default_factory=list)
    every: Duration = timedelta(seconds=1)
    max_lag: Duration = timedelta(minutes=10)
    keep: Keep | None = None

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return the feed with the paths of its files made absolute.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        if self.keep is None:
            return self
        other = self.keep.trained_on
        paths = {
            "path": locate(self.keep.path),
            "trained_on": None if other is None else locate(other),
        }
        return self.model_copy(update={"keep": self.keep.model_copy(update=paths)})


class PostgresFeed(Feed):
    """A table of PostgreSQL, which has the rows of the target.

    Attributes:
        type: ``postgres``.
        dsn: Connection string of libpq, such as ``host=db dbname=serving user=feeder``, without a
            password.
        password_variable: Environment variable with the password, which the follower reads.
            Without it libpq's own password file is used.
        table: Name of the table, ``table`` or ``schema.table``. It is created if it does not exist.

    """

    type: Literal["postgres"]
    dsn: Annotated[str, AfterValidator(without_password)]
    password_variable: Variable = "PGPASSWORD"
    table: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$")]


class RedisFeed(Feed):
    """Keys of a Redis or Valkey server: a hash for each row, with a field for each column.

    Attributes:
        type: ``redis``; for Valkey, too.
        url: Address of the server, ``redis://user@host:6379/0``, or ``rediss://…`` with TLS;
            without a password.
        password_variable: Environment variable with the password, which the follower reads.
        prefix: What the names of all keys begin with, such as ``delays:``; no other keys of the
            server begin with it.

    """

    type: Literal["redis"]
    url: Annotated[str, AfterValidator(_address)]
    password_variable: Variable = "REDIS_PASSWORD"
    prefix: Annotated[str, Field(pattern=r"^[\w.:/-]+$")]


class KafkaFeed(Feed):
    """A compacted Kafka topic, which has the last row of each key as JSON.

    Attributes:
        type: ``kafka``.
        topic: Name of the topic, with ``cleanup.policy=compact``. Nobody else writes to it.
        bootstrap_servers: Comma-separated ``host:port`` list; ``local`` is the broker that
            ``hybrid broker`` runs on this machine.
        security: Login and trust; unencrypted and anonymous by default.

    """

    type: Literal["kafka"]
    topic: str
    bootstrap_servers: str = "local"
    security: Security | None = None

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return the feed with the paths of its TLS files made absolute.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        feed = super().located(locate)
        if feed.security is None:
            return feed
        return feed.model_copy(update={"security": feed.security.located(locate)})


class PythonFeed(Feed):
    """A Python function, which gets the target's rows in parts, one call for each.

    After a call that failed, or whose process ended, all parts that lead to that version of the
    target are repeated with the same rows, unless a load of the whole table comes instead: so the
    function has to cope with rows that it has had.

    Attributes:
        type: ``python``.
        function: The function as ``module:function``: it takes an Arrow table of rows, and a
            ``hybrid_extensions.feeds.delivery.Delivery``, which has the version of the target, the
            number of the part, and whether it is the last.

    """

    type: Literal["python"]
    function: Reference


AnyFeed = Annotated[PostgresFeed | RedisFeed | KafkaFeed | PythonFeed, Field(discriminator="type")]
FEED_MODELS: dict[str, type[BaseModel]] = {
    "postgres": PostgresFeed,
    "redis": RedisFeed,
    "kafka": KafkaFeed,
    "python": PythonFeed,
}
"""The model that each value of a feed's ``type`` stands for."""


class FeedsSection(Section):
    """Section of a pipeline's file about feeds.

    Attributes:
        feeds: Second sinks, which get the rows of the target from its commits.
    """

    tags: ClassVar[Mapping[str, type[BaseModel]]] = FEED_MODELS
    # A feed reads the target, whatever it was made of.
    takes_inputs: ClassVar[bool] = True
    feeds: list[AnyFeed] = Field(default_factory=list)

    @model_validator(mode="after")
    def _have_names(self) -> Self:
        names = [each.name for each in self.feeds]
        for name in names:
            if names.count(name) > 1:
                message = f"`feeds` has two feeds of the name `{name}`. Rename one of them."
                raise ValueError(message)
        return self

    def check(self, pipeline: Pipeline) -> None:
        """Refuse feeds of a table whose changes they can't follow; called on loading the file.

        Raises:
            ValueError: There are feeds, and the sink declares ``history``, or deletion vectors.
        """
        if self.feeds and pipeline.sink.history is not None:
            message = (
                f"`feeds` brings the last row of each key elsewhere, and `sink.history: "
                f"{pipeline.sink.history}` keeps every version. Remove one of them, or declare a "
                "pipeline of its own for either."
            )
            raise ValueError(message)
        if self.feeds and pipeline.sink.properties.get(VECTORS, "false") != "false":
            message = (
                f"`feeds` finds changed rows in files that only one version of the table has, and "
                f"`sink.properties: {VECTORS}` leaves files as they are: each version would be "
                "loaded whole. Remove one of them."
            )
            raise ValueError(message)

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return the section with absolute paths of its feeds' files.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        return self.model_copy(update={"feeds": [each.located(locate) for each in self.feeds]})


def feeds_of(loaded: LoadedPipeline) -> list[AnyFeed]:
    """Return the declared feeds of a pipeline; empty if there are none."""
    return loaded.section(FeedsSection).feeds


def feed_of(loaded: LoadedPipeline, name: str) -> AnyFeed:
    """Return the feed of this name.

    Raises:
        InputError: The pipeline declares no feed of this name.
    """
    feeds = feeds_of(loaded)
    for feed in feeds:
        if feed.name == name:
            return feed
    pipeline = loaded.pipeline.name
    message = f"Pipeline `{pipeline}` has no feed `{name}`."
    names = ", ".join(feed.name for feed in feeds) or "none"
    hint = f"Name a feed that `feeds` declares; pipeline `{pipeline}` has {names}."
    raise InputError(message, hint, pipeline=pipeline, value=name)
