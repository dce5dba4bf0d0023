"""What a person can do about a trial that waits, failed or was stopped, or what will happen by itself.

Why it is so stands in the trial's message; this adds the next step. At most four queries.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nniweb.experiments.checkpoints.checkpoint_settings import DEFAULT_GRACE, checkpoints_of
from nniweb.experiments.clusters.cluster_platform import runs_without_keeper
from nniweb.experiments.clusters.worker_presence import absence_of, absence_of_home, alive_hosts
from nniweb.experiments.lifecycle.heartbeats import missed_after
from nniweb.experiments.lifecycle.retries import ON_OUT_OF_MEMORY, REFUSED
from nniweb.experiments.models import Attempt, Checkpoint, Cluster, Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import RESTS, TrialTarget
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Where a piece of advice may point: pages, or a part of the trial's own page.
EXPERIMENT, CLUSTER, NEW_EXPERIMENT, OUTPUT = "experiment", "cluster", "new_experiment", "output"
PLACES = (EXPERIMENT, CLUSTER, NEW_EXPERIMENT, OUTPUT)
#: Code of the remark on a running trial whose keeper has never called. Arguments: ``addresses`` that it was given (a
#: list of texts), ``last_lines`` of its own log (a text, "" where the platform cannot tell).
KEEPER_NOT_HEARD = "keeper_not_heard"
#: A running trial whose keeper was not heard of for so many seconds is remarked upon, and later one that was asked to
#: report less often.
SILENT_AFTER = 60.0
#: Statuses in which something remains to be said. A trial that succeeded needs no advice.
_SPEAKS = {TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.UNKNOWN, TrialJobStatus.FAILED,
           TrialJobStatus.SYS_CANCELED, TrialJobStatus.EARLY_STOPPED}


@dataclass(frozen=True)
class Advice:
    """A sentence or two for a person, and where to do it: one of PLACES, "" for nowhere.

    Programs read ``code`` and ``arguments``; a piece of advice that no program needs has none.
    """

    message: str
    look_at: str = ""
    code: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


def advice_for(trial_pk: int, now: datetime) -> list[Advice]:
    """The most useful first; empty where there is nothing to do."""
    trial = Trial.objects.select_related("experiment__cluster").get(pk=trial_pk)
    status = TrialJobStatus(trial.status)
    if status not in _SPEAKS:
        return []
    attempt = Attempt.objects.filter(trial=trial).select_related("cluster").order_by("-number").first()
    if attempt is not None:
        attempt.trial = trial
    if trial.target in RESTS and not status.is_end:
        return _of_frozen(trial, status)
    if trial.target != TrialTarget.RUN and not status.is_end:
        return [Advice("The trial is being stopped. Its processes have the grace period to end by themselves. After "
                       "that they are killed.")]
    alone = runs_without_keeper(attempt.runs_on if attempt is not None else trial.experiment.cluster, attempt)
    match status:
        case TrialJobStatus.WAITING:
            return _of_waiting(trial, attempt)
        case TrialJobStatus.RUNNING:
            return [] if alone else _of_running(attempt, now)
        case TrialJobStatus.UNKNOWN if alone:
            return [Advice("The platform does not tell how the trial is. Its status is correct again when the platform "
                           "can be asked. If you know that the trial does not run any more, stop it.", CLUSTER)]
        case TrialJobStatus.UNKNOWN:
            return [Advice("No result is lost yet. The trial's keeper stores the reports and sends them when the "
                           "machine can be reached again. If you know that the machine is permanently gone, stop the "
                           "trial.", CLUSTER)]
        case TrialJobStatus.EARLY_STOPPED:
            return _of_early_stopped(trial, attempt)
        case TrialJobStatus.SYS_CANCELED:
            return [Advice("The trial's code did not cause this. Run the trial again. With retry: {onPlatformFailure: "
                           "2} in the config file, such trials are run again automatically.", CLUSTER)]
    return _of_failed(trial.experiment, attempt, has_output=not alone)


def _of_frozen(trial: Trial, status: TrialJobStatus) -> list[Advice]:
    if status is not TrialJobStatus.WAITING:
        asked = checkpoints_of(trial.experiment)
        grace = DEFAULT_GRACE if asked is None else asked.grace
        return [Advice(f"The trial is being frozen. It has {grace:g} seconds to save a checkpoint and end. After that "
                       "it is killed.")]
    saved = Checkpoint.objects.filter(trial=trial, confirmed_at__isnull=False, removed_at=None).exists()
    return [Advice("The trial's last checkpoint is on the server." if saved else
                   "The trial has saved no checkpoint, so it will begin from the beginning.",
                   EXPERIMENT if trial.target == TrialTarget.HELD else "")]


def _of_waiting(trial: Trial, attempt: Attempt | None) -> list[Advice]:
    experiment = trial.experiment
    is_placed = attempt is not None and attempt.stage != Attempt.Stage.ENDED
    cluster = attempt.runs_on if attempt is not None and is_placed else experiment.cluster
    looks_at_cluster = is_placed or not experiment.several_clusters  # else its message says what each of them says
    if absent := absence_of(cluster, alive_hosts()):
        return [Advice(absent if is_placed else absence_of_home(experiment, absent), CLUSTER)]
    if experiment.target == ExperimentTarget.PAUSE or experiment.status == ExperimentStatus.PAUSED:
        return [Advice("The experiment is paused and starts no trials. Resume it.", EXPERIMENT)]
    if experiment.is_finished:
        return [Advice(f"The experiment is {experiment.status}. Resume it to start this trial.", EXPERIMENT)]
    if looks_at_cluster and cluster.health in (Cluster.Health.AWAY, Cluster.Health.BAD):
        said = f" Its message: {cluster.message}" if cluster.message else ""
        return [Advice(f"The cluster {cluster.name} {cluster.get_health_display()}.{said} \"Test cluster\" on the "
                       "cluster's page checks everything that a trial needs.", CLUSTER)]
    if attempt is None or attempt.stage == Attempt.Stage.ENDED:
        under_way = Attempt.objects.under_way().filter(trial__experiment=experiment).count()
        if under_way >= experiment.trial_concurrency:
            slots = "the one slot of the experiment is" if experiment.trial_concurrency == 1 else \
                f"all {experiment.trial_concurrency} slots of the experiment are"
            return [Advice(f"The trial starts when another trial ends, because {slots} taken. A higher "
                           "trialConcurrency lets it start sooner.", EXPERIMENT)]
        return [Advice("The trial is about to be started.")]
    return [Advice("The trial starts automatically when machines and GPUs are free. The cluster's page shows which "
                   "jobs use them.", CLUSTER)]


def _of_running(attempt: Attempt | None, now: datetime) -> list[Advice]:
    if attempt is not None and attempt.heard_at is None and attempt.remark is not None:
        return [_of_remark(**attempt.remark)]
    if attempt is None or attempt.heard_at is None:
        return []
    limit = missed_after(attempt.report_within, SILENT_AFTER)
    if now - attempt.heard_at < limit:
        return []
    since = "a minute" if limit.total_seconds() == SILENT_AFTER else f"{limit.total_seconds():.0f} seconds"
    return [Advice(f"The trial's keeper has not called the server for more than {since}. Its reports are kept on its "
                   "machine and arrive when it can reach the server again.", CLUSTER)]


def _of_remark(code: str, arguments: dict[str, Any]) -> Advice:
    """The one place where remarks become sentences."""
    message = ("The platform reports that the trial runs, but the trial's keeper has not called this server. The "
               f"keeper was given the address {' and '.join(arguments['addresses'])}. Check that this is the address "
               "of this server (NNIWEB_PUBLIC_URL, or nniManagerIp in the config file), that the trial's machine can "
               "reach it, and that no firewall or network policy blocks the connection. \"Test cluster\" on the "
               "cluster's page tests this. A running trial keeps its address: after a correction, stop the trial and "
               "run it again.")
    if arguments["last_lines"]:
        message += f" The last lines of the keeper's log: {arguments['last_lines']}"
    return Advice(message, CLUSTER, code, arguments)


def _of_early_stopped(trial: Trial, attempt: Attempt | None) -> list[Advice]:
    if attempt is not None and attempt.end_reason == contract.TIME_LIMIT:
        return [Advice("To give further trials more time, raise maxTrialDuration of the experiment.", EXPERIMENT)]
    last = "" if trial.latest_number is None else f"; last value {trial.latest_number:.4g}"
    return [Advice(f"Stopped early{last}. The assessor expected no good result from the trial.")]


def _of_memory(experiment: Experiment, attempt: Attempt) -> Advice:
    again = "" if ON_OUT_OF_MEMORY in experiment.retry else \
        " With retry: {onOutOfMemory: 1} in the config file, such trials are run again automatically"
    if attempt.out_of_memory == contract.MAIN_MEMORY:
        return Advice("The trial needs less memory (a smaller batch, fewer processes that load data), a machine with "
                      "more, or a higher memory limit." + (again and f"{again}."), OUTPUT)
    return Advice("The trial needs less GPU memory (a smaller batch or model, lower precision) or a larger GPU."
                  + (again and f"{again}, on a GPU that they have for themselves."), OUTPUT)


def _of_failed(experiment: Experiment, attempt: Attempt | None, *, has_output: bool) -> list[Advice]:
    if attempt is None or attempt.end_reason == REFUSED:
        return [Advice("The platform did not accept the trial. \"Test cluster\" on the cluster's page shows what is "
                       "missing. To change settings of the experiment, launch a clone of it.", CLUSTER)]
    if attempt.out_of_memory:
        return [_of_memory(experiment, attempt)]
    if attempt.end_reason in (contract.NOT_STARTED, contract.LOST):
        return [Advice("The trial's code did not cause this. Check the machine, or test the cluster. With retry: "
                       "{onPlatformFailure: 2} in the config file, such trials are run again automatically.",
                       CLUSTER)]
    advice = [Advice("The last lines of its output usually show the cause.", OUTPUT)] if has_output else [
        Advice("The last lines of its output usually show the cause. They are not stored here; look for them on the "
               "trial's machine or on the platform.")]
    if experiment.code_id is None:
        advice.append(Advice(f"The trial's code is in {experiment.code_folder or 'the code folder'}. Correct it there, "
                             "then run the trial again."))
    else:
        advice.append(Advice("Trials of this experiment use the code as it was at the launch. To use corrected code, "
                             "launch a new experiment.", NEW_EXPERIMENT))
    return advice
