"""Trials, the attempts to run them, and the places where attempts share a job."""

from django.db import models
from django.db.models import Q

from nniweb.experiments.sql.exact_text import ExactTextField
from nniweb.experiments.sql.public_id import new_public_id
from trainingservice.trial_job_status import ENDS, UNFINISHED, TrialJobStatus

from .cluster import Cluster, Machine
from .experiment import Experiment
from .proposal import Proposal

TRIAL_STATUSES = [(status.value, status.value) for status in TrialJobStatus]
#: Ends whose final value is a result: a failed trial's is not.
RESULTS = (TrialJobStatus.SUCCEEDED.value, TrialJobStatus.EARLY_STOPPED.value)
#: Reason of a trial that never ran, because its tuner proposed what a constraint forbids. It cannot run again either.
CONSTRAINT_BROKEN = "constraint_broken"


def counts_for_best(prefix: str = "") -> Q:
    """Condition of trials whose result may be the best: one that breaks a constraint on outcomes may not, nor one of
    which that is not known. ``prefix``: the way to the trial, such as ``trial__``.
    """
    return Q(**{f"{prefix}status__in": RESULTS, f"{prefix}final_number__isnull": False}) \
        & ~Q(**{f"{prefix}feasible": False})


class TrialTarget(models.TextChoices):
    RUN = "RUN"
    USER_CANCELED = "USER_CANCELED"
    EARLY_STOPPED = "EARLY_STOPPED"
    SYS_CANCELED = "SYS_CANCELED"
    #: To wait, without an attempt: until somebody thaws it, until its experiment is resumed, until there is room.
    FROZEN = "FROZEN"
    HELD = "HELD"
    PREEMPTED = "PREEMPTED"


#: Targets with which a trial goes on later, from its last checkpoint; and those with which it ends.
RESTS = frozenset({TrialTarget.FROZEN, TrialTarget.HELD, TrialTarget.PREEMPTED})
STOPS = frozenset({TrialTarget.USER_CANCELED, TrialTarget.EARLY_STOPPED, TrialTarget.SYS_CANCELED})


class TrialSource(models.TextChoices):
    TUNER = "tuner"
    CUSTOMIZED = "customized"
    RERUN = "rerun"


class TrialQuerySet(models.QuerySet["Trial"]):
    def unfinished(self) -> "TrialQuerySet":
        return self.filter(status__in=[status.value for status in UNFINISHED])

    def finished(self) -> "TrialQuerySet":
        return self.filter(status__in=[status.value for status in ENDS])

    def without_attempt(self) -> "TrialQuerySet":
        """Those that nothing was submitted for, or whose attempts have all ended. Not for subqueries. Written as the
        index ``attempts_unfinished`` has it.
        """
        return self.extra(where=[  # type: ignore[return-value]  # the stubs forget of which class it is
            "NOT EXISTS (SELECT 1 FROM experiments_attempt under_way WHERE under_way.trial_id = experiments_trial.id"
            " AND under_way.stage IN ('submitting', 'submitted'))"])

    def not_taught(self) -> "TrialQuerySet":
        """Ended trials the tuner has not been told of. Asked for by what they are not, or SQLite would look at all
        that ended and not at the index ``trials_not_taught``.
        """
        return self.filter(taught=False).exclude(status__in=[status.value for status in UNFINISHED])


class Trial(models.Model):
    """One set of hyper-parameters and what became of it. ``status`` is written by ``transitions`` alone."""

    public_id = models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)
    foreign_id = models.CharField(max_length=64, blank=True)
    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="trials")
    sequence_id = models.PositiveIntegerField()
    status = models.CharField(max_length=13, choices=TRIAL_STATUSES, default=TrialJobStatus.WAITING.value)
    target = models.CharField(max_length=13, choices=TrialTarget.choices, default=TrialTarget.RUN)
    source = models.CharField(max_length=10, choices=TrialSource.choices, default=TrialSource.TUNER)
    #: The API token by which it was asked for; None where a person or the tuner did: then its experiment's counts.
    token = models.ForeignKey("experiments.ApiToken", models.SET_NULL, null=True, editable=False, related_name="trials",
                              db_index=False)
    rerun_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="reruns")
    #: Files that it has instead of those of the experiment's code; None: it runs the code as it is.
    variant = models.ForeignKey("experiments.CodeVariant", models.PROTECT, null=True, related_name="trials",
                                editable=False, db_index=False)
    #: The tuner's number of this parameter set; None for those it was not asked for.
    ask_number = models.PositiveIntegerField(null=True)
    #: The trial that it goes on with, by its tuner: from that one's latest checkpoint, where it has one.
    continues = models.ForeignKey("self", models.SET_NULL, null=True, related_name="continued_by", editable=False,
                                  db_index=False)
    #: Of an experiment with replicates: what it is a run of, the index among its replicates, and the seed it is given.
    #: A rerun has them of the trial that it repeats.
    proposal = models.ForeignKey(Proposal, models.SET_NULL, null=True, related_name="trials", editable=False,
                                 db_index=False)
    replicate = models.PositiveIntegerField(null=True, editable=False)
    seed = models.BigIntegerField(null=True, editable=False)
    #: What it counts in the mean of its proposal since its end; None where it does not count.
    counted_value = models.FloatField(null=True, editable=False)
    tags = models.JSONField(default=list)
    #: Why it waits, why it failed.
    message = models.TextField(blank=True)
    #: Its code (``trainingservice.reasons``), "" where there is no message, and what the code needs besides.
    reason = models.CharField(max_length=32, blank=True, default="", editable=False)
    reason_arguments = models.JSONField(default=dict, editable=False)
    #: Of a failed one: the same as of those that failed alike (``nniweb.experiments.failure_key``).
    failure = models.CharField(max_length=12, null=True, editable=False)  # noqa: DJ001  most have none
    #: Its result; with several parameter sets that of the best of them, which is ``result_index``.
    final_value = ExactTextField(null=True)
    final_number = models.FloatField(null=True)
    result_index = models.PositiveIntegerField(default=0)
    #: How many parameter sets it was given.
    parameter_set_count = models.PositiveIntegerField(default=1)
    #: The latest intermediate result, for tables.
    latest_number = models.FloatField(null=True)
    intermediate_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    submitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    #: Whether the tuner was told the end.
    taught = models.BooleanField(default=False)
    #: No other trial is better in one objective and as good in all others; only with several objectives.
    on_front = models.BooleanField(default=False)
    #: Whether its result satisfies the experiment's constraints on outcomes; False as long as that is not known, None
    #: where there are none. Results that count are those where it is not False.
    feasible = models.BooleanField(null=True, editable=False)
    revision = models.BigIntegerField(default=0)
    #: Until when a page of it counts as open; None: nobody has looked, or it makes no difference.
    watched_until = models.DateTimeField(null=True, editable=False)
    #: When retention removed what it wrote, its intermediate results and readings, its kept files; None: not (yet).
    #: ``retention.NOTHING_THERE`` where there was nothing.
    output_removed_at = models.DateTimeField(null=True, editable=False)
    readings_removed_at = models.DateTimeField(null=True, editable=False)
    files_removed_at = models.DateTimeField(null=True, editable=False)

    objects = TrialQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "sequence_id"], name="one_trial_per_sequence_id"),
        ]
        indexes = [
            models.Index(fields=["experiment", "revision"]),
            models.Index(fields=["experiment", "status"]),
            models.Index(fields=["experiment", "final_number"]),
            # what a round looks at stays small however long the history is
            models.Index(fields=["experiment"], name="trials_unfinished",
                         condition=Q(status__in=sorted(status.value for status in UNFINISHED))),
            models.Index(fields=["experiment"], name="trials_not_taught", condition=Q(taught=False)),
            models.Index(fields=["experiment"], name="trials_on_front", condition=Q(on_front=True)),
            # failures are counted by it alone
            models.Index(fields=["experiment", "failure", "sequence_id"], name="trials_by_failure",
                         condition=Q(failure__isnull=False)),
            models.Index(fields=["proposal"], name="trials_of_proposals", condition=Q(proposal__isnull=False)),
            models.Index(fields=["token"], name="trials_by_token", condition=Q(token__isnull=False)),
            models.Index(fields=["continues"], name="trials_continuing", condition=Q(continues__isnull=False)),
            models.Index(fields=["variant"], name="trials_of_variants", condition=Q(variant__isnull=False)),
            # what retention has not looked at yet, the oldest first
            *(models.Index(fields=["experiment", "ended_at"], name=f"trials_with_{kind}",
                           condition=Q((f"{kind}_removed_at", None), ended_at__isnull=False))
              for kind in ("output", "readings", "files")),
        ]

    def __str__(self) -> str:
        return f"trial {self.sequence_id} ({self.public_id})"

    @property
    def is_finished(self) -> bool:
        return TrialJobStatus(self.status).is_end


class TrialParameters(models.Model):
    """What the trial was given: one row, several in a multi-phase experiment.

    There each has its own result, the first one that was reported for it; elsewhere the result is the trial's own and
    these columns stay empty.
    """

    trial = models.ForeignKey(Trial, models.CASCADE, related_name="parameter_sets", db_index=False)
    index = models.PositiveIntegerField(default=0)
    #: JSON scalar: a number for ordinary tuners, text for some, null for hand-picked sets.
    parameter_id = models.JSONField(null=True)
    #: None where the trial asked for one more and the tuner had none.
    value = models.JSONField(null=True)
    final_value = ExactTextField(null=True)
    final_number = models.FloatField(null=True)
    #: Whether the tuner was told the result.
    taught = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trial", "index"], name="one_parameter_set_per_phase")]
        indexes = [models.Index(fields=["trial"], name="parameter_sets_not_taught",
                                condition=Q(taught=False, final_value__isnull=False))]
        ordering = ["index"]


def job_name(trial: str, number: int) -> str:
    """Name of an attempt on its platform. ``trial``: the public id; ``number``: from 1 on."""
    return trial if number == 1 else f"{trial}r{number}"


class AttemptQuerySet(models.QuerySet["Attempt"]):
    def under_way(self) -> "AttemptQuerySet":
        """Those that have not ended. Written as the index ``attempts_unfinished`` has it: with parameters in it SQLite
        would not use that index, and look at the whole history instead.
        """
        return self.extra(  # type: ignore[return-value]  # the stubs forget of which class it is
            where=["experiments_attempt.stage IN ('submitting', 'submitted')"])


class Attempt(models.Model):
    """One submission of a trial to the platform. Its end is final."""

    class Stage(models.TextChoices):
        #: Committed before the platform is called: the submission may or may not have reached it.
        SUBMITTING = "submitting"
        SUBMITTED = "submitted"
        ENDED = "ended"

    trial = models.ForeignKey(Trial, models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField(default=1)
    #: Where it runs; None: of old ones that have ended, the experiment's own cluster.
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, related_name="+", db_index=False, editable=False)
    #: Of an experiment with several clusters, why it runs there: a reason as ``as_document`` makes it.
    placement = models.JSONField(null=True, editable=False)
    #: The warm place in which it runs; of the attempt that began the place's job it is the same.
    place = models.ForeignKey("experiments.Place", models.SET_NULL, null=True, related_name="attempts", db_index=False,
                              editable=False)
    #: Primary keys of the person and the group that it is charged to, those of its experiment when it began; 0: nobody.
    #: None: an earlier version made it, and those that its experiment has are charged. See ``charged_to``.
    charged_owner_id = models.BigIntegerField(null=True, editable=False)
    charged_group_id = models.BigIntegerField(null=True, editable=False)
    #: What it asked for, of one that was under way when that was changed; None: what the experiment asks for there.
    charged_gpus = models.BigIntegerField(null=True, editable=False)
    charged_cpus = models.FloatField(null=True, editable=False)
    #: The name on the platform: the trial's id, then id + r2, r3 for retries.
    job_name = models.CharField(max_length=20, unique=True)
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.SUBMITTING)
    #: SHA-256 of the keeper's tokens; a new submission adds one.
    token_hashes = models.JSONField(default=list)
    #: The journal that owns the attempt, "" until one has reported.
    journal_id = models.CharField(max_length=64, blank=True)
    #: Addresses that its keeper was given to call, best first.
    keeper_urls = models.JSONField(default=list)
    #: Something to be said of it while it runs: {"code", "arguments"}, see ``trial_advice``.
    remark = models.JSONField(null=True)
    #: Highest journal entry committed.
    accepted = models.BigIntegerField(default=0)
    #: Bytes of metrics and output that are kept of it.
    stored_bytes = models.BigIntegerField(default=0)
    #: Highest parameter index the keeper said it holds.
    parameter_index = models.IntegerField(default=0)
    #: Index of the parameters its trial asked for last, -1 where it asked for none (multi-phase).
    awaited_index = models.IntegerField(default=-1)
    #: How many metrics came by the listener that the worker adds to its service; they are numbered by it.
    listened = models.BigIntegerField(default=0)
    platform_state = models.JSONField(default=dict)
    machine = models.ForeignKey(Machine, models.SET_NULL, null=True, related_name="attempts")
    machine_name = models.CharField(max_length=255, blank=True)
    #: On this machine identity GPUs, CPUs and memory are held while the attempt is unfinished.
    machine_identity = models.CharField(max_length=100, blank=True)
    gpu_indices = models.JSONField(null=True)
    #: Those GPUs take no other job: an earlier attempt of the trial ran out of their memory.
    gpu_alone = models.BooleanField(null=True, editable=False)
    #: Bytes that it holds of each of those GPUs, beside others; None: it holds all, or shares them by number.
    gpu_memory = models.BigIntegerField(null=True, editable=False)
    #: CPUs and bytes of main memory that it holds there, with several nodes on each of them; None: it does not say.
    held_cpus = models.FloatField(null=True, editable=False)
    held_memory = models.BigIntegerField(null=True, editable=False)
    #: What it ran out of, "gpu" or "main"; None where it did not. And the bytes of the smallest of its GPUs then.
    out_of_memory = models.CharField(max_length=4, null=True, editable=False)  # noqa: DJ001  most have none
    gpu_total = models.BigIntegerField(null=True, editable=False)
    #: The most bytes that its keeper saw it have on one of its GPUs; None where that is not known.
    gpu_peak = models.BigIntegerField(null=True, editable=False)
    working_directory = models.TextField(blank=True)
    url = models.TextField(blank=True)
    #: What the platform said last of its tags.
    tags = models.JSONField(default=list)
    #: The Python that its command runs, and its version; None where nobody has looked.
    interpreter = models.TextField(null=True, editable=False)  # noqa: DJ001  a default would copy the whole table
    interpreter_version = models.CharField(max_length=40, null=True, editable=False)  # noqa: DJ001
    exit_code = models.BigIntegerField(null=True)
    end_reason = models.CharField(max_length=20, blank=True)
    #: What the platform said of the end, mostly before the keeper's own word:
    #: {"status", "message", "code", "arguments", "exit_code", "cause", "because", "started", "ended"}; the last two in
    #: seconds since 1970, where the platform says them. And "untold" where no keeper has told the end, either.
    observed_end = models.JSONField(null=True)
    observed_end_at = models.DateTimeField(null=True)
    heard_at = models.DateTimeField(null=True)
    #: Seconds after ``heard_at`` in which its keeper was asked to report again; None: an earlier version asked it.
    report_within = models.SmallIntegerField(null=True, editable=False)
    unseen_since = models.DateTimeField(null=True)
    #: When somebody wanted the platform asked about its job now; None once that was done.
    refresh_asked_at = models.DateTimeField(null=True)
    #: When it was done the last time, and why the platform could not be asked then: {"message", "reason"}, or None.
    refreshed_at = models.DateTimeField(null=True)
    refresh_problem = models.JSONField(null=True)
    #: The checkpoint that was put back in place before its command started; None: it began from the beginning.
    resumed_from = models.ForeignKey("experiments.Checkpoint", models.SET_NULL, null=True, related_name="resumed",
                                     editable=False, db_index=False)
    #: Where its first intermediate result stands in the joined curve of the trial; None: at 0.
    first_sequence = models.BigIntegerField(null=True, editable=False)
    #: Latest readings of CPU, memory and GPUs.
    resources = models.JSONField(null=True)
    created_at = models.DateTimeField()
    submitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    #: When the server took the end: later than ``ended_at`` where the server was away.
    end_received_at = models.DateTimeField(null=True)
    #: Seconds by the keeper's monotonic clock.
    duration = models.FloatField(null=True)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trial", "number"], name="attempts_are_numbered")]
        indexes = [
            models.Index(fields=["trial"], name="attempts_unfinished",
                         condition=Q(stage__in=["submitting", "submitted"])),
            models.Index(fields=["cluster"], name="attempts_of_clusters",
                         condition=Q(stage__in=["submitting", "submitted"])),
            models.Index(fields=["machine_identity"], name="attempts_holding_gpus",
                         condition=Q(stage__in=["submitting", "submitted"], gpu_indices__isnull=False)),
            models.Index(fields=["machine_identity"], name="attempts_holding_shares",
                         condition=Q(Q(held_cpus__isnull=False) | Q(held_memory__isnull=False),
                                     stage__in=["submitting", "submitted"])),
            models.Index(fields=["trial"], name="attempts_to_refresh", condition=Q(refresh_asked_at__isnull=False)),
            models.Index(fields=["place"], name="attempts_of_places", condition=Q(place__isnull=False)),
            models.Index(fields=["resumed_from"], name="attempts_resumed", condition=Q(resumed_from__isnull=False)),
            models.Index(fields=["trial"], name="attempts_with_gpu_peaks", condition=Q(gpu_peak__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.job_name

    @property
    def runs_on(self) -> Cluster:
        """The cluster where it runs, or ran."""
        return self.cluster if self.cluster is not None else self.trial.experiment.cluster


class Place(models.Model):
    """A warm place: one job of a platform in which attempts run one after the other. It is made when its process asks
    for the first time. The worker gives it attempts, and the process fetches them with its next question.
    """

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="places", db_index=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+", db_index=False)
    #: The name of its job on the platform: that of the attempt for which the job was submitted.
    job_name = models.CharField(max_length=20)
    #: What its job was given: ``nniweb.experiments.lifecycle.places.asked_for``.
    asked_for = models.CharField(max_length=64)
    #: The id of its process.
    key = models.CharField(max_length=64)
    #: That runs here, or ran here last. Where it has ended the place waits for the next one.
    attempt = models.ForeignKey(Attempt, models.DO_NOTHING, related_name="+", db_constraint=False,
                                db_index=False)
    #: When that was meant for the place, and when its process asked last.
    given_at = models.DateTimeField()
    asked_at = models.DateTimeField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    #: Why it was given back: {"message", "reason": as ``as_document`` makes it}.
    reason = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job_name"], name="one_open_place_of_a_job",
                                               condition=Q(closed_at__isnull=True))]
        indexes = [
            models.Index(fields=["experiment"], name="places_of_experiments"),
            models.Index(fields=["cluster"], name="places_open", condition=Q(closed_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"place {self.job_name}"


class NodeBooking(models.Model):
    """What an unfinished attempt with several nodes holds on one of them, beside what rank 0 holds, which is the
    attempt's own.
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="node_bookings")
    rank = models.PositiveIntegerField()
    machine_identity = models.CharField(max_length=100, db_index=True)
    gpu_indices = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "rank"], name="one_booking_for_a_rank")]

    def __str__(self) -> str:
        return f"{self.attempt_id} rank {self.rank}"


class TrialEvent(models.Model):
    """The history of a trial: the answer to "why". Append-only."""

    trial = models.ForeignKey(Trial, models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=30)
    message = models.TextField(blank=True)
    actor = models.ForeignKey("experiments.User", models.SET_NULL, null=True, related_name="+")


#: Most characters of the key of a proposal.
LONGEST_PROPOSAL_KEY = 100


class ProposalKey(models.Model):
    """The key under which a trial was proposed: a proposal that is sent again finds its trial."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="proposal_keys", db_index=False)
    key = models.CharField(max_length=LONGEST_PROPOSAL_KEY)
    trial = models.OneToOneField(Trial, models.CASCADE, related_name="proposal_key")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "key"], name="one_trial_for_a_proposal_key")]

    def __str__(self) -> str:
        return self.key
