"""What Django does when it starts: the data folder and its keys are made where they are missing."""

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from nniweb.storage import data_folder


class NniWebConfig(AppConfig):
    """The application besides its models, which are those of ``nniweb.experiments``."""

    name = "nniweb"

    def ready(self) -> None:
        """Raises ImproperlyConfigured where the data folder or its keys cannot be made, or a key is empty."""
        _make_folders(settings.DATA_FOLDER)
        try:
            _complete_settings(settings.DATA_FOLDER)
        except OSError as error:
            raise ImproperlyConfigured(
                f"The keys in {settings.DATA_FOLDER / 'keys'} cannot be read or created: {error.strerror}. Free disk "
                "space there, or correct the permissions of the folder, and start again.") from None
        except data_folder.EmptyKey as error:
            raise ImproperlyConfigured(str(error)) from None


def _make_folders(folder: Path) -> None:
    try:
        data_folder.close_to_others(data_folder.prepare(folder))
        data_folder.prepare(Path(settings.STATIC_ROOT))
    except OSError as error:
        raise ImproperlyConfigured(f"The data folder {folder} cannot be created: {error.strerror}. Choose another "
                                   "folder with NNIWEB_DATA.") from None


def _complete_settings(folder: Path) -> None:
    """Settings that the environment did not give are kept in the data folder, and made at the first start."""
    settings.INSTALLATION_ID = settings.INSTALLATION_ID or data_folder.installation_id(folder)
    try:
        settings.SECRET_KEY  # noqa: B018  # Django refuses to give an empty one
    except ImproperlyConfigured:
        settings.SECRET_KEY = data_folder.secret_key(folder)
    if not settings.SEAL_KEYS:
        data_folder.seal_keys(folder)  # made at the first start, not with the first secret
    for layer in getattr(settings, "CHANNEL_LAYERS", {}).values():
        layer["CONFIG"]["prefix"] = f"nniweb-{settings.INSTALLATION_ID}"
