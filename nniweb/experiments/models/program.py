"""What processes of this program write of themselves: that they work, and which version changed the database."""

from django.db import models


class Worker(models.Model):
    """A worker process: shown to people, it decides nothing."""

    id = models.CharField(max_length=40, primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    #: Start time of the process in clock ticks since boot, which tells it from a later one with the same pid, and from
    #: where it is seen.
    pid_started = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField()
    heard_at = models.DateTimeField()
    #: Names of the platforms that it knows; None: of a version that did not say.
    platforms = models.JSONField(null=True, editable=False)
    #: Folders on its host in which its tuners' processes find modules; None: of a version that did not say.
    module_folders = models.JSONField(null=True, editable=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class DatabaseVersion(models.Model):
    """One row for each time that a version has changed the database; the last row is of the last one."""

    version = models.CharField(max_length=255)
    at = models.DateTimeField()
