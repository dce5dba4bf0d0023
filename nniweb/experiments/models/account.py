"""People, what they may do, and how programs and first visitors prove who they are."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone


class Role(models.TextChoices):
    VIEWER = "viewer", "viewer: sees"
    MEMBER = "member", "member: launches experiments of their own"
    ADMIN = "admin", "admin: everything"


class User(AbstractUser):
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)

    @property
    def is_admin(self) -> bool:
        return self.is_superuser or self.role == Role.ADMIN

    @property
    def may_change(self) -> bool:
        """Whether this person may launch and steer anything at all."""
        return self.is_admin or self.role == Role.MEMBER


def hash_of(secret: str) -> str:
    """SHA-256 (hex) of a random secret; with 32 random bytes no salt or stretching is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiToken(models.Model):
    """A program's key. Only its hash is kept; it is shown once, when it is made."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True)
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.name or f"token {self.pk}"

    @classmethod
    def make(cls, user: User, name: str = "") -> str:
        """A new token for the user; the return value is the only time it can be seen."""
        secret = f"nniweb_{secrets.token_urlsafe(32)}"
        cls.objects.create(user=user, name=name, hash=hash_of(secret))
        return secret


class SignInLink(models.Model):
    """Signs one person in, once, within an hour."""

    user = models.ForeignKey(User, models.CASCADE)
    hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    @classmethod
    def make(cls, user: User, valid_for: timedelta = timedelta(hours=1)) -> str:
        cls.objects.filter(expires_at__lt=timezone.now()).delete()
        secret = secrets.token_urlsafe(32)
        cls.objects.create(user=user, hash=hash_of(secret), expires_at=timezone.now() + valid_for)
        return secret

    @classmethod
    def use(cls, secret: str) -> User | None:
        """The person, if the link is valid; it is not afterwards."""
        link = cls.objects.select_related("user").filter(hash=hash_of(secret), expires_at__gte=timezone.now()).first()
        if link is None or not cls.objects.filter(pk=link.pk).delete()[0] or not link.user.is_active:
            return None
        return link.user
