"""TensorBoards as people want them: start one, list, note that it is looked at, stop."""

import importlib.util
import shutil
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, TensorBoard, User
from nniweb.storage.own_files import IS_INSTALLED
from trainingservice.words.shown_value import shown

#: Trials of one TensorBoard: more are slow to load and no help to look at.
MOST_TRIALS = 50
#: How exactly it is noted when one was looked at.
_USE_NOTED_EVERY = timedelta(minutes=1)


def start(experiment: Experiment, trials: Sequence[str], user: User) -> TensorBoard:
    """Have one of these trials (public ids); the one that is there already where it is of the same trials.

    Nothing runs before somebody opens it. Raises Refused.
    """
    if importlib.util.find_spec("tensorboard") is None:
        how = "pip install 'nniweb[tensorboard]'" if IS_INSTALLED else \
            ".venv/bin/python -m pip install -r requirements/tensorboard.txt"
        raise Refused(f"TensorBoard is not installed on the server. An administrator can install it with: {how}")
    known = dict(experiment.trials.filter(public_id__in=trials).values_list("public_id", "sequence_id"))
    unknown = sorted(set(trials) - known.keys())
    if unknown:
        raise Refused(f"{shown(unknown[0])} is not a trial of this experiment.", "trials")
    if len(known) > MOST_TRIALS:
        raise Refused(f"A TensorBoard shows at most {MOST_TRIALS} trials, not {len(known)}. Choose fewer.", "trials")
    wanted = sorted(known, key=lambda name: known[name])
    end_idle()
    with transaction.atomic():
        same = [board for board in boards_of(experiment) if board.trials == wanted]
        if same:
            note_use(same[0])
            return same[0]
        if TensorBoard.objects.count() >= settings.TENSORBOARD_MOST:
            names = {str(board.experiment) for board in TensorBoard.objects.select_related("experiment")[:20]
                     if board.experiment.owner_id == user.pk or user.is_admin}
            raise Refused(f"{settings.TENSORBOARD_MOST} TensorBoards are already open, which is the maximum of this "
                          "server (NNIWEB_TENSORBOARD_MOST). Stop "
                          f"one{' of ' + ', '.join(sorted(names)) if names else ''}, or wait until an unused one ends.")
        now = timezone.now()
        board = TensorBoard.objects.create(experiment=experiment, trials=wanted, created_by=user, created_at=now,
                                           used_at=now)
        audit.record("tensorboard.start", experiment, user, tensorboard=board.public_id, trials=wanted)
    return board


def boards_of(experiment: Experiment) -> QuerySet[TensorBoard]:
    """Those that are open."""
    return TensorBoard.objects.filter(experiment=experiment, used_at__gt=_idle_since()).select_related("created_by")


def with_numbers(experiment: Experiment) -> list[tuple[TensorBoard, list[int]]]:
    """Those that are open, each with the numbers of its trials."""
    open_ones = list(boards_of(experiment))
    ids = {trial for board in open_ones for trial in board.trials}
    known = dict(experiment.trials.filter(public_id__in=ids).values_list("public_id", "sequence_id")) if ids else {}
    return [(board, [known[trial] for trial in board.trials if trial in known]) for board in open_ones]


def stop(board: TensorBoard) -> None:
    """Its processes end within seconds, on whichever host they are."""
    audit.record("tensorboard.stop", board.experiment, tensorboard=board.public_id)
    board.delete()


def note_use(board: TensorBoard) -> None:
    """Somebody looks at it."""
    now = timezone.now()
    if now - board.used_at > _USE_NOTED_EVERY:
        TensorBoard.objects.filter(pk=board.pk).update(used_at=now)


def end_idle() -> None:
    """Forget those that nobody has looked at for too long, and what ended ones have left on any host."""
    TensorBoard.objects.filter(used_at__lte=_idle_since()).delete()
    known = set(TensorBoard.objects.values_list("public_id", flat=True))
    for left in folder().parent.glob("*/*"):
        if left.name not in known:
            shutil.rmtree(left, ignore_errors=True)


def is_wanted(public_id: str) -> bool:
    """Whether it shall go on."""
    return TensorBoard.objects.filter(public_id=public_id, used_at__gt=_idle_since(),
                                      experiment__deleted_at=None).exists()


def folder() -> Path:
    """Where this host has the files of all of them: hosts may share the data folder."""
    path = Path(settings.DATA_FOLDER) / "tensorboard" / socket.gethostname()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _idle_since() -> datetime:
    return timezone.now() - timedelta(minutes=settings.TENSORBOARD_IDLE_MINUTES)
