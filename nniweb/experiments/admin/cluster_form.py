"""Forms of a cluster and of its metadata: the platform itself checks what is given; secrets go in, never out."""

import json
from typing import Any, cast

from django import forms

from nniweb.experiments.clusters import editing
from nniweb.experiments.clusters.editing import ClusterBusy
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, ClusterMetadata
from nniweb.experiments.secrets.sealing import CannotOpen
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform, platform_names


class SettingsField(forms.JSONField):
    """JSON that a person can read."""

    widget = forms.Textarea(attrs={"rows": 14, "cols": 80, "spellcheck": "false"})

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

    def clean_settings(self) -> dict[str, Any]:
        settings = self.cleaned_data["settings"] or {}
        if not isinstance(settings, dict):
            raise forms.ValidationError("must be a JSON object, such as {}.")
        return settings

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


class MetadataForm(forms.ModelForm):  # type: ignore[type-arg]
    """One key. Of a secret only the new value is ever in the form."""

    key = forms.ChoiceField(choices=[])
    value = forms.CharField(required=False, strip=False, widget=forms.Textarea(attrs={
        "rows": 3, "cols": 60, "spellcheck": "false", "autocomplete": "off"}))

    class Meta:
        model = ClusterMetadata
        fields = ["key", "value"]

    def __init__(self, *args: Any, cluster: Cluster | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cluster = cluster
        platform = load_platform(cluster.platform) if cluster else None
        keys = sorted(platform.metadata_keys.items()) if platform else []
        key = cast(forms.ChoiceField, self.fields["key"])
        key.choices = [(name, name) for name, _ in keys]
        key.help_text = "; ".join(f"{name}: {meaning}" for name, meaning in keys)
        if self.instance.pk is not None:
            key.disabled = True
            key.help_text = dict(keys).get(self.instance.key, "")
            if self.instance.is_secret:
                self.fields["value"].help_text = "A value is set. Leave this empty to keep it."
                self.initial["value"] = ""

    def clean(self) -> dict[str, Any]:
        data = cast(dict[str, Any], super().clean())
        if self.cluster is not None and "key" in data and self.is_new_value:
            try:
                editing.check_metadata(self.cluster, data["key"], data.get("value", ""))
            except (Refused, ClusterBusy, CannotOpen) as error:
                self.add_error("value", str(error))
        return data

    @property
    def is_new_value(self) -> bool:
        """Whether the value is to be set: an empty field of a secret leaves it as it is."""
        return self.has_changed() and bool(self.cleaned_data.get("value") or not self.instance.is_secret)

    def _post_clean(self) -> None:
        """The row is written by ``clusters``, not by the form: a secret must not get into its columns."""


class MetadataFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        cluster = self.instance if self.instance.pk is not None else None
        return {**super().get_form_kwargs(index), "cluster": cluster}

    def clean(self) -> None:
        super().clean()
        for form in self.deleted_forms:
            try:
                editing.check_metadata(self.instance, form.instance.key, None)
            except (Refused, ClusterBusy) as error:
                raise forms.ValidationError(str(error)) from None

    def save(self, commit: bool = True) -> list[Any]:
        self.new_objects: list[Any] = []
        self.changed_objects: list[Any] = []
        self.deleted_objects: list[Any] = []
        for form in self.deleted_forms:
            if form.instance.pk is not None:
                editing.remove_metadata(self.instance, form.instance.key)
                self.deleted_objects.append(form.instance)
        for form in cast(list[MetadataForm], self.forms):
            if form in self.deleted_forms or not form.is_new_value:
                continue
            editing.set_metadata(self.instance, form.cleaned_data["key"], form.cleaned_data.get("value", ""))
            row = ClusterMetadata.objects.get(cluster=self.instance, key=form.cleaned_data["key"])
            if form.instance.pk is None:
                self.new_objects.append(row)
            else:
                self.changed_objects.append((row, ["value"]))
        return []
