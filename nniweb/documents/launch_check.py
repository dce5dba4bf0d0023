"""What a checked launch looks like over REST."""

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from nniweb.documents.budgets import ForecastSerializer, forecast_document
from nniweb.documents.clusters import FindingSerializer
from nniweb.experiments.budgets.forecast_words import forecast_in_words
from nniweb.experiments.config import ParsedConfig
from nniweb.experiments.launch.launching import CheckedLaunch


class CodeSizeSerializer(serializers.Serializer[Any]):
    """Code that is packed for the trials."""

    file_count = serializers.IntegerField()
    bytes = serializers.IntegerField(help_text="Size of the files before packing.")


class CheckedLaunchSerializer(serializers.Serializer[Any]):
    """What a launch would do."""

    name = serializers.CharField()
    form = serializers.ChoiceField(choices=["v1", "v2"], help_text="The form of the config.")
    platform = serializers.CharField()
    cluster = serializers.CharField(allow_null=True, help_text=(
        "The cluster on which the experiment would run; null for a new cluster."))
    group = serializers.CharField(allow_null=True, help_text=(
        "The group whose members would see the experiment and might steer it; null: only you and administrators."))
    tuner = serializers.CharField()
    trial_concurrency = serializers.IntegerField()
    max_trial_number = serializers.IntegerField(allow_null=True)
    parameters = serializers.ListField(child=serializers.CharField(), help_text="Names in the search space.")
    search_space = serializers.DictField(help_text="The search space as it was read from the config or from a file "
                                                   "that the config names.")
    code_folder = serializers.CharField(allow_null=True, help_text="On the server.")
    code_folders = serializers.DictField(child=serializers.CharField(), help_text=(
        "Folders of roles that have code of their own: role to folder. Empty if all of the code is one folder."))
    code_size = CodeSizeSerializer(allow_null=True, help_text="null if trials run in the folder itself.")
    code_from = serializers.CharField(allow_null=True, help_text=(
        "The repository from which the code would be fetched after the launch."))
    findings = FindingSerializer(many=True)
    notes = serializers.ListField(child=serializers.CharField(), help_text="Notes on how the config is interpreted, "
                                                                           "and what the experiment is expected to "
                                                                           "take.")
    forecast = ForecastSerializer()


def check_document(parsed: ParsedConfig, checked: CheckedLaunch) -> dict[str, Any]:
    """What a launch would do, as REST and pages show it before."""
    settings = parsed.settings
    folder = settings.trial_code_directory
    return dict(CheckedLaunchSerializer({
        "name": settings.experiment_name or "experiment", "form": parsed.source_version,
        "platform": checked.platform.platform, "cluster": None if checked.cluster_is_new else checked.cluster.name,
        "group": checked.visible_to.group.name if checked.visible_to.group else None,
        "tuner": settings.tuner.name or settings.tuner.registered_as or settings.tuner.class_name or "",
        "trial_concurrency": settings.trial_concurrency, "max_trial_number": settings.max_trial_number,
        "parameters": list(settings.search_space), "search_space": settings.search_space,
        "code_folder": None if folder is None else str(folder),
        "code_folders": {part.name: part.folder for part in checked.options.code_parts()},
        "code_size": checked.code_size, "code_from": checked.code_from,
        "findings": checked.findings,
        "notes": [*parsed.notes, *checked.notes, *forecast_in_words(checked.forecast)],
        "forecast": forecast_document(checked.forecast, timezone.now())}).data)
