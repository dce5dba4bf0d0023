"""A large database that stays in a folder: made once, and asked as often as one likes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

#: In the folder, what this says; it is written when the database is whole.
FILE = "made.json"
#: Of PostgreSQL.
LARGE, HUNDREDTH = "postgres", "hundredth"
#: Name of the cluster of all trials.
CLUSTER = "nowhere"


@dataclass(frozen=True)
class Made:
    """What a database has. ``small``, ``large``, ``wide``: public ids of experiments; ``before``: milliseconds of the
    answer to each question, by its name, when the database had a hundredth of its rows.
    """

    small: str
    large: str
    wide: str
    trials: int
    within: int
    before: dict[str, float]

    def keep(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Made | None:
        """None where none was made, or not to its end."""
        try:
            return cls(**json.loads((folder / FILE).read_text()))
        except FileNotFoundError:
            return None
