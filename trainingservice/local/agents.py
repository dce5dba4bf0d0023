"""The agents of this machine: the server's own, and one for each user as whom trials run (``runAs``)."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from trainingservice.base import ServiceContext
from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.attempt_states import remove_folders
from trainingservice.local.agent_process import AgentProcess
from trainingservice.local.os_user import CannotRunAs, find_os_user, names_in
from trainingservice.local.user_folder import UserFolder

logger = logging.getLogger(__name__)


class LocalAgents:
    """Starts nothing by itself: an agent comes with the first question. All methods may be called from any thread."""

    def __init__(self, context: ServiceContext, *, on_event: Callable[[str, str, FolderState], None],
                 on_gone: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        """``on_event`` hears whose agent it is ("" the server's own), the folder and its state."""
        self._context = context
        self._on_event = on_event
        self._on_gone = on_gone
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._folders: dict[str, UserFolder] = {}
        self._others: dict[str, AgentProcess] = {}
        self._closed = False
        self.own = AgentProcess(context.state_folder / "agent", on_gone=on_gone, monotonic=monotonic,
                                on_event=lambda folder, state: on_event("", folder, state))

    def user_folder(self, os_user: str) -> UserFolder | None:
        """The folder of that user's trials; None for the server's own user (""). Raises CannotRunAs."""
        if not os_user:
            return None
        user = find_os_user(os_user)  # each time: somebody else may have the number of a user who was made anew
        with self._lock:
            known = self._folders.get(os_user)
            if known is not None and known.user == user:
                return known
            folder = self._folders[os_user] = UserFolder(
                user, self._context.installation, self._context.cluster_id, private=self._context.private_folder,
                urls=self._context.relay_urls)
            agent = self._others.pop(os_user, None)
        if agent is not None:
            agent.close(for_good=True)
        return folder

    def of(self, os_user: str) -> AgentProcess:
        """The agent that runs as that user; "" is the server's own. Raises CannotRunAs."""
        user_folder = self.user_folder(os_user)
        if user_folder is None:
            return self.own
        with self._lock:
            if os_user not in self._others:
                agent = AgentProcess(
                    self._context.state_folder / "agents" / os_user, user_folder=user_folder, on_gone=self._on_gone,
                    on_event=lambda folder, state: self._on_event(os_user, folder, state), monotonic=self._monotonic)
                if self._closed:
                    agent.close(for_good=True)
                self._others[os_user] = agent
            return self._others[os_user]

    def any_runs(self) -> bool:
        """Whether there is a living agent."""
        with self._lock:
            return any(agent.pid is not None for agent in (self.own, *self._others.values()))

    def close(self, *, for_good: bool = True) -> None:
        """End all agents; keepers and trials go on."""
        with self._lock:
            self._closed |= for_good
            others = list(self._others.values())
        for agent in (self.own, *others):
            agent.close(for_good=for_good)

    # --- what an experiment leaves in other users' folders ---------------------------------

    def note_use(self, experiment_id: str, os_user: str) -> None:
        """Remember, also over restarts, that something of the experiment lies in that user's folder."""
        if os_user:
            (self._notes(experiment_id) / os_user).mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove_experiment(self, experiment_id: str) -> None:
        """Remove what the experiment left in users' folders. Raises TemporaryError; may be repeated."""
        notes = self._notes(experiment_id)
        for os_user in sorted(path.name for path in notes.iterdir()) if notes.is_dir() else ():
            try:
                folder = self.user_folder(os_user)
            except CannotRunAs as error:  # the user was removed, mostly with all its files
                logger.warning("files of experiment %s of user %s cannot be removed: %s", experiment_id, os_user, error)
                continue
            assert folder is not None
            trials = folder.path / "trials" / experiment_id
            if names := names_in(folder.user, trials):
                remove_folders(self.of(os_user).client(), [str(trials / name) for name in names],
                               monotonic=self._monotonic)
            folder.user.remove(trials)
            folder.remove_code(experiment_id)
        shutil.rmtree(notes, ignore_errors=True)

    def _notes(self, experiment_id: str) -> Path:
        return self._context.state_folder / "run_as" / experiment_id
