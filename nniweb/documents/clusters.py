"""What clusters look like over REST: never with a secret."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nniweb.documents.own_group import OwnGroupField
from nniweb.documents.reasons import reason_document
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters.editing import NAME_PATTERN, NAME_RULE
from nniweb.experiments.clusters.machine_loads import recent_load
from nniweb.experiments.clusters.metadata import metadata_of, secret_settings
from nniweb.experiments.models import Attempt, Cluster, Machine, User
from nniweb.http.fields import StrictSerializer, TrueOrFalseField
from nniweb.http.reason_serializer import ReasonSerializer


class GpuHolderSerializer(serializers.Serializer[Any]):
    """A trial that holds GPUs of a machine; whose it is only where the reader may see the experiment."""

    gpu_indices = serializers.ListField(child=serializers.IntegerField())
    trial = serializers.CharField(allow_null=True)
    experiment = serializers.CharField(allow_null=True)


class MachineLoadSerializer(serializers.Serializer[Any]):
    """Processors and memory of a machine, used by whatever runs there."""

    cpu_used = serializers.FloatField(help_text="Processors that were busy, on average over the last seconds.")
    cpu_total = serializers.FloatField(help_text="Processors of the machine.")
    memory_used = serializers.IntegerField(help_text="Bytes that new programs could not have.")
    memory_total = serializers.IntegerField(help_text="Bytes.")


class MachineSerializer(serializers.Serializer[Any]):
    """A machine as the cluster's worker last saw it."""

    name = serializers.CharField()
    identity = serializers.CharField(help_text="Equal for the same machine in every cluster.")
    gpus = serializers.ListField(source="gpu_summary", child=serializers.DictField())
    gpu_holders = serializers.SerializerMethodField()
    healthy = serializers.BooleanField()
    message = serializers.CharField()
    reason = serializers.SerializerMethodField()
    agent_state = serializers.CharField()
    way_home = serializers.CharField(help_text="How trials there reach this server.")
    load = serializers.SerializerMethodField(help_text=(
        "How busy it is; null where it is not known, or was known more than three minutes ago only."))
    seen_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(MachineLoadSerializer(allow_null=True))
    def get_load(self, machine: Machine) -> dict[str, Any] | None:
        load = recent_load(machine, timezone.now())
        return None if load is None else load.document()

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, machine: Machine) -> dict[str, Any] | None:
        return reason_document(machine.reason, machine.reason_arguments)

    @extend_schema_field(GpuHolderSerializer(many=True))
    def get_gpu_holders(self, machine: Machine) -> list[dict[str, Any]]:
        holders: list[dict[str, Any]] = self.context["holders"].get(machine.identity, [])
        return holders


class FindingSerializer(serializers.Serializer[Any]):
    """One sentence of a rehearsal."""

    check = serializers.CharField(help_text="connection, interpreter, folder, disk, gpus, way_home, trial ...")
    ok = serializers.BooleanField()
    message = serializers.CharField()
    machine = serializers.CharField()
    temporary = serializers.BooleanField(help_text="The problem may disappear without a change.")
    field = serializers.CharField(default="", help_text=(
        "The field of the settings that it is about, such as machineList[0].host; \"\" for none."))


class RehearsalSerializer(serializers.Serializer[Any]):
    """A rehearsal of before."""

    at = serializers.DateTimeField()
    findings = FindingSerializer(many=True)


class ClusterSerializer(serializers.Serializer[Any]):
    """A platform with its settings, shared by many experiments."""

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    platform = serializers.CharField()
    settings = serializers.DictField(help_text="The fields of a trainingService section, without secrets.")
    secrets_set = serializers.SerializerMethodField(help_text="Paths of the secrets in the settings that are set.")
    metadata_set = serializers.SerializerMethodField(help_text="Metadata keys that are set.")
    owner = serializers.CharField(source="owner.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.name", allow_null=True, default=None)
    is_private = serializers.BooleanField(help_text="Only the owner may use it.")
    pinned_host = serializers.CharField(help_text="The only host whose worker can run trials on it; \"\" for any host.")
    enabled = serializers.BooleanField()
    max_trials = serializers.IntegerField(
        allow_null=True, help_text="Trials at a time of all its experiments together, which share them fairly; null: "
                                   "the server sets no limit.")
    health = serializers.ChoiceField(choices=Cluster.Health.choices)
    message = serializers.CharField()
    reason = serializers.SerializerMethodField()
    machines = MachineSerializer(many=True)
    rehearsal = serializers.SerializerMethodField(
        help_text="Findings of the last full rehearsal; null before the first.")
    created_at = serializers.DateTimeField()
    settings_revision = serializers.IntegerField(help_text="Grows with each change that the worker takes up.")

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, cluster: Cluster) -> dict[str, Any] | None:
        return reason_document(cluster.reason, cluster.reason_arguments)

    @extend_schema_field(RehearsalSerializer(allow_null=True))
    def get_rehearsal(self, cluster: Cluster) -> dict[str, Any] | None:
        if cluster.rehearsal is None:
            return None
        return dict(RehearsalSerializer({"at": cluster.rehearsed_at, "findings": cluster.rehearsal}).data)

    def get_secrets_set(self, cluster: Cluster) -> list[str]:
        return secret_settings(cluster)

    def get_metadata_set(self, cluster: Cluster) -> list[str]:
        return [metadatum.key for metadatum in metadata_of(cluster) if metadatum.is_set]


class ClusterNameField(serializers.RegexField):
    """What experiment files name a cluster by."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(NAME_PATTERN, max_length=100, error_messages={"invalid": NAME_RULE}, **kwargs)


class MaxTrialsField(serializers.IntegerField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_null=True, min_value=0, max_value=2**31 - 1, help_text=(
            "Trials at a time of all its experiments together, which share them fairly; null: no limit."), **kwargs)


class TestedField(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_blank=True, max_length=2_000_000, help_text=(
            "What the check of these settings gave as tested. It is ignored where it is older than an hour, or of "
            "other settings."), **kwargs)


class NewClusterSerializer(StrictSerializer):
    """A cluster to set up."""

    name = ClusterNameField()
    platform = serializers.CharField(max_length=40)
    settings = serializers.DictField(default=dict, help_text=(
        "The fields of a trainingService section, including secrets."))
    is_private = TrueOrFalseField(default=False, help_text="For you alone.")
    group = serializers.SlugRelatedField("name", queryset=Group.objects.all(), allow_null=True, default=None,
                                         help_text="Only members of this group may use it.")
    owner = serializers.SlugRelatedField("username", queryset=User.objects.all(), allow_null=True, default=None,
                                         help_text="Default: you.")
    enabled = TrueOrFalseField(default=True)
    max_trials = MaxTrialsField(default=None)
    tested = TestedField(default="")


class ClusterChangesSerializer(StrictSerializer):
    """What can be changed of a cluster, all or nothing. Settings are replaced as a whole; secrets left out stay."""

    name = ClusterNameField(required=False)
    settings = serializers.DictField(required=False)
    enabled = TrueOrFalseField(required=False)
    max_trials = MaxTrialsField(required=False)
    group = OwnGroupField(allow_null=True, required=False, help_text=(
        "A group that you are in; any group for administrators."))
    owner = serializers.SlugRelatedField("username", queryset=User.objects.all(), allow_null=True, required=False,
                                         help_text="For administrators.")
    is_private = TrueOrFalseField(required=False, help_text=(
        "Only the owner may use it. Only administrators can set this."))
    metadata = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True, trim_whitespace=False, max_length=1_000_000),
        required=False, help_text="Metadata keys that change, with their values; null removes one. Others stay. For "
                                  "administrators.")
    tested = TestedField(required=False)


class ClusterCheckSerializer(StrictSerializer):
    """Settings to check before they are saved: of a new cluster (``platform``), or of an existing one (``cluster``)."""

    platform = serializers.CharField(max_length=40, required=False)
    cluster = serializers.CharField(max_length=40, required=False, help_text=(
        "Id of the cluster whose settings these would become. Its secrets are used where they would stay."))
    settings = serializers.DictField(default=dict)
    test = TrueOrFalseField(default=True, help_text="Also test the cluster, which may take a minute.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("platform" in attrs) == ("cluster" in attrs):
            raise serializers.ValidationError({"platform": "Give either platform, for a new cluster, or cluster."})
        return attrs


class ClusterCheckResultSerializer(serializers.Serializer[Any]):
    """Settings that can be saved."""

    secrets_set = serializers.ListField(child=serializers.CharField(), help_text=(
        "Paths of the secrets that would be set. A stored secret that is not among them would be lost."))
    findings = FindingSerializer(many=True, allow_null=True, help_text="Of the test; null where none was asked for.")
    tested = serializers.CharField(allow_blank=True, help_text=(
        "Save the same settings with this text within an hour, and the test counts as one of the cluster."))


#: Of ClusterChangesSerializer, for administrators: what these mean -> the sentence's end.
FOR_ADMINISTRATORS = {"settings": "change a cluster's settings, which may name the server's files",
                      "metadata": "change a cluster's metadata, which may name the server's files",
                      "owner": "change whose a cluster is", "is_private": "change whose a cluster is"}


class MetadataSerializer(serializers.Serializer[Any]):
    """One metadata key. The value of a secret is never shown again: it reads "set". Secrets in JSON are left out."""

    key = serializers.CharField()
    meaning = serializers.CharField()
    is_secret = serializers.BooleanField()
    is_set = serializers.BooleanField()
    value = serializers.CharField(help_text="\"\" where it is not set.")
    says_settings = serializers.ListField(child=serializers.CharField(), help_text=(
        "Fields of the settings that the key says in NNI's words. [] for none."))


class NewMetadataSerializer(StrictSerializer):
    value = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=1_000_000)


def gpu_holders(machines: Iterable[Machine], reader: User) -> dict[str, list[dict[str, Any]]]:
    """Who holds GPUs, by machine identity, over all clusters. Two queries."""
    identities = {machine.identity for machine in machines if machine.identity}
    holding = list(Attempt.objects.filter(
        machine_identity__in=identities, gpu_indices__isnull=False).exclude(stage=Attempt.Stage.ENDED).order_by("pk")
        .values_list("machine_identity", "gpu_indices", "trial__public_id", "trial__experiment__public_id"))
    visible = set(visible_experiments(reader).filter(public_id__in={row[3] for row in holding})
                  .values_list("public_id", flat=True)) if holding else set()
    holders: dict[str, list[dict[str, Any]]] = {}
    for identity, gpu_indices, trial, experiment in holding:
        shown = experiment in visible
        holders.setdefault(identity, []).append({"gpu_indices": gpu_indices, "trial": trial if shown else None,
                                                 "experiment": experiment if shown else None})
    return holders
