"""The folders of a trial that loads what another one has saved, and saves for others, as PBT's trials do.

The trial is told them by two of its parameters. They are in the attempt's folder, so the trials need share none: what
is loaded comes from the server, and what was saved becomes a checkpoint when the trial has succeeded.
"""

import contextlib
import json
import os
import shutil
from typing import TYPE_CHECKING, List

from trialkeeper import contract

if TYPE_CHECKING:  # loaded where it is used
    from trialkeeper.checkpoint_restore import Restored


class HandedOnFolders:
    """For the keeper's main thread, but for ``path`` and ``make``."""

    def __init__(self, attempt_folder: str, document: contract.FoldersDocument) -> None:
        self.path = os.path.join(attempt_folder, contract.HANDED_ON_FOLDER)
        self._document = document
        self._parameters = {document["load_parameter"]: os.path.join(self.path, contract.LOAD_FOLDER),
                            document["save_parameter"]: os.path.join(self.path, contract.SAVE_FOLDER)}

    @property
    def candidates(self) -> List[contract.KnownCheckpoint]:
        """What may be put into the folder to be loaded, the newest first, by the name that it has there."""
        return [{"id": one["id"], "name": contract.LOAD_FOLDER, "step": one["step"], "size": one["size"]}
                for one in self._document["load"]]

    @staticmethod
    def as_handed_on(restored: "Restored") -> "Restored":
        """What came of putting it there, by the name with which it was saved."""
        def renamed(one: contract.KnownCheckpoint) -> contract.KnownCheckpoint:
            return {"id": one["id"], "name": contract.HANDED_ON, "step": one["step"], "size": one["size"]}

        return restored._replace(
            checkpoint=None if restored.checkpoint is None else renamed(restored.checkpoint),
            problems=[(renamed(one), problem) for one, problem in restored.problems])

    def make(self) -> None:
        """The folder of both, without what an earlier run has left there. Raises OSError."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def told(self, text: str) -> str:
        """The text of a parameter file, with the paths of the folders."""
        try:
            document = json.loads(text)
            parameters = document["parameters"]
            found = {name: path for name, path in self._parameters.items() if name in parameters}
        except (ValueError, KeyError, TypeError):
            return text
        if not found or not isinstance(parameters, dict):
            return text
        parameters.update(found)
        return json.dumps(document)

    def offer(self, checkpoints: str) -> None:
        """Make what was saved a checkpoint, by moving it into the folder of these. Harmless where it was done already,
        or nothing was saved. Raises OSError.
        """
        saved = os.path.join(self.path, contract.SAVE_FOLDER)
        if not os.path.lexists(saved):
            return
        place = os.path.join(checkpoints, contract.HANDED_ON)
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(place)
        os.rename(saved, place)
