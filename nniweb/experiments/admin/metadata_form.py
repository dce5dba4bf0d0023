"""The form of a cluster's metadata: one row for each key; what is given is checked before anything is saved."""

import json
from typing import Any, cast

from django import forms

from nniweb.experiments.clusters.editing import ClusterBusy
from nniweb.experiments.clusters.metadata import (
    Metadatum,
    check_metadata,
    metadata_of,
    remove_metadata,
    set_metadata,
)
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, ClusterMetadata
from nniweb.experiments.secrets.sealing import CannotOpen


def readable(value: str) -> str:
    """JSON with a line for each field; other text as it is."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return json.dumps(document, indent=2, ensure_ascii=False) if isinstance(document, dict | list) else value


def without_rows(cluster: Cluster) -> list[Metadatum]:
    """The keys whose values are not, or not as such, in the table of metadata."""
    stored = {row.key for row in cluster.metadata.all()}
    return [metadatum for metadatum in metadata_of(cluster) if metadatum.key not in stored]


class ValueField(forms.CharField):
    """Text with the line breaks that browsers send."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 80, "spellcheck": "false", "autocomplete": "off"})

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial or "") != self.to_python(data or "")


class MetadataForm(forms.ModelForm):  # type: ignore[type-arg]
    """One key. Of a secret only the new value is ever in the form."""

    key = forms.ChoiceField(choices=[])
    # what the page showed: a value that somebody else has changed since is not written back
    value = ValueField(required=False, strip=False, show_hidden_initial=True)

    class Meta:
        model = ClusterMetadata
        fields = ["key", "value"]

    def __init__(self, *args: Any, cluster: Cluster | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cluster = cluster
        known = {metadatum.key: metadatum for metadatum in metadata_of(cluster)} if cluster else {}
        key = cast(forms.ChoiceField, self.fields["key"])
        key.choices = [(name, name) for name in known]
        stored = self.instance.pk is not None
        shown = known.get(self.instance.key if stored else str(self.initial.get("key", "")))
        if stored:
            key.disabled = True
        if shown is not None:
            key.help_text = shown.meaning
            if stored:
                self.initial["value"] = "" if self.instance.is_secret else readable(shown.value)
        if stored and self.instance.is_secret:
            self.fields["value"].help_text = "A value is set. Leave this empty to keep it."

    def clean(self) -> dict[str, Any]:
        data = cast(dict[str, Any], super().clean())
        if self.cluster is not None and "key" in data and self.is_new_value:
            try:
                check_metadata(self.cluster, data["key"], data.get("value") or None)
            except Refused as refused:
                for _, message in refused.errors:
                    self.add_error("value", message)
            except (ClusterBusy, CannotOpen) as error:
                self.add_error("value", str(error))
        return data

    @property
    def is_new_value(self) -> bool:
        """Whether the value is to be set, or removed: an empty field of a secret leaves it as it is."""
        return self.has_changed() and bool(self.cleaned_data.get("value") or not self.instance.is_secret)

    def _post_clean(self) -> None:
        """The row is written by ``clusters.metadata``, not by the form: a secret must not get into its columns."""


class MetadataFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.absolute_max = self.max_num  # a row for each key; whatever else a request asks for is not made

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        cluster = self.instance if self.instance.pk is not None else None
        return {**super().get_form_kwargs(index), "cluster": cluster}

    def clean(self) -> None:
        super().clean()
        for form in self.deleted_forms:
            try:
                check_metadata(self.instance, form.instance.key, None)
            except (Refused, ClusterBusy, CannotOpen) as error:
                raise forms.ValidationError(str(error)) from None

    def save(self, commit: bool = True) -> list[Any]:
        self.new_objects: list[Any] = []
        self.changed_objects: list[Any] = []
        self.deleted_objects: list[Any] = []
        for form in self.deleted_forms:
            if form.instance.pk is not None:
                remove_metadata(self.instance, form.instance.key)
                self.deleted_objects.append(form.instance)
        for form in cast(list[MetadataForm], self.forms):
            if form in self.deleted_forms or not form.is_new_value:
                continue
            key, value = form.cleaned_data["key"], form.cleaned_data.get("value", "")
            if value:
                set_metadata(self.instance, key, value)
            else:
                remove_metadata(self.instance, key)
            self.changed_objects.append((ClusterMetadata(cluster=self.instance, key=key), ["value"]))
        return []
