"""``manage.py migrate``: Django's, with a backup first; it refuses a database that is newer than the program."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangosMigrate

from nniweb.upgrades.bringing_up_to_date import CannotUpgrade, bring_up_to_date
from nniweb.upgrades.refusal import too_new


class Command(DjangosMigrate):
    help = ("Upgrade the database to this program's version. The database is backed up first. Either all changes are "
            "made or none. With options of Django's migrate, the command does what they say, without a backup.")

    def handle(self, *args: Any, **options: Any) -> None:
        if why_not := too_new():
            raise CommandError(why_not)
        if _is_plain(options):
            try:
                bring_up_to_date(self.stdout.write, is_server=False, verbosity=options["verbosity"])
            except CannotUpgrade as error:
                raise CommandError(str(error)) from error
        else:
            super().handle(*args, **options)


def _is_plain(options: dict[str, Any]) -> bool:
    of_django = ("app_label", "migration_name", "fake", "fake_initial", "plan", "run_syncdb", "check_unapplied",
                 "prune")
    return options["database"] == "default" and not any(options.get(name) for name in of_django)
