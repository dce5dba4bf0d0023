"""``python manage.py token admin``: prints a new key for programs."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from nniweb.experiments.access import leashes
from nniweb.experiments.actions import token_making
from nniweb.experiments.budgets.spending import UNITS
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Budget, User
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.management.asked_here import AskedHere
from nniweb.management.served_before import require_served_before
from nniweb.startup.first_start import first_user
from nniweb.storage.own_files import START
from trainingservice.words.durations import parse_duration
from trainingservice.words.shown_value import shown

#: Options that are called otherwise than their fields.
OPTIONS = {"roles": "--role", "everything": "--everything", "clusters": "--cluster", "max_trials": "--max-trials",
           "budget": "--budget", **{f"budget.{unit}": f"--budget {unit}" for unit in UNITS}}


class Command(AskedHere):
    help = "Print only a new REST token of a user. It is not shown again. Earlier tokens stay valid."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", help=(
            "user name, such as admin (default: the first administrator)"))
        parser.add_argument("--name", default="", help="the token's purpose, which is shown in lists of tokens")
        parser.add_argument("--scope", choices=[scope.value for scope in Scope], help=(
            "what the token may do, never more than its user (default: as much as its user)"))
        leash = parser.add_argument_group("a leash, for a program that searches on its own (docs/leashes.md)")
        leash.add_argument("--role", action="append", default=[], choices=LeashRole.values, help=(
            "all that the token may do, in place of a scope; repeat it for several"))
        leash.add_argument("--everything", action="store_true", help=(
            "let it act on all that its user may change (default: only on what it launched itself)"))
        leash.add_argument("--cluster", action="append", default=[], metavar="NAME", help=(
            "the only cluster that it may use; repeat it for several (default: all that its user may use)"))
        leash.add_argument("--max-trials", type=int, metavar="N", help="trials at a time (default: no limit)")
        leash.add_argument("--budget", action="append", default=[], metavar="UNIT=AMOUNT", help=(
            f"what its trials may use in all: {', '.join(UNITS)}; repeat it for several"))
        leash.add_argument("--each-month", action="store_true", help="the budget begins anew each month")
        parser.add_argument("--expires-in", metavar="DURATION", help="such as 12h or 90d (default: it does not expire)")

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        user = user_named(options["user"]) if options["user"] else first_user()
        scope = Scope(options["scope"]) if options["scope"] else user.scopes[-1]
        if options["scope"] and options["role"]:
            raise CommandError("--role takes the place of --scope. Give one of them.")
        expires_at = None
        if options["expires_in"]:
            try:
                expires_at = timezone.now() + timedelta(seconds=parse_duration(options["expires_in"]))
            except (ValueError, OverflowError) as error:
                raise CommandError(f"--expires-in {options['expires_in']}: {error}.") from None
        try:
            leash = leashes.leash_of(user, roles=options["role"], everything=options["everything"],
                                     clusters=options["cluster"], max_trials=options["max_trials"])
            budget = _budget(options["budget"],
                             Budget.Period.MONTH if options["each_month"] else Budget.Period.TOTAL)
            secret, _ = token_making.make_token(user, user, name=options["name"][:100], scope=scope,
                                                expires_at=expires_at, leash=leash, budget=budget)
        except Refused as refused:
            raise CommandError(" ".join(f"{OPTIONS[field]}: {said}" if field in OPTIONS else str(said)
                                        for field, said in refused.errors)) from None
        self.stdout.write(secret)


def _budget(given: list[str], period: Budget.Period) -> dict[str, Any] | None:
    """Fields of the budget; None where none is given. Raises Refused (``budget``)."""
    limits: dict[str, Any] = {}
    for text in given:
        unit, _, amount = text.partition("=")
        if unit not in UNITS:
            raise Refused(f"There is no unit {shown(unit)}. Units: {', '.join(UNITS)}.", "budget")
        try:
            limits[unit] = int(amount) if unit == "trials" else Decimal(amount)
        except (ValueError, InvalidOperation):
            raise Refused(f"{shown(amount)} is no number. Give an amount such as {unit}=10.", "budget") from None
    return {"period": period, **limits} if limits else None


def user_named(name: str) -> User:
    """An active user. Raises CommandError with the names there are."""
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        names = ", ".join(User.objects.filter(is_active=True).order_by("username")
                          .values_list("username", flat=True)[:20])
        raise CommandError(f"There is no user named {shown(name)}. Users: {names}." if names else
                           f"There are no users yet. The first start of the server ({START}) creates one.")
    return user
