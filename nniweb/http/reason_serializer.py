"""What reasons look like over REST: a code, and what the code needs besides."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from trainingservice.reasons import CODES, OTHER, PLATFORM

#: Of text that is not ours.
_OTHERS = {PLATFORM: "Text of the platform.", OTHER: "Text of a person, or of an earlier version."}
MEANINGS = {**{code: kind.meaning for code, kind in CODES.items()}, **_OTHERS}


class ReasonSerializer(serializers.Serializer[Any]):
    """Why something is as it is; its other members depend on the code."""

    code = serializers.ChoiceField(choices=sorted(MEANINGS.items()))
