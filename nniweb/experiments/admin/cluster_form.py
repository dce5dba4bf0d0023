"""The form of a cluster: the platform itself checks what is given; secrets go in, never out."""

import json
from typing import Any, cast

from django import forms
from django.forms.fields import InvalidJSONInput

from nniweb.experiments.clusters import editing
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.models import Cluster
from nniweb.experiments.secrets.sealing import CannotOpen
from trainingservice.errors import TrainingServiceError
from trainingservice.limited_json import JsonRefused, read_json
from trainingservice.platforms import platform_names


class SettingsField(forms.JSONField):
    """A JSON object that a person can read; an empty text is {}."""

    widget = forms.Textarea(attrs={"rows": 14, "cols": 80, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        try:
            document = read_json(value) if value else {}
        except JsonRefused as refused:
            raise forms.ValidationError(str(refused)) from None
        if not isinstance(document, dict):
            raise forms.ValidationError("must be a JSON object, such as {}.")
        return document

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What is refused is shown as it was typed."""
        try:
            return read_json(data) if data else None
        except JsonRefused:
            return InvalidJSONInput(data)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.bound_data(data, initial) != initial)

    def prepare_value(self, value: Any) -> Any:
        return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) \
            else super().prepare_value(value)


class ClusterForm(forms.ModelForm):  # type: ignore[type-arg]
    name = forms.RegexField(editing.NAME_PATTERN, max_length=100, error_messages={"invalid": editing.NAME_RULE})
    settings = SettingsField(required=False, initial=dict, help_text=(
        "A JSON object with the fields of a trainingService section, without the platform. Secrets in it are stored "
        "encrypted and are not shown again. A secret that is left out stays unchanged. A secret given as null is "
        "removed."))

    class Meta:
        model = Cluster
        fields = ["name", "platform", "settings", "owner", "group", "is_private", "enabled", "max_trials"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "platform" in self.fields:  # only of a new cluster: another platform is another cluster
            self.fields["platform"] = forms.ChoiceField(choices=[(name, name) for name in platform_names()])

    def clean(self) -> dict[str, Any]:
        data = cast(dict[str, Any], super().clean())
        settings = data.get("settings")
        if settings is None or "platform" in self.errors:
            return data
        try:
            if self.instance.pk is None:
                editing.read_settings(data["platform"], settings)
            else:
                editing.read_changed_settings(self.instance, settings)
        except ConfigInvalid as invalid:
            for error in invalid.errors:
                path = error.field.removeprefix("settings").lstrip(".")
                self.add_error("platform" if error.field == "platform" and "platform" in self.fields else "settings",
                               f"{path}: {error.message}" if path and path != "platform" else error.message)
        except (CannotOpen, TrainingServiceError) as error:
            self.add_error("settings", str(error))
        return data

    def _post_clean(self) -> None:
        # the instance keeps its stored settings (without secrets) until they are written by ``clusters``
        stored = self.instance.settings
        super()._post_clean()  # type: ignore[misc]
        self.instance.settings = stored
