"""People, what they may do, and how programs and first visitors prove who they are."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone
from django.utils.module_loading import import_string


class Role(models.TextChoices):
    VIEWER = "viewer", "viewer: sees"
    MEMBER = "member", "member: launches experiments of their own"
    ADMIN = "admin", "admin: everything"


class Scope(models.TextChoices):
    """What a token makes of its bearer, at most: a viewer, a member, an administrator."""

    READ = "read", "read: looks"
    CHANGE = "change", "change: launches and steers"
    ADMIN = "admin", "admin: everything"


#: In ``User.local_users``: as any user of the machine, also as the server's own.
ANY_LOCAL_USER = "*"
OS_USERS = RegexValidator(
    r"^(\*|[A-Za-z_][A-Za-z0-9_.-]{0,62}(, ?[A-Za-z_][A-Za-z0-9_.-]{0,62})*)?\Z",
    "Give names of users of the machine with commas between them, such as alice, bob; or * for all; or nothing.")


class LeashRole(models.TextChoices):
    """What a token with a leash may do; what is not among its roles it may not."""

    READ = "read", "read: looks"
    PROPOSE = "propose", "propose: proposes parameters, submits and reruns trials"
    LAUNCH = "launch", "launch: launches experiments"
    STEER = "steer", "steer: pauses, resumes, changes and stops experiments and trials"


class User(AbstractUser):
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    local_users = models.CharField(
        "may run trials on the server as", max_length=300, blank=True, validators=[OS_USERS],
        help_text="Users of the server's own machine as whom this person may run trials there (the platform local, "
                  "with runAs), with commas between them. * stands for all of them and for the server's own user, "
                  "whose trials can read everything that is the server's, its keys too. Empty: this person cannot run "
                  "trials on the server's machine. Administrators always can, as anybody.")
    names_folders = models.BooleanField(
        "may name code folders on the server", default=False,
        help_text="In what they launch this person may name folders of the server's own machine, below those of "
                  "NNIWEB_CODE_ROOTS; whatever lies there, their trials can read. Administrators always may.")
    #: Where a token speaks for this person: its scope. Never stored; it bounds the properties below.
    scope: Scope | None = None

    def check_password(self, raw_password: str | None) -> bool:
        """Counted as an attempt, wherever it is asked. Raises ``sign_in_attempts.TooManyAttempts``."""
        # it reads these rows; an import, also one in here, would be a circle for type checkers
        attempt = import_string("nniweb.experiments.access.sign_in_attempts.attempt")
        with attempt(self.username) as this:
            this.succeeded = super().check_password(raw_password)
        return bool(this.succeeded)

    async def acheck_password(self, raw_password: str | None) -> bool:
        return await sync_to_async(self.check_password)(raw_password)

    @property
    def is_admin(self) -> bool:
        return self._has_role_of_admin and self.scope in (None, Scope.ADMIN)

    @property
    def may_change(self) -> bool:
        """Whether this person may launch and steer anything at all."""
        return self.scope != Scope.READ and (self._has_role_of_admin or self.role == Role.MEMBER)

    @property
    def scopes(self) -> list[Scope]:
        """What tokens made by this person (or by this token of theirs) may be allowed to do, the least first."""
        allowed = {Scope.READ: True, Scope.CHANGE: self.may_change, Scope.ADMIN: self.is_admin}
        return [scope for scope, is_allowed in allowed.items() if is_allowed]

    @property
    def needs_scope(self) -> Scope | None:
        """The scope with which a token of this person may do more than the one that speaks now; None where none may."""
        if self.scope is None or self.scope == Scope.ADMIN:
            return None
        if self._has_role_of_admin:
            return Scope.ADMIN
        return Scope.CHANGE if self.scope == Scope.READ and self.role == Role.MEMBER else None

    @property
    def _has_role_of_admin(self) -> bool:
        return self.is_superuser or self.role == Role.ADMIN

    @property
    def may_run_here(self) -> bool:
        """Whether this person may run trials on the server's own machine, as some user of it."""
        return self.may_change and (self.is_admin or bool(self.local_users))

    @property
    def may_name_folders(self) -> bool:
        """Whether this person may name folders of the server, below the configured ones, in what they launch."""
        return self.may_change and (self.is_admin or self.names_folders)

    @property
    def own_local_users(self) -> list[str]:
        """The users of the server's machine as whom trials of this person may run there; maybe ANY_LOCAL_USER."""
        return [name.strip() for name in self.local_users.split(",") if name.strip()]

    def may_run_here_as(self, os_user: str) -> bool:
        """Whether trials of this person may run on the server's machine as that user; "" is the server's own."""
        names = self.own_local_users
        return self.is_admin or (self.may_run_here and (ANY_LOCAL_USER in names or os_user in names))


def hash_of(secret: str) -> str:
    """SHA-256 (hex) of a random secret; with 32 random bytes no salt or stretching is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiToken(models.Model):
    """A program's key. Only its hash is kept; it is shown once, when it is made.

    It lets do what its scope says and never more than its person may: both are looked at each time it is used. One with
    ``roles`` has a leash: further limits, which hold for what it asked for as long as that goes on, also when the token
    was ended. Therefore a token by which something was asked for is ended and not removed.
    """

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.ADMIN)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never.")
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    #: Values of LeashRole; [] where it has no leash.
    roles = models.JSONField(default=list, editable=False)
    #: Whether it acts on all that its person may change, and not only on what it asked for itself.
    everything = models.BooleanField(default=False, editable=False)
    #: Public ids of the clusters on which it may run trials; [] for all that its person may use. No relation: a cluster
    #: that is deleted must not leave an empty list.
    clusters = models.JSONField(default=list, editable=False)
    #: Trials of all that it asked for that may be under way at a time; None: no limit.
    max_trials = models.PositiveIntegerField(null=True, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    ended_by = models.ForeignKey(User, models.SET_NULL, null=True, editable=False, related_name="+")

    def __str__(self) -> str:
        return self.name or f"token {self.pk}"

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None

    @property
    def is_usable(self) -> bool:
        return not (self.has_ended or self.has_expired)

    @property
    def has_leash(self) -> bool:
        return bool(self.roles)

    @classmethod
    def make(cls, user: User, name: str = "", scope: Scope = Scope.ADMIN, expires_at: datetime | None = None) -> str:
        """A new token for the user; the return value is the only time it can be seen."""
        return cls.make_with_row(user, name, scope, expires_at)[0]

    @classmethod
    def make_with_row(cls, user: User, name: str, scope: Scope, expires_at: datetime | None, **leash: Any
                      ) -> tuple[str, "ApiToken"]:
        """As ``make``, with the row that was stored. ``leash``: further fields."""
        secret = f"nniweb_{secrets.token_urlsafe(32)}"
        return secret, cls.objects.create(user=user, name=name, scope=scope, expires_at=expires_at,
                                          hash=hash_of(secret), **leash)


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
    def person_of(cls, secret: str) -> User | None:
        """Whom the link would sign in, if it is valid; it stays so."""
        link = cls._valid(secret)
        return link.user if link is not None and link.user.is_active else None

    @classmethod
    def use(cls, secret: str) -> User | None:
        """The person, if the link is valid; it is not afterwards."""
        link = cls._valid(secret)
        if link is None or not cls.objects.filter(pk=link.pk).delete()[0] or not link.user.is_active:
            return None
        return link.user

    @classmethod
    def _valid(cls, secret: str) -> "SignInLink | None":
        return cls.objects.select_related("user").filter(hash=hash_of(secret), expires_at__gte=timezone.now()).first()


class SingleSignOnIdentity(models.Model):
    """Who a person is for an OpenID provider: its subject never changes and is never given to somebody else."""

    user = models.ForeignKey(User, models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_person_per_subject")]
        verbose_name_plural = "single sign-on identities"

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
