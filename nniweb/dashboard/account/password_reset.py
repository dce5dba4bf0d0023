"""A password that was forgotten: a link by mail with which to choose another; where no mail is set up, who can help."""

import threading
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.views import PasswordResetConfirmView, PasswordResetDoneView, PasswordResetView
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator

from nniweb.database.one_after_another import one_after_another
from nniweb.experiments.access import audit
from nniweb.experiments.access.request_actor import address_of
from nniweb.experiments.clusters.addresses import page_root
from nniweb.experiments.models import AuditEntry, User
from nniweb.process.counted_address import counted_as

ASKED = "password.reset-asked"
#: Of the threads that send.
THREAD = "password-reset-mail"
#: Requests from one address, and for one person, in the period that send mail; more are answered alike and send none.
MOST, PERIOD = 5, timedelta(hours=1)
_LOCK = 4_711_002_030


def mail_is_set_up() -> bool:
    return bool(settings.MAIL_URL)


class LinkByMail(PasswordResetForm):
    """Answers before the mail is sent: how long a mail server takes would tell that somebody has this address."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        threading.Thread(target=super().send_mail, args=args, kwargs=kwargs, name=THREAD, daemon=True).start()


@method_decorator(login_not_required, name="dispatch")
class AskForLink(PasswordResetView):
    """Answers alike whether somebody has this address or not."""

    template_name = "dashboard/password_reset.html"
    form_class = LinkByMail
    email_template_name = "dashboard/password_reset_mail.txt"
    subject_template_name = "dashboard/password_reset_subject.txt"
    http_method_names = ["get", "head", "post"]

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        return super().get_context_data(**more, mail_is_set_up=mail_is_set_up())

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not mail_is_set_up():
            return self.render_to_response(self.get_context_data(), status=409)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: PasswordResetForm) -> HttpResponse:
        known = next(iter(form.get_users(form.cleaned_data["email"])), None)
        with one_after_another(_LOCK):
            asked = AuditEntry.objects.filter(action=ASKED, at__gt=timezone.now() - PERIOD)
            # of many addresses none fills one person's mail box
            for_them = asked.filter(target=str(known.pk)).count() if isinstance(known, User) else 0
            sends = _count_of_address(asked, address_of(self.request)) < MOST and for_them < MOST
            if sends:
                audit.record(ASKED, known if isinstance(known, User) else None)
        if sends:
            # a header of the request must not say where the link leads, not even to which port
            self.extra_email_context = {"root": page_root()}
            return super().form_valid(form)
        return HttpResponse(status=302, headers={"Location": str(self.get_success_url())})


def _count_of_address(asked: QuerySet[AuditEntry], address: str) -> int:
    """How many of these come from there; of IPv6 from the network around it."""
    if (counted := counted_as(address)) == address:
        return asked.filter(address=address).count()
    return sum(counted_as(other) == counted for other in asked.values_list("address", flat=True))


@method_decorator(login_not_required, name="dispatch")
class LinkAsked(PasswordResetDoneView):
    template_name = "dashboard/password_reset_asked.html"


@method_decorator(login_not_required, name="dispatch")
class ChooseAnew(PasswordResetConfirmView):
    """Behind the link; it works once, for an hour."""

    template_name = "dashboard/password_reset_choose.html"
    http_method_names = ["get", "head", "post"]
    success_url = reverse_lazy("sign-in")

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        audit.record("password.reset", self.user, self.user)
        return answer
