"""What variants of the code look like over REST: as they are given, and as they are told."""

from typing import Any

from rest_framework import serializers

from nniweb.experiments.models import CodeVariant, Trial
from nniweb.experiments.variants.shown_diff import ChangedFileShown
from nniweb.experiments.variants.unified_diff import MOST_BYTES
from nniweb.http.fields import StrictSerializer


class TextField(serializers.CharField):
    """A text as it is, with the white space at its ends."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, allow_blank=True, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):  # a number would become its digits
            self.fail("invalid")
        return str(super().to_internal_value(data))


class GivenVariantSerializer(StrictSerializer):
    """Changes to the experiment's code for one trial: a patch or whole files. The config must permit it
    (codeVariants).
    """

    patch = TextField(required=False, max_length=MOST_BYTES, help_text=(
        "A unified diff of the code, as git diff writes it."))
    files = serializers.DictField(child=TextField(allow_null=True), required=False, help_text=(
        "Path in the code -> the whole new text; null: the file is removed."))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) != 1:
            raise serializers.ValidationError("Give either patch or files.")
        return attrs


class VariantSerializer(serializers.Serializer[Any]):
    """What a trial has instead of files of its experiment's code."""

    sha256 = serializers.CharField(help_text="The same for the same changes to the same code.")
    files = serializers.IntegerField(help_text="How many are changed, added or removed.")
    bytes = serializers.IntegerField(help_text="Of the changed and added files.")


class ChangedFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    change = serializers.ChoiceField(choices=["changed", "added", "removed"])
    added_lines = serializers.IntegerField()
    removed_lines = serializers.IntegerField()
    executable = serializers.BooleanField()
    text = serializers.CharField(allow_null=True, help_text="The whole text after the change; null: it is removed.")


class VariantDetailSerializer(VariantSerializer):
    code = serializers.CharField(help_text="SHA-256 of the archive of the experiment's code that it changes.")
    diff = serializers.CharField(help_text="Unified diff from that code to the variant.")
    changed_files = ChangedFileSerializer(many=True)


def variant_document(variant: CodeVariant) -> dict[str, Any]:
    """What ``VariantSerializer`` says."""
    return {"sha256": variant.sha256, "files": variant.file_count, "bytes": variant.changed_bytes}


def variant_of(trial: Trial) -> dict[str, Any] | None:
    """The same of a trial of ``with_details``."""
    return None if trial.variant is None else variant_document(trial.variant)


def changed_file_document(shown: ChangedFileShown) -> dict[str, Any]:
    """What ``ChangedFileSerializer`` says."""
    file = shown.file
    return {"path": file.path, "change": shown.change, "added_lines": shown.added, "removed_lines": shown.removed,
            "executable": file.executable, "text": file.text}
