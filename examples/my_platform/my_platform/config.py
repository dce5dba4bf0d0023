"""What an experiment file may say about this platform."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from trainingservice.cluster_settings import ClusterSettings, TrialOptions


class MySettings(ClusterSettings):
    """Which cluster it is: experiments whose settings are equal share it."""

    platform_name: ClassVar[str] = "mine"

    folder: Path = Field(description="Where trials and their files are; an absolute path.")
    slots: int = Field(default=4, ge=1, description="How many trials may run at the same time.")


class MyOptions(TrialOptions):
    """What one experiment asks of it."""

    nice: int = Field(default=0, ge=0, le=19, description="How much its trials stand back behind other programs.")
