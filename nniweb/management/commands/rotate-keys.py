"""``python manage.py rotate-keys``: a new key for the secrets in the database, and all of them sealed with it."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from nniweb.experiments.access import audit
from nniweb.experiments.secrets.key_rotation import rotate
from nniweb.management.asked_here import AskedHere
from nniweb.management.served_before import require_served_before


class Command(AskedHere):
    help = ("Make a new key for the secrets in the database and encrypt all of them with it. The server may run. If "
            "the keys come from NNIWEB_SEAL_KEYS, first put a new key in front there and restart, then run this "
            "command.")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--remove-old", action="store_true", help=(
            "remove the keys before the new one; secrets in earlier backups need the old keys"))

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        if options["remove_old"] and settings.SEAL_KEYS:
            raise CommandError("The keys come from NNIWEB_SEAL_KEYS, so old keys are removed there. Run this command "
                               "without --remove-old first. Then leave only the first key in the variable.")
        try:
            done = rotate(options["remove_old"])
        except OSError as error:
            raise CommandError(f"The file of keys in {settings.DATA_FOLDER / 'keys'} cannot be written: "
                               f"{error.strerror}.") from None
        audit.record("keys.rotate", sealed_anew=done.sealed_anew, total=done.total, lost=len(done.lost))
        self.stdout.write(f"{done.total - len(done.lost)} secret(s) are encrypted with the newest key; "
                          f"{done.sealed_anew} of them were encrypted again now.")
        if done.lost:
            raise CommandError(f"{len(done.lost)} secret(s) cannot be decrypted with any of the keys: "
                               f"{', '.join(done.lost[:20])}. Old keys were kept. Set these secrets again, or restore "
                               "their key.")
        if settings.SEAL_KEYS and len(settings.SEAL_KEYS) > 1:
            self.stdout.write("The other keys in NNIWEB_SEAL_KEYS are no longer needed when all servers know the first "
                              "one.")
        elif settings.SEAL_KEYS:
            self.stdout.write("NNIWEB_SEAL_KEYS contains one key. To change it, put a new key and a comma in front, "
                              "restart all servers and run this command again. A new key: python -c 'from "
                              "cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'")
        elif not options["remove_old"]:
            self.stdout.write("Older keys were kept, for older secrets. --remove-old removes them.")
