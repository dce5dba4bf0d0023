"""The fields with which an experiment asks for warm places: jobs that stay and take its next trials."""

from __future__ import annotations

from pydantic import Field

from trainingservice.cluster_settings import TrialOptions
from trainingservice.words.durations import Grace

#: Seconds for which an idle place is kept where a file does not say.
IDLE_SECONDS = 60
#: What ``reuseMode`` means on platforms with places, for those whose file sets it.
STAYS = ("with true, jobs stay when their trials have ended and take further trials of the experiment, one after the "
         "other (warm places)")
REUSE_MODE_MEANING = f"{STAYS}; otherwise each trial is a job of its own"


class PlaceOptions(TrialOptions):
    """For the options of platforms with ``has_places``."""

    reuse_mode: bool | None = Field(
        default=None, description="true: a job stays when its trial has ended, and takes further trials of the "
                                  "experiment, one after the other (a warm place). Default: each trial is a job of its "
                                  "own.")
    reuse_idle: Grace = Field(
        default=IDLE_SECONDS, description="With reuseMode: how long a job without a trial is kept. It ends sooner when "
                                          "the experiment does. (Not in NNI.)")

    def why_no_place(self) -> str:
        """Why a job with these options cannot take a second trial, a clause; "" where it can."""
        return ""

    def stays_for(self) -> float | None:
        return float(self.reuse_idle) if self.reuse_mode and not self.why_no_place() else None
