"""Whether anybody works: asked by pages and commands, to say so where nobody does."""

from datetime import datetime, timedelta

from django.utils import timezone

from nniweb.experiments.models import Worker

#: A worker heard within this time is alive; it reports every 5 s.
ALIVE_FOR = timedelta(seconds=15)
#: What to do where nobody does.
HOW_TO_START = "Start the server (make run, or python manage.py serve), or a worker alone (python manage.py worker)."


def worker_is_alive(now: datetime | None = None) -> bool:
    return Worker.objects.filter(heard_at__gte=(now or timezone.now()) - ALIVE_FOR).exists()
