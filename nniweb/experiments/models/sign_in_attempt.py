"""Passwords that are being tried, or were tried without success a short time ago."""

from django.db import models


class SignInAttempt(models.Model):
    """One try. The row is written before the password is looked at, and goes when it was the right one.

    One whose process ended in between stays, and counts as a failure. Rows live as long as failures count.
    """

    #: Stands for the name that was typed (``sign_in_attempts``).
    mark = models.CharField(max_length=32, db_index=True)
    address = models.CharField(max_length=45, db_index=True)
    at = models.DateTimeField(db_index=True)
    #: False while the password is being looked at.
    failed = models.BooleanField(default=False)
