"""Whether anybody works: asked by pages and commands, to say so where nobody does."""

from datetime import datetime, timedelta

from django.utils import timezone

from nniweb.experiments.models import Worker

#: A worker heard within this time is alive; it reports every 5 s.
ALIVE_FOR = timedelta(seconds=15)


def worker_is_alive(now: datetime | None = None) -> bool:
    return Worker.objects.filter(heard_at__gte=(now or timezone.now()) - ALIVE_FOR).exists()
