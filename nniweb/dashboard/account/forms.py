"""Forms of one's account: the password, the e-mail address."""

from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.core.exceptions import NON_FIELD_ERRORS

from nniweb.experiments.access import sign_in_attempts
from nniweb.experiments.models import User


class EmailForm(forms.Form):
    """The new address, and the password of whoever has one."""

    email = forms.EmailField(label="New address", max_length=254)

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data, auto_id="id_email_%s")
        self._user = user
        if user.has_usable_password():
            self.fields["password"] = forms.CharField(
                label="Your password", strip=False,
                widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}))

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        if not self._user.check_password(password):  # counted: guessing is as slow as at the door
            raise forms.ValidationError("This is not your password.")
        return password


def is_valid(form: forms.Form) -> bool:
    """Whether the form is valid, where it may ask for the present password: guessing is as slow as at the door, so that
    a browser that somebody left open does not tell it.
    """
    try:
        return form.is_valid()
    except sign_in_attempts.TooManyAttempts:
        form.is_bound = False  # what was typed was not even tried
        form.full_clean()
        form.errors[NON_FIELD_ERRORS] = form.error_class(
            ["Too many attempts have failed. Try again in a quarter of an hour, or use a sign-in link."])
        return False


def password_form(user: User, data: Any = None) -> SetPasswordForm:  # type: ignore[type-arg]  # not when running
    """Asks for the old password where there is one: who came by a link may have none."""
    return (PasswordChangeForm if user.has_usable_password() else SetPasswordForm)(user, data)
