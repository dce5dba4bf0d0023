"""Which versions of this program have changed the database."""

from django.db import models


class DatabaseVersion(models.Model):
    """One row for each time that a version has changed the database; the last row is of the last one."""

    version = models.CharField(max_length=255)
    at = models.DateTimeField()
