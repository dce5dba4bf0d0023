"""What people write about a trial."""

from django.conf import settings
from django.db import models

from .trial import Trial


class TrialNote(models.Model):
    """Markdown. A row of its own: few of many trials have one, and lists of trials do not read it."""

    trial = models.OneToOneField(Trial, models.CASCADE, primary_key=True, related_name="note")
    text = models.TextField()
    changed_at = models.DateTimeField()
    #: None: by a command, or the account was deleted.
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")

    def __str__(self) -> str:
        return f"note on {self.trial_id}"
