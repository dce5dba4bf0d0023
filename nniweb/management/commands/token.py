"""``python manage.py token admin``: prints a new key for programs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from nniweb.experiments.models import ApiToken, User
from nniweb.management.served_before import require_served_before


class Command(BaseCommand):
    help = "Print a new REST token of a user, and nothing else. It is shown this once; earlier ones stay valid."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="user name, such as admin")
        parser.add_argument("--name", default="", help="what the token is for, shown in the admin")

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            names = ", ".join(User.objects.filter(is_active=True).order_by("username")
                              .values_list("username", flat=True)[:20])
            raise CommandError(f"There is no user named {options['user']!r}. There are: {names}." if names else
                               "There are no users yet; the first start of the server (make run) makes one.")
        self.stdout.write(ApiToken.make(user, options["name"][:100]))
