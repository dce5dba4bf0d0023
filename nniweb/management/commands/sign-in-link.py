"""``python manage.py sign-in-link admin``: prints a link that signs somebody in, once, within an hour."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from nniweb.experiments import accounts, addresses
from nniweb.experiments.intents import Refused
from nniweb.management.asked_here import AskedHere
from nniweb.management.commands.token import user_named
from nniweb.management.served_before import require_served_before


class Command(AskedHere):
    help = ("Print a link that signs this person in, once, within an hour, and nothing else. For the first sign-in, "
            "and where a password was forgotten: another one is chosen on the page of the account.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="user name, such as admin")

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        try:
            secret = accounts.make_sign_in_link(user_named(options["user"]))
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(addresses.sign_in_page(secret))
