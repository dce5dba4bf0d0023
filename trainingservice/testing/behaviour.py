"""What the scripted platform does to a job: written down beforehand by a test, or in an experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from trainingservice.cluster_settings import ClusterSettings, SettingsModel

#: Behaviour of jobs that no other key names.
EVERY_JOB = "*"


class Behaviour(SettingsModel):
    """How one job fares. Times are seconds; ``..._after`` counts from the moment the trial was seen running."""

    refusals: int = Field(default=0, ge=0, description="So many submissions are answered with TemporaryError first.")
    refused_for_ever: str = Field(default="", description="The submission is answered with PermanentError and this "
                                                          "sentence.")
    start_delay: float = Field(default=0, ge=0, description="How long the job waits in the platform's own queue.")
    end_shown_before_last_report: bool = Field(
        default=False, description="The keeper's reports are held up from the trial's start until the platform has "
                                   "shown the end of the job.")
    restart_after: float | None = Field(
        default=None, ge=0, description="The container is started once more beside the living one: a second keeper "
                                        "for the same attempt, in a folder of its own.")
    requeue_after: float | None = Field(
        default=None, ge=0, description="The machine dies; the platform puts the job back into its queue and starts it "
                                        "again under the same name on another one.")
    requeue_delay: float = Field(default=0.5, ge=0, description="How long it waits there.")
    lost_after: float | None = Field(
        default=None, ge=0, description="The machine dies with keeper and trial; the platform shows the job as failed.")
    deleted_after: float | None = Field(
        default=None, ge=0, description="Somebody else deletes the job: its keeper is told to end, and the platform "
                                        "does not know the job any more.")
    silent_after: float | None = Field(
        default=None, ge=0, description="The platform says nothing about the job, which goes on.")
    silent_until: str = Field(default="", description="The file whose appearance ends it. Empty: nothing does.")


class ScriptedClusterSettings(ClusterSettings):
    """Settings of the scripted platform. Two objects with the same ``folder`` serve the same cluster."""

    platform_name: ClassVar[str] = "scripted"

    folder: str | None = Field(default=None, description="Where the cluster keeps all it knows. Default: a folder in "
                                                         "the service's state folder.")
    fetches_job: bool = Field(default=False, description="Keepers fetch job and code from the server, as in a pod, "
                                                         "instead of finding them in their folder.")
    multi_phase: bool = Field(default=True, description="Whether running trials can be given further parameters.")
    behaviours: Mapping[str, Behaviour] = Field(
        default={}, description='Sequence id of a trial, its job name, or "*" for all others: how it fares.')

    def behaviour_of(self, job_name: str, sequence_id: int) -> Behaviour:
        """What is written for this job; nothing special where nothing is."""
        for key in (job_name, str(sequence_id), EVERY_JOB):
            if key in self.behaviours:
                return self.behaviours[key]
        return Behaviour()
