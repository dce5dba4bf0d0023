"""Seals all stored secrets anew, so that an old key is not needed any more. The server may run meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db.models import Model

from nniweb.experiments.secrets import sealing
from nniweb.experiments.secrets.sealing import CannotOpen, SealedField, sealed_anew
from nniweb.storage import data_folder


@dataclass
class Rotation:
    """What became of the stored secrets."""

    #: Those that were sealed with an older key, and are sealed with the first one now.
    sealed_anew: int = 0
    #: All there are, these included.
    total: int = 0
    #: Those that none of the keys opens, as "table.column of row 3".
    lost: list[str] = field(default_factory=list)


def rotate(remove_old: bool = False) -> Rotation:
    """Where the keys are the data folder's own: make a new first one. Then seal everything with the first key.

    ``remove_old``: after that only the first key is kept, unless a secret was opened by none. Keys that come from
    NNIWEB_SEAL_KEYS are not changed here. Raises OSError where the file of keys cannot be written.
    """
    keys = sealing.current_keys()
    if settings.SEAL_KEYS:
        return seal_all_anew(keys)
    keys = [data_folder.new_seal_key(), *keys]
    data_folder.write_seal_keys(settings.DATA_FOLDER, keys)
    done = seal_all_anew(keys)
    if remove_old and not done.lost:
        data_folder.write_seal_keys(settings.DATA_FOLDER, keys[:1])
        # what a server sealed with the key before while all this went on
        done.sealed_anew += seal_all_anew(keys).sealed_anew
    return done


def seal_all_anew(keys: list[str]) -> Rotation:
    """Seal each stored secret with the first of the keys; the others open. Row by row: nobody waits for it."""
    done = Rotation()
    for model, column in sealed_columns():
        rows = model._default_manager.exclude(**{column: None}).order_by("pk").values_list("pk", column)
        for pk, sealed in list(rows):
            done.total += 1
            try:
                new = sealed_anew(sealed, keys)
            except CannotOpen:
                done.lost.append(f"{model._meta.db_table}.{column} of row {pk}")
                continue
            if new is not None:  # only where it is still the same: somebody may set another secret at this moment
                done.sealed_anew += model._default_manager.filter(
                    pk=pk, **{column: bytes(sealed)}).update(**{column: new})
    return done


def unreadable_secrets() -> list[str]:
    """Stored secrets that none of the keys opens, as "table.column of row 3". Raises ValueError where a key is none."""
    keys = MultiFernet([Fernet(key) for key in sealing.current_keys()])
    lost = []
    for model, column in sealed_columns():
        rows = model._default_manager.exclude(**{column: None}).order_by("pk").values_list("pk", column)
        for pk, sealed in rows.iterator():
            try:
                keys.decrypt(bytes(sealed))
            except InvalidToken:
                lost.append(f"{model._meta.db_table}.{column} of row {pk}")
    return lost


def sealed_columns() -> Iterator[tuple[type[Model], str]]:
    """Every column of the database that holds sealed secrets."""
    for model in apps.get_models():
        for column in model._meta.local_concrete_fields:
            if isinstance(column, SealedField):
                yield model, column.name
