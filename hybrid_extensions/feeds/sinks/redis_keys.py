"""Keys of a Redis or Valkey server as a second sink: a hash for each row.

All writes go through scripts, which the server runs one at a time. Each one first compares the
follower's token, so that a follower that was replaced writes nothing more, and each row's version,
so that an older one never replaces a newer one. What the sink remembers is in a hash of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import redis

from hybrid_extensions.feeds.base import AGAIN, EXAMPLES, REPEATED, FeedSink, delivered_meanwhile
from hybrid_extensions.feeds.declare import RedisFeed
from hybrid_extensions.feeds.delivery import DELETED
from hybrid_extensions.feeds.position import Held, Position
from sources.common import environment
from sources.errors import ErrorFields, InputError, StateError, UnavailableError

STATE = "hybrid-feed:"
"""What the name of the hash begins with that remembers the position; the prefix follows."""
VERSION = "__version"
"""Field of each row's hash: the version of the target that it came with."""
LOAD = "__load"
"""Field of each row's hash: number of the load that it came with or after."""
_ROWS = 500
_SCANNED = 1000
_TIMEOUT_S = 30
_FENCED = "HYBRID-FENCED"
_GUARD = f"""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('{_FENCED}')
end
"""
# Of each row: its key, and a JSON array of names and values, or nothing for a delete.
_WRITE = (
    _GUARD
    + f"""
local load, version = tonumber(ARGV[2]), tonumber(ARGV[3])
for row = 2, #KEYS do
  local had = redis.call('HMGET', KEYS[row], '{LOAD}', '{VERSION}')
  local had_load, had_version = tonumber(had[1] or -1), tonumber(had[2] or -1)
  local is_newer = had_load < load or (had_load == load and had_version <= version)
  if is_newer then
    redis.call('DEL', KEYS[row])
    local fields = ARGV[row + 2]
    if fields ~= '' then
      redis.call('HSET', KEYS[row], '{LOAD}', load, '{VERSION}', version,
        unpack(cjson.decode(fields)))
    end
  end
end
"""
)
_REMEMBER = (
    _GUARD
    + """
for at = 2, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[at])
  else
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  end
end
"""
)
_BEGIN_LOAD = (
    _GUARD
    + """
redis.call('HDEL', KEYS[1], 'delivered', 'pending')
return redis.call('HINCRBY', KEYS[1], 'load', 1)
"""
)
_REMOVE_STALE = (
    _GUARD
    + f"""
for row = 2, #KEYS do
  local came_with = redis.call('HGET', KEYS[row], '{LOAD}')
  if came_with and came_with ~= ARGV[2] then
    redis.call('DEL', KEYS[row])
  end
end
"""
)


class RedisSink(FeedSink):
    """Keys of a Redis or Valkey server as a second sink; connects at the first call that needs it.

    Args:
        feed: The declaration.
        owner: ``<pipeline>.<feed>``, which is unique.

    Raises:
        InputError: The file of the password can't be read.
    """

    form = "fields"

    def __init__(self, feed: RedisFeed, owner: str) -> None:
        self._feed, self._owner = feed, owner
        self._state = STATE + feed.prefix
        self._fields: ErrorFields = {"server": urlsplit(feed.url).netloc.rpartition("@")[2]}
        self._token = ""
        self._load = 0
        password = environment.variable(feed.password_variable)
        self._client = redis.Redis.from_url(
            feed.url, password=password, decode_responses=True, socket_timeout=_TIMEOUT_S
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def held(self, columns: pa.Schema) -> Held:
        """Return the position in the server, and fence off an earlier follower.

        Refuses, with InputError, a cluster, a server that removes keys when it is full, keys of
        others with the prefix, and columns named as the feed's own fields. Else raises as
        :meth:`FeedSink.held` says.
        """
        if own := {VERSION, LOAD} & set(columns.names):
            message = (
                f"Column `{min(own)}` has the name of a field that the feed itself needs. Nothing "
                "was delivered."
            )
            hint = f"Name the other columns in `columns`, or rename it in the transform. {AGAIN}"
            raise InputError(message, hint, **self._fields | {"column": min(own)})
        with self._errors():
            if not self._token:
                self._require_suitable()
                self._take()
            found = self._known()
        self._load = int(found.get("load", 0))
        return _held_of(found)

    def begin(self, position: Position) -> None:
        """Record in the server the version whose changes are about to be written.

        Raises as :meth:`FeedSink.begin` says.
        """
        self._remember(pending=position.model_dump_json())

    def apply(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Write and delete keys, then record the position; not in one transaction.

        Raises as :meth:`FeedSink.apply` says; a repeated call completes it.
        """
        self._write(rows, end)
        self._remember(delivered=end.model_dump_json(), pending="")

    def load(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Write all rows, delete the keys of other rows that were fed, then record the position.

        Raises as :meth:`FeedSink.load` says; until it is complete the server has no position.
        """
        self._load = int(self._run(_BEGIN_LOAD))
        self._write(rows, end)
        with self._errors():
            found: list[str] = []
            for name in self._names():
                found.append(name)
                if len(found) == _SCANNED:
                    self._run(_REMOVE_STALE, found, [self._load])
                    found = []
            self._run(_REMOVE_STALE, found, [self._load])
        self._remember(delivered=end.model_dump_json(), pending="")

    @contextmanager
    def standing_still(self, columns: pa.Schema) -> Iterator[Held]:
        """Yield the position before a comparison; refuse if it has changed after it.

        An empty position if no feed has recorded one, or another feed has. The keys are not locked:
        the change is found when the block ends, and not if the block raises.

        Raises:
            StateError: A delivery came in between, so that the comparison proves nothing.
            InputError: The server refuses.
            UnavailableError: The server does not answer.
        """
        with self._errors():
            before = self._known()
        own = before.get("owner") == self._owner
        yield _held_of(before) if own else Held()
        with self._errors():
            after = self._known()
        if _held_of(before) != _held_of(after):
            raise delivered_meanwhile(self._feed.name, self._fields)

    def compare(self, rows: pa.RecordBatchReader) -> tuple[int, list[str], int]:
        """Compare the fields of each row's hash; see :meth:`FeedSink.compare`."""
        different: list[str] = []
        with self._errors():
            for batch in rows:
                pipeline = self._client.pipeline(transaction=False)
                names = [f"{self._feed.prefix}{name}" for name in batch["name"].to_pylist()]
                for name in names:
                    pipeline.hgetall(name)
                answers = zip(names, batch["fields"].to_pylist(), pipeline.execute(), strict=True)
                for name, fields, found in answers:
                    pairs = orjson.loads(fields)
                    known = dict(zip(pairs[::2], pairs[1::2], strict=True))
                    own = {column: found.pop(column, None) for column in (VERSION, LOAD)}
                    if found != known or None in own.values():
                        different.append(name)
            # SCAN may return a key twice, while Redis resizes its table.
            count = len(set(self._names()))
        return len(different), different[:EXAMPLES], count

    def _write(self, rows: pa.RecordBatchReader, end: Position) -> None:
        for batch in rows:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                names = [f"{self._feed.prefix}{name}" for name in part["name"].to_pylist()]
                # A delete has no fields.
                fields = pc.if_else(part[DELETED], "", part["fields"]).to_pylist()
                self._run(_WRITE, names, [self._load, end.number, *fields])

    def _remember(self, **values: str) -> None:
        self._run(_REMEMBER, [], [part for pair in values.items() for part in pair])

    def _run(self, script: str, names: Sequence[str] = (), values: Sequence[Any] = ()) -> Any:
        with self._errors():
            registered = self._client.register_script(script)
            return registered(keys=[self._state, *names], args=[self._token, *values])

    def _known(self) -> dict[str, str]:
        found: dict[str, str] = self._client.hgetall(self._state)  # type: ignore[assignment]
        return found

    def _names(self) -> Iterator[str]:
        return self._client.scan_iter(match=f"{self._feed.prefix}*", count=_SCANNED)

    def _take(self) -> None:
        """Become the only follower whose writes count; refuse keys that are not the feed's."""
        found = self._known()
        if found and found["owner"] != self._owner:
            message = (
                f"The keys `{self._feed.prefix}*` are fed by `{found['owner']}`, not by "
                f"`{self._owner}`. Nothing was delivered."
            )
            hint = (
                "Choose another `prefix`. If that feed is no longer used, delete its keys, and "
                f"`{self._state}`. {AGAIN}"
            )
            raise InputError(message, hint, **self._fields | {"field": "prefix"})
        if not found:
            self._require_apart()
        if not found and (other := next(self._names(), None)) is not None:
            message = (
                f"The server has keys that no feed has written, such as `{other}`, and the first "
                "delivery removes keys that the table lacks: so nothing was delivered or deleted."
            )
            hint = f"Choose another `prefix`; or, if nobody needs these keys, delete them. {AGAIN}"
            raise InputError(message, hint, **self._fields | {"field": "prefix"})
        self._token = uuid.uuid4().hex
        self._client.hset(self._state, mapping={"owner": self._owner, "token": self._token})

    def _require_apart(self) -> None:
        """Refuse a new prefix that begins with another feed's, or that one's with it.

        A load would delete the keys of the longer one.
        """
        prefix = self._feed.prefix
        for name in self._client.scan_iter(match=f"{STATE}*", count=_SCANNED):
            other = name.removeprefix(STATE)
            if prefix.startswith(other) or other.startswith(prefix):
                message = (
                    f"The keys `{prefix}*` overlap with those of another feed, `{other}*`; a load "
                    "of one would delete keys of the other. Nothing was delivered or deleted."
                )
                hint = (
                    f"Choose a `prefix` such that neither of the two begins with the other. {AGAIN}"
                )
                raise InputError(message, hint, **self._fields | {"field": "prefix"})

    def _require_suitable(self) -> None:
        info: dict[str, Any] = self._client.info()  # type: ignore[assignment]
        if info.get("cluster_enabled"):
            message = (
                f"Feed `{self._feed.name}` can't write to a server in cluster mode. Nothing was "
                "delivered."
            )
            hint = f"Name a server without cluster mode in `url`. {AGAIN}"
            raise InputError(message, hint, **self._fields | {"field": "url"})
        policy = str(info.get("maxmemory_policy", ""))
        if policy.startswith("allkeys") and int(info.get("maxmemory", 0)):
            message = (
                f"The server of feed `{self._feed.name}` removes keys when its memory is full "
                f"(`maxmemory-policy {policy}`), so rows would be missing silently. Nothing was "
                "delivered."
            )
            hint = (
                f"Set `maxmemory-policy` to `noeviction` or to one for keys that expire. {AGAIN} "
                "If the feed has delivered before, keys may be gone: then load it again with "
                f"`hybrid feed P --name {self._feed.name} --reload`."
            )
            raise InputError(message, hint, **self._fields | {"field": "url"})

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what the server says as an error of this project."""
        try:
            yield
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            message = f"The server refuses feed `{self._feed.name}`: {str(error).rstrip('.')}."
            hint = (
                "Correct the user in `url`, or set the password in the environment variable "
                f"`{self._feed.password_variable}`, which the follower reads; or allow the user "
                f"the command and the keys that the server names. {REPEATED} {AGAIN}"
            )
            raise InputError(message, hint, **self._fields) from None
        except (redis.ConnectionError, redis.TimeoutError) as error:
            message = (
                f"The server does not answer feed `{self._feed.name}`: {str(error).rstrip('.')}."
            )
            hint = (
                "Check that it runs and can be reached from here; correct `url`. "
                f"{REPEATED} {AGAIN}"
            )
            raise UnavailableError(message, hint, **self._fields) from None
        except redis.ResponseError as error:
            if _FENCED in str(error):
                self._token = ""
                message = (
                    f"Another follower feeds `{self._feed.name}` now, so the sink refuses what "
                    "this one writes."
                )
                hint = f"Run one follower of a feed at a time. {REPEATED}"
                raise StateError(message, hint, transient=True, **self._fields) from None
            message = f"The server refuses feed `{self._feed.name}`: {str(error).rstrip('.')}."
            hint = f"Correct what it names. {REPEATED} {AGAIN}"
            raise InputError(message, hint, **self._fields) from None


def _position(text: str | None) -> Position | None:
    return Position.parse(text.encode()) if text else None


def _held_of(found: dict[str, str]) -> Held:
    return Held(_position(found.get("delivered")), _position(found.get("pending")))
