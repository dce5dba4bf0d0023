"""The e-mail address of one's account: another one counts when its owner has said so, by a link sent there.

Links that change a forgotten password go to this address, and single sign-on may find people by it: whoever could write
down any address there would be somebody else.
"""

import smtplib
from datetime import timedelta

from django.contrib import messages
from django.core import signing
from django.core.mail import send_mail
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from nniweb.dashboard.account import pages
from nniweb.dashboard.account.forms import EmailForm, is_valid
from nniweb.dashboard.account.password_reset import mail_is_set_up
from nniweb.dashboard.account.token_form import TokenForm
from nniweb.dashboard.page_data import the_visitor
from nniweb.database.one_after_another import one_after_another
from nniweb.experiments.access import audit
from nniweb.experiments.clusters.addresses import page_root
from nniweb.experiments.models import AuditEntry, User

ASKED, CHANGED = "email.change-asked", "email.change"
#: Mails that one person may have sent in the period, so that nobody's mail box is filled.
MOST, PERIOD = 5, timedelta(hours=1)
_LOCK = 4_711_002_031
#: How long the link works.
LIVES = timedelta(hours=1)
_SALT = "nniweb.own-email"


@method_decorator(sensitive_post_parameters(), name="dispatch")
@method_decorator(never_cache, name="dispatch")
class AskForAnother(View):
    """Sends a link to the new address; nothing is changed before it is used."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        user = the_visitor(request)
        form = EmailForm(user, request.POST)
        if not mail_is_set_up():
            return pages.page(request, user, status=409, form=TokenForm(user))
        if not is_valid(form):
            return pages.page(request, user, status=400, form=TokenForm(user), email_form=form)
        with one_after_another(_LOCK):
            asked = AuditEntry.objects.filter(action=ASKED, target=str(user.pk),
                                              at__gt=timezone.now() - PERIOD).count()
            if asked < MOST:
                audit.record(ASKED, user)
        if asked >= MOST:
            form.add_error("email", "Too many mails were sent. Try again in an hour.")
            return pages.page(request, user, status=429, form=TokenForm(user), email_form=form)
        address = form.cleaned_data["email"]
        try:
            send_mail("Your address at NNI Web", _asking(user, address), None, [address])
        except (smtplib.SMTPException, OSError, ValueError):
            form.add_error("email", "The mail server does not accept mail to this address at the moment. Try again "
                                    "later, or ask an administrator.")
            return pages.page(request, user, status=503, form=TokenForm(user), email_form=form)
        messages.success(request, f"A link was sent to {address}. Open it in this browser within an hour to make it "
                                  "the address of your account.")
        return redirect("account")


def _asking(user: User, address: str) -> str:
    word = signing.dumps({"user": user.pk, "now": user.email, "new": address}, salt=_SALT)
    return (f"Somebody, probably you, gave this address for the account {user.username} at NNI Web. If it was you, "
            f"confirm it here, within an hour:\n\n{page_root()}{reverse('confirm-email', args=[word])}\n\n"
            "If it was not you, do nothing.\n")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def confirm(request: HttpRequest, word: str) -> HttpResponse:
    """Behind the link: a page with a button, which takes the address. Works once, for the person who asked."""
    user = the_visitor(request)
    try:
        said = signing.loads(word, salt=_SALT, max_age=LIVES)
    except signing.BadSignature:
        said = {}
    if said.get("user") != user.pk or said["now"] != user.email:
        return render(request, "dashboard/email_confirm.html", {"address": None}, status=410)
    if request.method != "POST":
        return render(request, "dashboard/email_confirm.html", {"address": said["new"]})
    with transaction.atomic():
        # of two clicks one changes a row
        if User.objects.filter(pk=user.pk, email=said["now"]).update(email=said["new"]):
            audit.record(CHANGED, user, email=said["new"])
    if said["now"]:
        _tell_the_old_one(user, said["now"])
    messages.success(request, f"The address of your account is {said['new']}.")
    return redirect("account")


def _tell_the_old_one(user: User, address: str) -> None:
    """Whoever did not do it themselves should hear of it; where no mail goes out now, it is changed all the same."""
    send_mail("Your address at NNI Web was changed",
              f"The account {user.username} at NNI Web ({page_root()}) has another e-mail address from now on. If that "
              "was not you, tell an administrator.\n", None, [address], fail_silently=True)
