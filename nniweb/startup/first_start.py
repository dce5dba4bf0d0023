"""What the first start brings: the first user, a way in, something that moves."""

import importlib.util
import logging
from pathlib import Path

from django.conf import settings
from django.db.models import Q

from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.parsing import parse_experiment_config
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launching import launch
from nniweb.experiments.models import Experiment, SignInLink, User
from nniweb.experiments.models.account import Role

logger = logging.getLogger(__name__)


def first_user() -> User:
    """The first active administrator; where there is none, ``admin`` is made, without a password."""
    administrators = User.objects.filter(Q(is_superuser=True) | Q(role=Role.ADMIN), is_active=True)
    found = administrators.order_by("-is_superuser", "pk").first()
    if found is not None:
        return found
    taken = set(User.objects.filter(username__startswith="admin").values_list("username", flat=True))
    name = next(each for number in range(1, len(taken) + 2)
                if (each := "admin" if number == 1 else f"admin-{number}") not in taken)
    user = User(username=name, is_staff=True, is_superuser=True, role=Role.ADMIN)
    user.set_unusable_password()
    user.save()
    return user


def sign_in_address(base_url: str, user: User) -> str:
    """An address that signs the user in, once, within an hour."""
    return f"{base_url}/sign-in/{SignInLink.make(user)}/"


def demo_folder() -> Path:
    """The digits example; the one without dependencies where scikit-learn is not installed."""
    name = "digits" if importlib.util.find_spec("sklearn") else "quadratic"
    return Path(settings.BASE_DIR) / "examples" / name


def launch_example(owner: User) -> Experiment:
    """Launch the bundled example. Raises ConfigInvalid, Refused or OSError, with a sentence."""
    folder = demo_folder()
    return launch(parse_experiment_config((folder / "config.yml").read_text(), folder), owner)


def launch_demo(owner: User) -> Experiment | None:
    """Launch the bundled example if nothing was ever launched here; None where there is nothing to do."""
    if not settings.DEMO or Experiment.objects.exists():
        return None
    try:
        return launch_example(owner)
    except (ConfigInvalid, Refused, OSError, ValueError) as error:
        logger.warning("the demo in %s could not be launched: %s", demo_folder(), error)
        return None
