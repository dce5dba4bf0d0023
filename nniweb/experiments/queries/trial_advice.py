"""What a person can do about a trial that waits, failed or was stopped, or what will happen by itself.

Why it is so stands in the trial's message; this adds the next step. At most four queries.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from nniweb.experiments.clusters.worker_presence import absence_of, alive_hosts
from nniweb.experiments.lifecycle.retries import REFUSED
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Where a piece of advice may point: pages, or a part of the trial's own page.
EXPERIMENT, CLUSTER, NEW_EXPERIMENT, OUTPUT = "experiment", "cluster", "new_experiment", "output"
PLACES = (EXPERIMENT, CLUSTER, NEW_EXPERIMENT, OUTPUT)
#: Code of the remark on a running trial whose keeper has never called. Arguments: ``addresses`` that it was given (a
#: list of texts), ``last_lines`` of its own log (a text, "" where the platform cannot tell).
KEEPER_NOT_HEARD = "keeper_not_heard"
#: A running trial whose keeper was not heard of for so long is remarked upon; keepers speak every 10 s.
SILENT_AFTER = timedelta(seconds=60)
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
    attempt = Attempt.objects.filter(trial=trial).order_by("-number").first()
    if trial.target != TrialTarget.RUN and not status.is_end:
        return [Advice("It is being stopped: its processes have the grace period to end by themselves, then they are "
                       "killed.")]
    match status:
        case TrialJobStatus.WAITING:
            return _of_waiting(trial, attempt)
        case TrialJobStatus.RUNNING:
            return _of_running(attempt, now)
        case TrialJobStatus.UNKNOWN:
            return [Advice("Nothing is lost yet: its keeper writes down what it reports and sends it when it can be "
                           "reached again. If you know that its machine is gone for good, cancel it.", CLUSTER)]
        case TrialJobStatus.EARLY_STOPPED:
            return _of_early_stopped(attempt)
        case TrialJobStatus.SYS_CANCELED:
            return [Advice("It was not its code's doing. Run it again; with retry: {onPlatformFailure: 2} in the "
                           "experiment's file that happens by itself.", CLUSTER)]
    return _of_failed(trial.experiment, attempt)


def _of_waiting(trial: Trial, attempt: Attempt | None) -> list[Advice]:
    experiment = trial.experiment
    cluster = experiment.cluster
    if absent := absence_of(cluster, alive_hosts()):
        return [Advice(absent, CLUSTER)]
    if experiment.target == ExperimentTarget.PAUSE or experiment.status == ExperimentStatus.PAUSED:
        return [Advice("The experiment is paused and starts nothing. Resume it.", EXPERIMENT)]
    if experiment.is_finished:
        return [Advice(f"The experiment is {experiment.status}. Resume it, then this trial is started.", EXPERIMENT)]
    if cluster.health in (Cluster.Health.AWAY, Cluster.Health.BAD):
        said = f" It says: {cluster.message}" if cluster.message else ""
        return [Advice(f"The cluster {cluster.name} {cluster.get_health_display()}.{said} A rehearsal on its page "
                       "tries everything a trial needs.", CLUSTER)]
    if attempt is None:
        running = Trial.objects.filter(experiment=experiment).unfinished().exclude(
            status=TrialJobStatus.WAITING.value).count()
        if running >= experiment.trial_concurrency:
            slots = "its one slot is" if experiment.trial_concurrency == 1 else \
                f"all {experiment.trial_concurrency} slots of the experiment are"
            return [Advice(f"It starts when another trial ends: {slots} taken. With more trials at once it starts "
                           "sooner.", EXPERIMENT)]
        return [Advice("It is about to be started.")]
    return [Advice("It starts by itself as soon as there is room. The cluster's page shows what holds its machines and "
                   "GPUs.", CLUSTER)]


def _of_running(attempt: Attempt | None, now: datetime) -> list[Advice]:
    if attempt is not None and attempt.heard_at is None and attempt.remark is not None:
        return [_of_remark(**attempt.remark)]
    if attempt is None or attempt.heard_at is None or now - attempt.heard_at < SILENT_AFTER:
        return []
    return [Advice("Its keeper was not heard of for more than a minute. What it reports is kept on its machine and "
                   "arrives when the way is open again.", CLUSTER)]


def _of_remark(code: str, arguments: dict[str, Any]) -> Advice:
    """The one place where remarks become sentences."""
    message = (f"The platform says that it runs, but its keeper has not called this server. It was given the address "
               f"{' and '.join(arguments['addresses'])}. Check that this is this server (NNIWEB_PUBLIC_URL, or "
               "nniManagerIp in the experiment's file), that the trial's machine can reach it by this name, and that "
               "no firewall or network policy stands between; a rehearsal on the cluster's page tries it. A running "
               "trial keeps its address: after a correction cancel it and run it again.")
    if arguments["last_lines"]:
        message += f" The last lines of its log: {arguments['last_lines']}"
    return Advice(message, CLUSTER, code, arguments)


def _of_early_stopped(attempt: Attempt | None) -> list[Advice]:
    if attempt is not None and attempt.end_reason == contract.TIME_LIMIT:
        return [Advice("Give its successors more time: raise maxTrialDuration of the experiment.", EXPERIMENT)]
    return [Advice("The assessor expected no good result of it. What it reported last counts as its result.")]


def _of_failed(experiment: Experiment, attempt: Attempt | None) -> list[Advice]:
    if attempt is None or attempt.end_reason == REFUSED:
        return [Advice("The platform did not take it. A rehearsal on the cluster's page tells what is missing. "
                       "Settings of the experiment are changed in a new one like it.", CLUSTER)]
    if attempt.end_reason in (contract.NOT_STARTED, contract.LOST):
        return [Advice("It was not its code's doing: look at the machine, or rehearse the cluster. With retry: "
                       "{onPlatformFailure: 2} in the experiment's file such trials are tried again by themselves.",
                       CLUSTER)]
    advice = [Advice("What it wrote last usually says why.", OUTPUT)]
    if experiment.code_id is None:
        advice.append(Advice(f"Its code is in {experiment.code_folder or 'the code folder'}: mend it there, then run "
                             "the trial again."))
    else:
        advice.append(Advice("Trials of this experiment have the code as it was at the launch: mended code needs a new "
                             "experiment.", NEW_EXPERIMENT))
    return advice
