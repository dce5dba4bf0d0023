"""The form that makes a token: with a scope, or with a leash and its budget."""

from datetime import datetime, timedelta
from typing import Any

from django import forms

from nniweb.experiments.access import leashes
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.actions import token_making
from nniweb.experiments.budgets.spending import UNITS
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, Budget, User
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.experiments.queries.token_budgets import UNITS_IN_WORDS

#: How long a new token lives, in days; 0 for ever.
LIVES = {"0.5": "12 hours", "1": "a day", "7": "a week", "30": "30 days", "90": "90 days", "365": "a year",
         "0": "until it is removed"}
#: In place of a scope: what the roles say.
LEASH = "leash"


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, error_messages={"required": "Describe what the token is for."})
    scope = forms.ChoiceField(choices=[*Scope.choices, (LEASH, "leash: the roles and limits below")])
    lives = forms.ChoiceField(choices=list(LIVES.items()))
    roles = forms.MultipleChoiceField(choices=LeashRole.choices, required=False, widget=forms.CheckboxSelectMultiple)
    everything = forms.BooleanField(required=False)
    clusters = forms.MultipleChoiceField(required=False)
    max_trials = forms.IntegerField(required=False, min_value=1, max_value=leashes.MOST_TRIALS)
    period = forms.ChoiceField(choices=Budget.Period.choices, required=False)
    gpu_hours = forms.DecimalField(required=False, min_value=0, max_digits=16, decimal_places=4)
    cpu_hours = forms.DecimalField(required=False, min_value=0, max_digits=16, decimal_places=4)
    trials = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    wall_hours = forms.DecimalField(required=False, min_value=0, max_digits=16, decimal_places=4)
    money = forms.DecimalField(required=False, min_value=0, max_digits=16, decimal_places=4)

    def __init__(self, user: User, data: Any = None, **more: Any) -> None:
        super().__init__(data, **more)
        self._user = user
        self.fields["clusters"].choices = [  # type: ignore[attr-defined]  # a choice field
            (name, name) for name in visible_clusters(user).order_by("name").values_list("name", flat=True)]

    @property
    def has_leash(self) -> bool:
        """Whether the token is to have one: it was chosen, or roles were ticked and the scope left as it was shown."""
        scope = self["scope"].value()
        return bool(scope == LEASH or (scope == self.initial.get("scope") and self["roles"].value()))

    @property
    def roles_offered(self) -> list[tuple[LeashRole, bool]]:
        """What the person may give, and whether it is ticked."""
        ticked = self["roles"].value() or []
        return [(role, role.value in ticked) for role in LeashRole if role == LeashRole.READ or self._user.may_change]

    @property
    def amounts(self) -> list[tuple[str, str, forms.BoundField]]:
        """Limits of the budget: name, words, field."""
        return [(unit, words, self[unit]) for unit, words in UNITS_IN_WORDS.items()]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if self.has_leash and "scope" in data:
            data["scope"] = LEASH
        if data.get("scope") != LEASH and any(data.get(name) for name in ("roles", "everything", "clusters",
                                                                          "max_trials", *UNITS)):
            self.add_error("scope", "Roles and limits are those of a leash. Choose leash here, or leave them out.")
        if data.get("scope") == LEASH and not data.get("roles"):
            self.add_error("roles", "Choose at least one role.")
        return data

    def make(self, now: datetime) -> tuple[str, ApiToken] | None:
        """The secret and the token; None where that is refused: then the form says why. Of a valid form."""
        data, has_leash = self.cleaned_data, self.cleaned_data["scope"] == LEASH
        budget: dict[str, Any] = {unit: data[unit] for unit in UNITS if data[unit] is not None}
        days = float(data["lives"])
        try:
            leash = leashes.leash_of(self._user, roles=data["roles"], everything=data["everything"],
                                     clusters=data["clusters"], max_trials=data["max_trials"])
            return token_making.make_token(
                self._user, self._user, name=data["name"], scope=Scope.READ if has_leash else Scope(data["scope"]),
                expires_at=now + timedelta(days=days) if days else None, leash=leash,
                budget={"period": data["period"] or Budget.Period.TOTAL, **budget} if budget else None)
        except Refused as refused:
            for field, said in refused.errors:
                name = field.removeprefix("budget.")
                self.add_error(name if name in self.fields else None, str(said))
            return None
