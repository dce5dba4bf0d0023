"""``python manage.py sign-in-link NAME``: prints a link that signs somebody in, once, within an hour."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from nniweb.experiments.access import accounts
from nniweb.experiments.clusters import addresses
from nniweb.experiments.errors import Refused
from nniweb.management.asked_here import AskedHere
from nniweb.management.commands.token import user_named
from nniweb.management.served_before import require_served_before
from nniweb.startup.first_start import first_user


class Command(AskedHere):
    help = ("Print only a link that signs this person in. The link works once, within an hour. Use it for the first "
            "sign-in, or if a password was forgotten. A new password can be set on the account page.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", help=(
            "user name (default: the first administrator, who is created if there is none yet)"))

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        try:
            user = user_named(options["user"]) if options["user"] else first_user()
            secret = accounts.make_sign_in_link(user)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(addresses.sign_in_page(secret))
