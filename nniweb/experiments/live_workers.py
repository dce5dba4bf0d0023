"""Which worker processes are alive. For people's information: nothing is decided by it."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from nniweb.experiments.models import Worker

#: A worker not heard of for so long is taken for dead; it writes its row every 5 s.
ALIVE_FOR = timedelta(seconds=15)
#: What to do when there is none.
HOW_TO_START = "Start the server (make run, or python manage.py serve), or a worker alone (python manage.py worker)."


def live_workers(now: datetime) -> QuerySet[Worker]:
    return Worker.objects.filter(heard_at__gt=now - ALIVE_FOR)
