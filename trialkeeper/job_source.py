"""What to run: the document in the attempt's folder, or the server's."""

import time
from typing import Any, Callable, Dict, Optional
from urllib.parse import quote

from trialkeeper import contract
from trialkeeper.access import Access
from trialkeeper.reporter import OwnInstallation, pause_after
from trialkeeper.server_connection import Answer, ServerAway, ServerConnection

#: Seconds without an answer after which a keeper that does not know yet what to run gives up.
GIVE_UP_AFTER = 86400.0
#: Seconds that one address has for its answer at least, however soon the keeper gives up.
LEAST_PATIENCE = 1.0


def fetch_job(access: Access, folder: str, job_name: str, log: Callable[[str], None],
              clock: Callable[[], float] = time.monotonic,
              sleep: Callable[[float], None] = time.sleep, give_up_after: float = GIVE_UP_AFTER,
              is_stopped: Callable[[], bool] = lambda: False) -> Optional[Dict[str, Any]]:
    """The JobDocument, None where the attempt is not wanted any more. Blocks; raises ServerAway in the end.

    ``give_up_after``: seconds. ``is_stopped``: whether nobody needs it any more.
    """
    own = OwnInstallation(folder)
    connection = ServerConnection(access, patience=max(give_up_after, LEAST_PATIENCE))
    give_up_at = clock() + give_up_after
    failures = 0

    def counts(answer: Answer) -> str:
        if answer.status == 200 and answer.document.get("job_name") == job_name:
            return ""
        if answer.status == 410 and answer.document.get("error") == contract.ERROR_GONE:
            return own.refuses(answer)
        return "answered %d %.200s" % (answer.status, answer.document.get("message") or "")

    while True:
        try:
            answer = connection.call("GET", "trials/%s/job" % quote(job_name, safe=""), counts)
        except ServerAway as away:
            if failures == 0:
                log("what to run cannot be fetched yet: %s" % away)
            if clock() >= give_up_at or is_stopped():
                raise
            sleep(max(0.0, min(max(pause_after(failures), away.retry_after), give_up_at - clock())))
            failures += 1
            continue
        connection.close()
        return answer.document if answer.status == 200 else None
