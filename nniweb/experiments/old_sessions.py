"""Sessions that ran out: nothing opens with them, and whoever begins a single sign-on leaves one behind."""

from datetime import datetime

from django.contrib.sessions.models import Session


def forget_sessions(now: datetime) -> int:
    """Remove those that ran out; how many."""
    return Session.objects.filter(expire_date__lt=now).delete()[0]
