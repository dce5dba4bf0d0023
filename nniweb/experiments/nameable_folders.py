"""Which folders of the server a person may name in what they launch."""

from django.conf import settings

from nniweb.experiments.config.code_roots import CodeRoots
from nniweb.experiments.models import User


def nameable_folders(user: User) -> CodeRoots:
    """NNIWEB_CODE_ROOTS for those who have the right, none for others; never the data folder."""
    return CodeRoots(settings.CODE_ROOTS if user.may_name_folders else (), (settings.DATA_FOLDER,))
