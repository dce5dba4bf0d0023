"""How often somebody has asked in a minute: counted by all web processes together where NNIWEB_REDIS_URL names a Redis
server, by each for itself where not, or while that server is away.
"""

import functools
import logging
import threading
import time
from typing import Any

from django.conf import settings
from django.core.cache import cache

logger = logging.getLogger(__name__)

#: Seconds that the server may take: a request waits for it.
PATIENCE = 0.25
#: Seconds for which a server that did not answer is left alone.
LEFT_ALONE = 10.0
#: A count is forgotten after so many seconds, which is longer than the minute that it is of.
KEPT = 120

_guard = threading.Lock()
_away_until = 0.0


def counted(key: str) -> int:
    """One more for this key; how many that makes. Blocking, at most PATIENCE and now and then. Thread-safe."""
    global _away_until
    if settings.REDIS_URL and time.monotonic() >= _away_until:
        try:
            return _counted_by_all(key)
        except Exception as error:  # what a client of a server that is away may raise is its own business
            with _guard:
                is_news = time.monotonic() >= _away_until
                _away_until = time.monotonic() + LEFT_ALONE
            if is_news:
                logger.warning("Redis cannot count requests (%s); each process counts its own requests for a while",
                               type(error).__name__)
    return _counted_here(key)


def _counted_here(key: str) -> int:
    cache.add(key, 0, timeout=KEPT)
    try:
        return cache.incr(key)
    except ValueError:  # thrown out between the two: the cache is full of others
        return 1


def _counted_by_all(key: str) -> int:
    both = _redis(settings.REDIS_URL).pipeline(transaction=False)
    name = f"nniweb-{settings.INSTALLATION_ID}-{key}"
    both.incr(name)
    both.expire(name, KEPT)
    return int(both.execute()[0])


@functools.lru_cache(maxsize=1)
def _redis(url: str) -> Any:
    """The client of this process: thread-safe, with connections that are kept."""
    import redis

    return redis.Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
