"""``python manage.py rotate-keys``: a new key for the secrets in the database, and all of them sealed with it."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from nniweb.experiments.access import audit
from nniweb.experiments.secrets.key_rotation import rotate
from nniweb.management.asked_here import AskedHere
from nniweb.management.served_before import require_served_before


class Command(AskedHere):
    help = ("Make a new key for the secrets in the database and seal all of them with it. The server may run. Where "
            "the keys come from NNIWEB_SEAL_KEYS: put a new one in front there first, restart, then run this.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--remove-old", action="store_true", help=(
            "forget the keys before the new one; backups taken earlier hold their own"))

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        if options["remove_old"] and settings.SEAL_KEYS:
            raise CommandError("The keys come from NNIWEB_SEAL_KEYS, so old ones are removed there: run this without "
                               "--remove-old first, then leave only the first key in the variable.")
        try:
            done = rotate(options["remove_old"])
        except OSError as error:
            raise CommandError(f"The file of keys in {settings.DATA_FOLDER / 'keys'} cannot be written: "
                               f"{error.strerror}.") from None
        audit.record("keys.rotate", sealed_anew=done.sealed_anew, total=done.total, lost=len(done.lost))
        self.stdout.write(f"{done.total - len(done.lost)} secret(s) are sealed with the newest key, "
                          f"{done.sealed_anew} of them since now.")
        if done.lost:
            raise CommandError(f"{len(done.lost)} secret(s) can be opened by none of the keys: "
                               f"{', '.join(done.lost[:20])}. Old keys were kept. Set these secrets again, or bring "
                               "back their key.")
        if settings.SEAL_KEYS and len(settings.SEAL_KEYS) > 1:
            self.stdout.write("The other keys in NNIWEB_SEAL_KEYS are not needed any more, once all servers know the "
                              "first one.")
        elif settings.SEAL_KEYS:
            self.stdout.write("NNIWEB_SEAL_KEYS holds one key. To change it, put a new one in front (with a comma "
                              "between), restart all servers and run this again. A new key: python -c 'from "
                              "cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'")
        elif not options["remove_old"]:
            self.stdout.write("Older keys can still open what comes from before. With --remove-old they are forgotten.")
