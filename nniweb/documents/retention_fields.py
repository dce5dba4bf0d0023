"""For how long what is not a result is kept, over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nniweb.experiments.retention.policy import FOREVER, LONGEST_DAYS, SAVED
from nniweb.http.fields import StrictSerializer


def _schema(*words: str) -> dict[str, Any]:
    return {"oneOf": [{"type": "integer", "minimum": 1, "maximum": LONGEST_DAYS},
                      {"type": "string", "enum": list(words)}], "nullable": True}


@extend_schema_field(_schema(FOREVER))
class DaysField(serializers.Field[Any, Any, Any, Any]):
    """A number of days, or "forever"."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, allow_null=True, **kwargs)

    def to_internal_value(self, data: Any) -> int | str:
        if data == FOREVER or (type(data) is int and 1 <= data <= LONGEST_DAYS):
            return data  # type: ignore[no-any-return]
        raise serializers.ValidationError(
            f"{self.field_name} must be a whole number of days from 1 to {LONGEST_DAYS}, or the word {FOREVER}.")

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(_schema(FOREVER, SAVED))
class JobsField(DaysField):
    """A number of days, "forever" or "saved"."""

    def to_internal_value(self, data: Any) -> int | str:
        if data == SAVED:
            return SAVED
        try:
            return super().to_internal_value(data)
        except serializers.ValidationError:
            raise serializers.ValidationError(
                f"{self.field_name} must be a whole number of days from 1 to {LONGEST_DAYS}, or one of the words "
                f"{FOREVER} and {SAVED}.") from None


class RetentionSerializer(StrictSerializer):
    """Days, or "forever"; null: as the server has it for all experiments."""

    output = DaysField(help_text="Output of trials, counted from the trial's end.")
    readings = DaysField(help_text="Intermediate results and resource samples, counted from the trial's end.")
    files = DaysField(help_text="Kept files, counted from the trial's end; checkpoints, counted from the experiment's "
                                "end.")
    code = DaysField(help_text="The copy of the code, counted from the experiment's end.")
    jobs = JobsField(help_text=(
        "Objects of ended trials on Kubernetes with their logs, counted from the experiment's end. saved: until the "
        "experiment has ended; those stay whose logs or volumes have something that the server does not have."))


class RetentionField(RetentionSerializer):
    """As ``Experiment.retention`` has it."""

    def to_internal_value(self, data: Any) -> dict[str, int | str]:
        given = super().to_internal_value(data)
        return {kind: value for kind, value in given.items() if value is not None}


class DaysKeptSerializer(serializers.Serializer[Any]):
    """Days; null: for ever."""

    output = serializers.IntegerField(allow_null=True)
    readings = serializers.IntegerField(allow_null=True)
    files = serializers.IntegerField(allow_null=True)
    code = serializers.IntegerField(allow_null=True)
