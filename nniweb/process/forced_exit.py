"""The end of a process comes, whatever its threads wait for: a database that is silent or locked, a platform's call.

Nothing is lost by leaving without them: what counts is committed, and the database undoes what is not.
"""

import logging
import os
import threading
import time

logger = logging.getLogger(__name__)

#: Seconds from being told to end until the process is gone; the units of docs/deploy wait for 60.
SECONDS = 30.0


def leave_within(seconds: float = SECONDS) -> None:
    """Have the process end after so many seconds, with status 1, if it has not ended by then. Returns at once."""
    threading.Thread(target=_leave, args=[seconds], name="leaving", daemon=True).start()


def _leave(seconds: float) -> None:
    time.sleep(seconds)
    still = sorted(thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
    logger.warning("the process was told to end %.0f s ago, but some work has not finished; it ends now without "
                   "waiting for that work. Nothing is lost, and leases that were not released expire. Its threads: "
                   "%s", seconds, ", ".join(still))
    logging.shutdown()
    os._exit(1)
