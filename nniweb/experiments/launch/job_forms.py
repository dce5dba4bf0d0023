"""From rows to what a platform is asked to run."""

from collections.abc import Collection
from pathlib import Path
from typing import cast

from django.conf import settings
from django.db.models import Sum

from nniweb.experiments.checkpoints.checkpoint_settings import checkpoints_of
from nniweb.experiments.checkpoints.handed_on import keepers_hand_on
from nniweb.experiments.checkpoints.stored_checkpoints import to_load, to_resume
from nniweb.experiments.clusters import addresses
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.given_parameters import given_text
from nniweb.experiments.memory.gpu_demand import gpu_demand
from nniweb.experiments.models import Attempt, Checkpoint, Experiment, Trial, TrialParameters
from nniweb.experiments.models.experiment_cluster import gpu_number_on, options_on
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.experiments.results.replicates import REPLICATE_VARIABLE, SEED_VARIABLE
from nniweb.experiments.variants.stored_variants import for_platforms
from nniweb.tuning.checkpoint_parameters import LOAD_KEY, SAVE_KEY
from nniweb.tuning.search_space.flat_names import names_in_space
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import TrialOptions
from trainingservice.trial_job import (
    HyperParameters,
    JobApplicationForm,
    KeeperAccess,
    TrialCode,
    TrialJobDetail,
    TrialLimits,
)
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def keeper_access(experiment: Experiment, service: type[TrainingService], token: str) -> KeeperAccess:
    """How the keeper of a new submission calls home: on this machine by its file, elsewhere by public addresses."""
    if service.pinned_to_host:
        return KeeperAccess(urls=addresses.server_urls(), token=token, url_file=addresses.address_file(),
                            ca_file=settings.CA_FILE)
    # never our loopback address: on another machine somebody else may listen there and would be sent the token
    return KeeperAccess(urls=addresses.keeper_urls(experiment.callback_url), token=token, ca_file=settings.CA_FILE)


def first_parameters(trials: Collection[int]) -> dict[int, TrialParameters]:
    """What these trials are begun with, by primary key. One query."""
    return {row.trial_id: row for row in TrialParameters.objects.filter(trial__in=trials, index=0)}


def application_form(attempt: Attempt, first: TrialParameters | None, service: type[TrainingService],
                     access: KeeperAccess) -> JobApplicationForm:
    """The form of an attempt; the same for each submission but for the keeper's token. ``first``: what the trial is
    begun with."""
    trial: Trial = attempt.trial
    experiment = trial.experiment
    options = service.options_model.model_validate(options_on(experiment, attempt.cluster_id))
    return JobApplicationForm(
        job_name=attempt.job_name,
        trial_job_id=trial.public_id,
        experiment_id=experiment.public_id,
        sequence_id=trial.sequence_id,
        hyper_parameters=HyperParameters(given_text(
            experiment, first, source="algorithm" if trial.ask_number is not None else "customized")),
        command=experiment.trial_command,
        keeper=access,
        code=trial_code(experiment),
        gpu_number=options.gpus_of_a_node(gpu_number_on(experiment, attempt.cluster_id)),
        gpu_demand=gpu_demand(attempt),
        cpu_number=options.cpus_of_a_node(),
        memory_bytes=options.memory_of_a_node(),
        environment=_environment(trial),
        options=options,
        limits=TrialLimits(max_trial_duration=_time_left(attempt)),
        multi_phase=experiment.multi_phase,
        keep_files=tuple(experiment.keep_files),
        priority=experiment.priority,
        checkpoints=checkpoints_document(attempt, service, options),
        warm_start=_warm_start(experiment),
        parameter_names=_parameter_names(experiment),
        metrics=_metrics(experiment),
        stays_for=stays_for(experiment, attempt.cluster_id, service, options),
        variant=None if trial.variant_id is None or trial.variant is None else for_platforms(trial.variant),
    )


def _parameter_names(experiment: Experiment) -> tuple[str, ...]:
    """Those that a command may name and a trial may lack."""
    found = names_in_space(experiment.search_space or {})
    return tuple(found) if any("." in name for name in found) else ()


def _metrics(experiment: Experiment) -> contract.MetricsDocument | None:
    """What the keeper is told of the section ``metrics``."""
    asked = experiment.config.get("metrics")
    if not asked:
        return None
    return cast(contract.MetricsDocument, {**asked, "main": main_metric(experiment.objectives),
                                           "greater_is_better": experiment.optimize_mode != "minimize"})


def stays_for(experiment: Experiment, cluster_pk: int | None, service: type[TrainingService],
              options: TrialOptions | None = None) -> float | None:
    """Seconds for which a job of the experiment waits for another trial when its trial has ended; None: it ends, too.

    ``options``: of the experiment's trials on that cluster, where they were read already.
    """
    said = options_on(experiment, cluster_pk)
    if not said.get("reuseMode") or not service.has_places or experiment.multi_phase:
        return None
    options = options or service.options_model.model_validate(said)
    return options.stays_for() if options.keepers_may_call() else None


def _warm_start(experiment: Experiment) -> bool | tuple[str, ...]:
    asked = experiment.config.get("warmStart") or False
    return tuple(asked) if isinstance(asked, list) else bool(asked)


def _time_left(attempt: Attempt) -> float | None:
    """Seconds the trial may run, None without a limit: how long it ran before it was frozen counts, too."""
    limit = attempt.trial.experiment.max_trial_duration
    if limit is None or attempt.number == 1:
        return limit
    ran = Attempt.objects.filter(trial=attempt.trial_id, number__lt=attempt.number, end_reason=contract.FROZEN
                                 ).aggregate(seconds=Sum("duration"))["seconds"]
    return max(1.0, limit - (ran or 0.0))


def checkpoints_document(attempt: Attempt, service: type[TrainingService], options: TrialOptions
                         ) -> contract.CheckpointsDocument | None:
    """What the keeper is told of checkpoints. One question, none for the first attempt of a trial that continues none.
    """
    asked = checkpoints_of(attempt.trial.experiment)
    if asked is None or not service.keepers_report or not options.keepers_may_call():
        return None
    document: contract.CheckpointsDocument = {
        "max_bytes": asked.max_bytes, "bytes_per_second": asked.bytes_per_second, "grace": asked.grace,
        "signal": asked.signal, "asks_anew": service.suspends_jobs,
        "resume": [_known(one) for one in to_resume(attempt)]}
    if keepers_hand_on(attempt.trial.experiment):
        document["folders"] = {"load_parameter": LOAD_KEY, "save_parameter": SAVE_KEY,
                               "load": [_known(one) for one in to_load(attempt.trial)]}
    return document


def _known(checkpoint: Checkpoint) -> contract.KnownCheckpoint:
    return {"id": checkpoint.manifest, "name": checkpoint.name, "step": checkpoint.step, "size": checkpoint.size}


def _environment(trial: Trial) -> dict[str, str]:
    """The experiment's variables, and those of a replicate."""
    variables = dict(trial.experiment.config.get("environment") or {})
    if trial.seed is not None:
        variables |= {SEED_VARIABLE: str(trial.seed), REPLICATE_VARIABLE: str(trial.replicate or 0)}
    return variables


def form_without_token(attempt: Attempt, first: TrialParameters | None, service: type[TrainingService]
                       ) -> JobApplicationForm:
    """The form of an attempt whose keeper has its token already."""
    return application_form(attempt, first, service, KeeperAccess(urls=(), token=""))


def job_detail(attempt: Attempt, first: TrialParameters | None, service: type[TrainingService]) -> TrialJobDetail:
    """What is known of an attempt that was submitted; its form holds no token."""
    trial: Trial = attempt.trial
    return TrialJobDetail(
        id=attempt.job_name, status=TrialJobStatus(trial.status),
        form=form_without_token(attempt, first, service),
        submit_time=(attempt.submitted_at or attempt.created_at).timestamp(),
        start_time=attempt.started_at.timestamp() if attempt.started_at else None,
        url=attempt.url, working_directory=attempt.working_directory,
        is_early_stopped=None if trial.target == TrialTarget.RUN else trial.target == TrialTarget.EARLY_STOPPED,
        message=trial.message, machine=attempt.machine_name,
        gpu_indices=None if attempt.gpu_indices is None else tuple(attempt.gpu_indices),
        platform_state=attempt.platform_state)


def trial_code(experiment: Experiment) -> TrialCode | None:
    """Where the experiment's code is; None where it has none."""
    archive = experiment.code
    if archive is None and not experiment.code_folder:
        return None
    return TrialCode(
        folder=Path(experiment.code_folder) if experiment.code_folder else None,
        archive=code_archives.local_path(archive) if archive else None,
        sha256=archive.sha256 if archive else None,
    )
