"""An experiment: what is searched, how far it is, what is wanted of it."""


from django.contrib.auth.models import Group
from django.db import models

from nniweb.experiments.secrets.sealing import SealedField
from nniweb.experiments.sql.public_id import new_public_id
from nniweb.tuning.algorithms import EXTERNAL

from .cluster import Cluster


class ExperimentStatus(models.TextChoices):
    INITIALIZED = "INITIALIZED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    NO_MORE_TRIAL = "NO_MORE_TRIAL"
    TUNER_NO_MORE_TRIAL = "TUNER_NO_MORE_TRIAL"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DONE = "DONE"
    ERROR = "ERROR"


class ExperimentTarget(models.TextChoices):
    RUN = "RUN"
    PAUSE = "PAUSE"
    STOP = "STOP"


class CodeArchive(models.Model):
    """A code folder as it was at launch: ``code/<sha256>.tar.gz`` in Django's default storage."""

    sha256 = models.CharField(max_length=64, unique=True)
    size = models.BigIntegerField()
    file_count = models.PositiveIntegerField(default=0)
    storage_path = models.CharField(max_length=200)
    last_used = models.DateTimeField()


class CodeVariant(models.Model):
    """A variant of one code archive: ``variants/<sha256>.json`` in Django's default storage, whose content is what
    ``trainingservice.variants.code_variant.stored_form`` says. Trials with the same changes to the same code share it.
    """

    #: Of the text that keepers get.
    sha256 = models.CharField(max_length=64, unique=True)
    #: Bytes of the stored file, and of the changed files after the change.
    size = models.BigIntegerField()
    changed_bytes = models.BigIntegerField()
    file_count = models.PositiveIntegerField()
    storage_path = models.CharField(max_length=200)
    last_used = models.DateTimeField()
    #: When the file was removed, because retention had removed the code of all experiments with such trials; None: not.
    removed_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.sha256[:12]


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def unfinished(self) -> "ExperimentQuerySet":
        """Those a worker has something to do for."""
        return self.filter(status__in=UNFINISHED_EXPERIMENTS)


#: Statuses in which trials may run or start.
UNFINISHED_EXPERIMENTS = (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING, ExperimentStatus.PAUSED,
                          ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL,
                          ExperimentStatus.STOPPING)


class Experiment(models.Model):
    class OptimizeMode(models.TextChoices):
        MAXIMIZE = "maximize"
        MINIMIZE = "minimize"

    public_id = models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)
    #: The id it had elsewhere, where it was imported.
    foreign_id = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=255)
    description = models.TextField(blank=True)
    owner = models.ForeignKey("experiments.User", models.SET_NULL, null=True, related_name="experiments")
    group = models.ForeignKey(Group, models.SET_NULL, null=True, blank=True, related_name="+")
    #: The API token by which it was launched; None where a person did, or the token is gone.
    token = models.ForeignKey("experiments.ApiToken", models.SET_NULL, null=True, editable=False,
                              related_name="experiments")
    #: Its home: the worker of this cluster asks the tuner, makes the trials and places them.
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="experiments")
    #: Whether its trials may run on further clusters: those of its ``ExperimentCluster`` rows.
    several_clusters = models.BooleanField(default=False, editable=False)
    tags = models.JSONField(default=list, blank=True)

    status = models.CharField(max_length=20, choices=ExperimentStatus.choices, default=ExperimentStatus.INITIALIZED)
    target = models.CharField(max_length=5, choices=ExperimentTarget.choices, default=ExperimentTarget.RUN)
    message = models.TextField(blank=True)
    #: Its code (``trainingservice.reasons``), "" where there is no message, and what the code needs besides.
    reason = models.CharField(max_length=32, blank=True, default="", editable=False)
    reason_arguments = models.JSONField(default=dict, editable=False)
    archived = models.BooleanField(default=False)
    #: Set when somebody deleted it: out of sight at once, removed by the worker.
    deleted_at = models.DateTimeField(null=True)
    #: When the rows of a deleted one were gone; then what it left on its platform is removed, and last this row.
    rows_removed_at = models.DateTimeField(null=True, editable=False)
    #: How often the platform was asked to in vain (before that: to remove its ended jobs), and the time before which it
    #: is not asked again.
    cleanup_tries = models.PositiveIntegerField(default=0, editable=False)
    cleanup_after = models.DateTimeField(null=True, editable=False)

    search_space = models.JSONField()
    #: Grows when the search space is changed while running.
    search_space_version = models.PositiveIntegerField(default=0)
    #: {"name", "class_args"} or {"class_name", "code_directory", "class_args", "multi_thread"}; of a class that is
    #: registered on the server {"class_name", "registered_as", "validator", "class_args"}; of a tuner that
    #: hears the last results of trials that were stopped early, "include_intermediate_results", too
    tuner = models.JSONField()
    #: Of a tuner that chooses among others: {"tuner": the name of the one that proposes now, "reason": {"code", ...}}.
    tuner_choice = models.JSONField(null=True, editable=False)
    assessor = models.JSONField(null=True)
    #: Of the main metric, the first objective.
    optimize_mode = models.CharField(max_length=8, choices=OptimizeMode.choices)
    #: [{"metric", "optimize_mode"}], the main one first; empty: the one that NNI has, "default".
    objectives = models.JSONField(default=list, blank=True)
    #: Expressions over parameters: no trial runs with those that break one.
    constraints = models.JSONField(default=list, blank=True)
    #: Expressions over the metrics of final results: those that satisfy all of them go first.
    outcome_constraints = models.JSONField(default=list, blank=True)
    seed = models.BigIntegerField()
    #: {"n", "seeds" (where the file gives them), "racing"} where each proposal is run n times, more than once; else {}.
    replicates = models.JSONField(default=dict, editable=False)

    trial_command = models.TextField()
    trial_options = models.JSONField(default=dict)
    trial_gpu_number = models.PositiveIntegerField(null=True)
    #: GPUs that one trial asks for, over all its pods: what counts towards quotas.
    gpus_of_a_trial = models.PositiveIntegerField(default=0)
    #: Likewise CPUs: what counts towards budgets.
    cpus_of_a_trial = models.FloatField(default=1.0)
    #: The user's folder on this server, where there is one.
    code_folder = models.TextField(blank=True)
    code = models.ForeignKey(CodeArchive, models.PROTECT, null=True)
    #: {"url", "ref", "folder"} where the worker fetches the code; "commit" since it is there (then ``code`` is set).
    code_git = models.JSONField(null=True)
    #: Sealed; only until the code is there.
    code_git_token = SealedField(null=True)
    #: Whether a running trial may ask for further parameter sets.
    multi_phase = models.BooleanField(default=False)
    trial_concurrency = models.PositiveIntegerField()
    #: Trials of higher ones go first, and lower ones' are frozen for them.
    priority = models.SmallIntegerField(default=0)
    max_trial_number = models.PositiveIntegerField(null=True)
    max_duration = models.FloatField(null=True, help_text="Seconds of running time.")
    max_trial_duration = models.FloatField(null=True, help_text="Seconds of one trial.")
    #: {"onPlatformFailure": n, "onFailure": n, "onOutOfMemory": n}: attempts more that a trial gets (see ``retries``).
    retry = models.JSONField(default=dict)
    #: {"tellTuner": "worst" or a number, "giveUpAfter": n, "giveUpAfterEqual": n}: see ``failed_trials``.
    failed_trials = models.JSONField(default=dict)
    #: Failed trials since the last one with a result, or since a person said that it shall go on.
    failures_in_row = models.PositiveIntegerField(default=0)
    #: Glob patterns of files to keep from each trial's working directory.
    keep_files = models.JSONField(default=list)
    #: {"output" | "readings" | "files" | "code": days or "forever", "jobs": days, "forever" or "saved"}; what is left
    #: out is as in the settings.
    retention = models.JSONField(default=dict, blank=True)
    #: When the worker's upkeep looks again at what of it is to be removed; None: as soon as it can.
    look_after_at = models.DateTimeField(null=True, editable=False)
    #: When retention removed the copy of its code, and the checkpoints its trials handed on; None: not.
    code_removed_at = models.DateTimeField(null=True, editable=False)
    checkpoints_removed_at = models.DateTimeField(null=True, editable=False)
    #: The output of all trials that ended until then is in the storage of files, where that is no folder.
    output_stored_until = models.DateTimeField(null=True, editable=False)
    #: When the worker looks whether its ended jobs are to be removed from the platform; None: they are not, or not now.
    jobs_due_at = models.DateTimeField(null=True, editable=False)
    #: When ended jobs of it were removed from the platform; None: not.
    jobs_removed_at = models.DateTimeField(null=True, editable=False)
    #: How often its custom tuner or assessor has begun to receive the last results and the end, once it is over; None:
    #: they need not, or have.
    tuner_exit_tries = models.PositiveSmallIntegerField(null=True, editable=False)
    #: The file as it was given (secrets struck out), and what it was resolved to.
    config_text = models.TextField(blank=True)
    config = models.JSONField(default=dict)
    #: What the person should know about how the file was understood.
    notes = models.JSONField(default=list)
    #: Who launched it by which key of theirs: the same request again finds it (see ``launching.launched_before``).
    launch_key = models.CharField(max_length=140, null=True, unique=True, editable=False)  # noqa: DJ001  most have none
    #: Address keepers elsewhere shall call (nniManagerIp), "" = the installation's own.
    callback_url = models.CharField(max_length=300, blank=True)

    #: Loopback port at which the server on this machine answers NNI's own clients for it, without a token.
    nni_port = models.PositiveIntegerField(null=True, unique=True, editable=False)
    #: Why the server could not open it, a reason as ``as_document`` makes it; None: it could, or has not tried.
    nni_port_problem = models.JSONField(null=True, editable=False)

    next_sequence_id = models.PositiveIntegerField(default=0)
    #: How many parameter sets the tuner was asked for: the next one's parameter id.
    next_ask = models.PositiveIntegerField(default=0)
    next_tuner_event = models.PositiveIntegerField(default=0)
    revision = models.BigIntegerField(default=0)
    #: When the revision last grew, for people who look at a list; the order of changes is the revision's business.
    changed_at = models.DateTimeField(null=True)
    #: Until when a page of it counts as open; None: nobody has looked, or it makes no difference.
    watched_until = models.DateTimeField(null=True, editable=False)

    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    #: Seconds spent in ``running_time.COUNTED`` statuses up to ``running_since``.
    running_seconds = models.FloatField(default=0.0)
    running_since = models.DateTimeField(null=True)

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["cluster", "status"]), models.Index(fields=["-created_at"]),
                   models.Index(fields=["cluster", "look_after_at"], name="experiments_to_look_after"),
                   models.Index(fields=["cluster"], name="experiments_deleted",
                                condition=models.Q(deleted_at__isnull=False)),
                   models.Index(fields=["cluster"], name="experiments_with_ended_jobs",
                                condition=models.Q(jobs_due_at__isnull=False)),
                   models.Index(fields=["cluster"], name="experiments_with_tuner_exit",
                                condition=models.Q(tuner_exit_tries__isnull=False))]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"

    @property
    def has_own_tuner(self) -> bool:
        """Whether its tuner is a class of the user's own, which may be an advisor: it is told all there is."""
        return bool(self.tuner.get("class_name"))

    @property
    def has_external_tuner(self) -> bool:
        """Whether a program outside of the server proposes its parameters."""
        return bool(self.tuner.get("name") == EXTERNAL)

    @property
    def tells_all_ends(self) -> bool:
        """Whether its tuner is also told of trials that it did not propose."""
        return self.has_own_tuner or self.has_external_tuner

    @property
    def has_own_assessor(self) -> bool:
        """Whether its assessor is a class of the user's own: it is told results as they were reported."""
        return bool(self.assessor and self.assessor.get("class_name"))

    @property
    def has_several_objectives(self) -> bool:
        """Whether its best trials are a Pareto front."""
        return len(self.objectives) > 1

    @property
    def has_replicates(self) -> bool:
        """Whether each proposal is run as several trials: its best result is a mean."""
        return bool(self.replicates)

    @property
    def waits_for_code(self) -> bool:
        """Whether its code is still to be fetched: nothing of it can start before."""
        return self.code_git is not None and self.code_id is None and self.code_removed_at is None

    @property
    def waits_for_search_space(self) -> bool:
        """Whether annotations in code that is still to be fetched will make its search space."""
        return self.waits_for_code and bool(self.config.get("useAnnotation"))

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED_EXPERIMENTS


class ExperimentEvent(models.Model):
    """Who did what when, and what the worker noticed. Append-only."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=30)
    message = models.TextField(blank=True)
    actor = models.ForeignKey("experiments.User", models.SET_NULL, null=True, related_name="+")


class TunerEvent(models.Model):
    """What the tuner was asked and told, in order: from these it is rebuilt exactly. Append-only."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="tuner_events", db_index=False)
    number = models.PositiveIntegerField()
    data = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "number"], name="tuner_events_are_numbered")]
