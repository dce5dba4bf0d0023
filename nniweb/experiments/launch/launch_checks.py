"""What forbids a launch: rights of its person, quotas, and ways to the server or for the code that are missing."""

from typing import Any

from django.contrib.auth.models import Group

from nniweb.experiments.access import leashes
from nniweb.experiments.access.request_actor import asking_token
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.budgets.budget_settings import why_never_in_budget
from nniweb.experiments.checkpoints.checkpoint_settings import can_send_checkpoints
from nniweb.experiments.clusters import addresses
from nniweb.experiments.clusters.editing import settings_secrets
from nniweb.experiments.clusters.metadata import defaults_of
from nniweb.experiments.clusters.worker_presence import alive_workers
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.platform_section import parse_stored_section
from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_cluster import section_of
from nniweb.experiments.launch.launched_code import BroughtCode, GitCode
from nniweb.experiments.models import Cluster, User
from nniweb.experiments.quotas.launch_quotas import (
    why_no_experiment_more,
    why_not_so_many_gpus,
    why_not_this_priority,
)
from nniweb.process.process_identity import host_name
from nniweb.tuning.custom_algorithms.module_search import is_findable, is_installed_otherwise, module_folders
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.containers.options import ContainerOptions
from trainingservice.errors import PermanentError
from trainingservice.platforms import EXTRA_PLATFORMS_VARIABLE, known_platforms, load_platform
from trainingservice.reasons import Reason
from trainingservice.words.shown_value import shown
from trialkeeper import contract


def clusters_elsewhere(user: User) -> list[str]:
    """Names of the clusters that this person may launch on and whose trials do not run on the server's own machine."""
    found = visible_clusters(user).filter(enabled=True).order_by("name").values_list("name", "platform")
    return [name for name, platform in found if _is_elsewhere(platform)]


def _is_elsewhere(platform: str) -> bool:
    """False also of a platform that cannot be used here."""
    try:
        return not load_platform(platform).pinned_to_host
    except PermanentError:
        return False


def why_not_here(owner: User, platform: type[TrainingService], settings: ClusterSettings | None
                 ) -> list[tuple[str, str]]:
    """Why this person may run no trials there, whatever they ask of it: fields and sentences, [] where they may.

    ``settings``: those of an experiment that describes its platform; None where it names a cluster. It is asked before
    anything that a file names is read.
    """
    wider = _wider_token(owner)
    if not owner.may_change and wider:
        return [("", f"A token with the scope {owner.scope} cannot launch experiments. {wider}")]
    if not owner.may_change:
        return [("", "Your role is viewer, which cannot launch experiments. Ask an administrator for another role.")]
    if platform.pinned_to_host and not owner.may_run_here:
        return [("trainingService.platform",
                 f"Trials of the platform {shown(platform.platform)} run on this server's own machine, and "
                 f"{_lacks_this_machine(owner, wider)}")]
    if settings is not None and not owner.is_admin and (borrowed := settings.borrowed_from_the_server()):
        return [("trainingService",
                 f"These settings use a resource of the server's own user ({borrowed}), which only administrators may "
                 "do. Give a password for each machine, or use a cluster that an administrator has set up."
                 + (f" {wider}" if wider else ""))]
    return []


def _lacks_this_machine(owner: User, wider: str) -> str:
    """What is missing, who gives it and where: the right of a person, which tokens with a leash need as well."""
    right = (f'"{User._meta.get_field("local_users").verbose_name}" (local_users). Administrators give it, also to '
             f"themselves: on the page of {owner.username} in the admin, or with PATCH /api/v1/users/{owner.pk}/.")
    if leashes.present() is not None:
        return (f"a token with a leash may run them there only if {owner.username} has the right {right} Or choose "
                "another platform.")
    if wider:
        return (f"a token with the scope {owner.scope} may not run them there. {wider} Or give {owner.username} the "
                f"right {right} Or choose another platform.")
    return ("you do not have the permission to run trials there. Choose another platform, or ask an administrator for "
            "the permission.")


def _wider_token(owner: User) -> str:
    """What a person is told whose token alone is in the way, "" for everybody else. Whoever gave a token a leash does
    not want its program to have one without.
    """
    scope = owner.needs_scope if leashes.present() is None else None
    return f"Make a token with the scope {scope} on the page Account, and use that one." if scope else ""


def check_that_workers_know(platform: str) -> None:
    """Raises Refused where workers are alive and none of them has this platform, which this process knows: a command
    runs in the environment of its shell, and trials are submitted in the worker's.
    """
    known = list(alive_workers().values_list("platforms", flat=True))
    if not known or any(names is None or platform in names for names in known):
        return
    target = known_platforms().get(platform, "module:Class")
    raise Refused(f"The running server does not have the platform {shown(platform)}. It is known only where this "
                  "launch was "
                  "checked. Install its package in the Python environment of the server, or start the server with "
                  f"{EXTRA_PLATFORMS_VARIABLE}={platform}={target}. Then restart the server.",
                  "trainingService.platform")


def check_that_workers_import(settings: ExperimentSettings) -> None:
    """Raises Refused where the class of a tuner or assessor is found on this host by this process and by none of the
    workers here: a command runs in the environment of its shell, and tuners run in the worker's.
    """
    here: list[list[str]] = []
    for host, folders in alive_workers().values_list("host", "module_folders"):
        if host != host_name() or folders is None:
            return  # it may find more than can be seen from here
        here.append(folders)
    if not here:
        return
    for section, algorithm in (("tuner", settings.tuner), ("assessor", settings.assessor)):
        if algorithm is None or not algorithm.class_name or algorithm.code_directory is not None:
            continue
        module = algorithm.class_name.rpartition(".")[0]
        if module.split(".")[0] == "nni" or is_installed_otherwise(module) \
                or any(is_findable(module, folders) for folders in here):
            continue
        field, name = ("className", algorithm.class_name) if not algorithm.registered_as else (
            "name", f"{algorithm.registered_as}, which is registered with the class {algorithm.class_name}")
        known = " It is known only where this launch was checked." if is_findable(module, module_folders()) else ""
        raise Refused(f"The running server does not find the module {module} of {name}.{known} Install it in the "
                      "Python environment of the server, or start the server with the module's folder in PYTHONPATH.",
                      f"{section}.{field}")


def may_use(platform: type[TrainingService], options: TrialOptions, owner: User) -> None:
    """Whether this person may run trials with these options there. Raises Refused, with the field at fault."""
    if problems := why_not_here(owner, platform, None):
        raise Refused.for_fields(problems)
    if not platform.pinned_to_host or owner.may_run_here_as(options.os_user()):
        return
    mine = owner.own_local_users
    raise Refused((f"On this server's own machine you may not run trials as {shown(options.os_user())}"
                   if options.os_user() else "On this server's own machine you may not run trials as the server's user")
                  + f", only as {' or '.join(mine)}. Write runAs: {mine[0]}.", "trainingService.runAs")


def check_own_algorithms(settings: ExperimentSettings, owner: User) -> None:
    """Raises Refused for a tuner or assessor of one's own by who is no administrator. One that is registered on this
    server was chosen by who runs it.
    """
    for section, algorithm in (("tuner", settings.tuner), ("assessor", settings.assessor)):
        if algorithm is not None and algorithm.class_name and not algorithm.registered_as and not owner.is_admin:
            raise Refused(f"A custom {section} runs on this server as the server's user, so only administrators may "
                          f"use one. Choose a built-in {section} by its name. {_wider_token(owner)}".rstrip(),
                          f"{section}.className")


def check_git_access(code: BroughtCode | None, owner: User) -> None:
    """Raises Refused for a repository over ssh by who is no administrator."""
    if isinstance(code, GitCode) and code.source.is_ssh and not owner.is_admin:
        raise Refused("With ssh, git uses the keys of the server's own user, which only administrators may do. Give an "
                      "https:// address (and a token if the repository is not public), or upload the code. "
                      f"{_wider_token(owner)}".rstrip(), "git_url")


def check_what_the_cluster_permits(platform: type[TrainingService], settings: ExperimentSettings,
                                   found: Cluster | None, options: TrialOptions, owner: User) -> None:
    """Raises Refused for what an experiment asks of its cluster beyond what the cluster's settings permit."""
    of_cluster = _settings_of_cluster(settings, found, settings_secrets(found, platform) if found is not None else {})
    if of_cluster is None:
        return
    given = platform.options_model.model_construct(**(_given_by(found, platform) if found is not None else {}))
    above = "trialOptions" if settings.training_service is None else "trainingService"
    if refused := options.refused_on(of_cluster, given, by_administrator=owner.is_admin):
        wider = _wider_token(owner)
        raise Refused.for_fields([(f"{above}.{field}", f"{said} {wider}".rstrip()) for field, said in refused])


def _given_by(cluster: Cluster, platform: type[TrainingService]) -> dict[str, Any]:
    """The options that a cluster's metadata give to experiments that leave them out."""
    try:
        options = platform.options_model.model_validate(defaults_of(cluster).options,
                                                        context={"reads_files": False, "must_exist": False})
    except ValueError:  # not whole: the experiments give the rest
        return {}
    return {name: getattr(options, name) for name in options.model_fields_set}


def check_way_home(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None) -> None:
    """Raises Refused where keepers on the platform could not call this server."""
    callback_url = settings.nni_manager_ip or ""
    if _keepers_call_home(platform, settings, found) and not addresses.keeper_urls(callback_url):
        raise Refused(Reason("not_callable", platform=platform.platform), "nniManagerIp")


def check_work_of_keepers(platform: type[TrainingService], settings: ExperimentSettings) -> None:
    """Raises Refused for files that no keeper would send, and for metrics that none would read."""
    if settings.metrics and not platform.keepers_report:
        raise Refused(f"On the platform {platform.platform} trials run without a keeper, which would read their "
                      "metrics. Remove metrics, and have the script report them.", "metrics")
    if settings.keep_files and not platform.keepers_report:
        raise Refused(f"On the platform {platform.platform} trials run without a keeper, which would send their files. "
                      "Remove keepFiles, and have the trial's command keep what it writes.", "keepFiles")


def check_checkpoints(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None,
                      options: TrialOptions) -> None:
    """Raises Refused for checkpoints that somebody asks for and no keeper would send."""
    if settings.checkpoints in (None, False):
        return
    if not keepers_can_send(platform, settings, found, options):
        raise Refused(Reason("no_checkpoints", platform=platform.platform), "checkpoints")


def check_code_variants(platform: type[TrainingService], settings: ExperimentSettings, options: TrialOptions, *,
                        has_code: bool) -> None:
    """Raises Refused for code variants where no trial could have one. ``has_code``: it came with the request."""
    if not settings.code_variants:
        return
    if not platform.takes_variants:
        raise Refused(f"Trials on the platform {platform.platform} cannot have variants of the code. Remove "
                      "codeVariants, or choose another platform.", "codeVariants")
    if options.code_in_image():
        raise Refused("The code of these trials is in their image, so a trial cannot have a variant of it. Remove "
                      "codeVariants, or codeDir.", "codeVariants")
    if not has_code and settings.trial_code_directory is None:
        raise Refused("There is no code of which trials could have variants. Give trialCodeDirectory, or upload the "
                      "code.", "codeVariants")


def check_containers(settings: ExperimentSettings, options: TrialOptions) -> None:
    """Raises Refused for what trials in an image on a machine cannot have."""
    if not isinstance(options, ContainerOptions) or options.docker_image is None:
        return
    if settings.warm_start:
        raise Refused("Trials in an image (dockerImage) cannot be forked from a process of the machine. Remove "
                      "warmStart or dockerImage.", "warmStart")
    if settings.metrics and settings.metrics.get("mlflow") and options.network != contract.HOST_NETWORK:
        raise Refused("The trial's MLflow server is on the machine's own loopback address, which a container with a "
                      "network of its own does not reach. Write containerNetwork: host, or remove mlflow.", "metrics")


def keepers_can_send(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None,
                     options: TrialOptions) -> bool:
    """Whether keepers would send checkpoints, and are to."""
    has_address = bool(addresses.keeper_urls(settings.nni_manager_ip or ""))
    return settings.checkpoints is not False and can_send_checkpoints(
        platform, _settings_of_cluster(settings, found), options, has_address)


def _keepers_call_home(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None) -> bool:
    if not platform.keepers_report:
        return False
    of_cluster = _settings_of_cluster(settings, found)
    if not platform.needs_public_url:
        return of_cluster is not None and of_cluster.must_call_home()
    return of_cluster is None or of_cluster.keepers_call_home()


def check_way_for_code(settings: ExperimentSettings, found: Cluster | None, code: BroughtCode | None) -> None:
    """Raises Refused where there is code and no way by which it could reach trials."""
    of_cluster = _settings_of_cluster(settings, found)
    if (code is not None or settings.trial_code_directory is not None) and of_cluster is not None \
            and (problem := of_cluster.lacks_way_for_code()):
        raise Refused(problem, "trialCodeDirectory")


def _settings_of_cluster(settings: ExperimentSettings, found: Cluster | None,
                         secrets: dict[str, str] | None = None) -> ClusterSettings | None:
    """None where they cannot be made of what is stored: without its ``secrets`` nothing else can be missing."""
    try:
        section = parse_stored_section({"platform": found.platform, **found.settings}, secrets or {}) if found else \
            section_of(settings)
    except ConfigInvalid:
        return None
    return section.settings


def check_quotas(options: TrialOptions, settings: ExperimentSettings, owner: User, group: Group | None) -> None:
    """Whether quotas and budgets leave room for one more experiment. In a transaction. Raises Refused."""
    if reason := why_no_experiment_more(owner, group):
        raise Refused(reason)
    if reason := why_not_so_many_gpus(owner, group, options.gpus_of_a_trial(settings.trial_gpu_number)):
        raise Refused(reason, "trialGpuNumber")
    if reason := why_not_this_priority(owner, group, settings.priority):
        raise Refused(reason, "priority")
    token = asking_token()
    if reason := why_never_in_budget(owner.pk, group.pk if group is not None else None,
                                     token.pk if token is not None else None,
                                     options.gpus_of_a_trial(settings.trial_gpu_number)):
        raise Refused(reason)
