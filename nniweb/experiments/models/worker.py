"""Worker processes: shown to people, they decide nothing."""

from django.db import models


class Worker(models.Model):
    id = models.CharField(max_length=40, primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    #: Start time of the process in clock ticks since boot: tells it from a later one with the same pid.
    pid_started = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField()
    heard_at = models.DateTimeField()
    #: Names of the platforms that it knows; None: of a version that did not say.
    platforms = models.JSONField(null=True, editable=False)
    #: Folders on its host in which its tuners' processes find modules; None: of a version that did not say.
    module_folders = models.JSONField(null=True, editable=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
