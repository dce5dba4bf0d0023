"""Addresses of the pages."""

from django.urls import path

from nniweb.dashboard import (
    api_pages,
    cluster_form,
    clusters,
    new_experiment,
    notifications,
    usage,
)
from nniweb.dashboard import tensorboard_pages as tensorboard_pages
from nniweb.dashboard.account import own_email, pages, password_reset, sign_in, single_sign_on, token_pages
from nniweb.dashboard.experiment_tabs import (
    compare,
    config,
    events,
    intermediate,
    log,
    overview,
    parameters,
    timeline,
    trials,
)
from nniweb.dashboard.home import experiment_list
from nniweb.dashboard.reference import platforms, reasons, unbuilt_docs
from nniweb.dashboard.report import report_page
from nniweb.dashboard.trial import trial_page

EXPERIMENT = "experiments/<slug:public_id>"

urlpatterns = [
    path("", experiment_list.experiments, name="experiments"),
    path("demo/", experiment_list.launch_demo, name="launch-demo"),
    path(f"{EXPERIMENT}/", overview.overview, name="experiment"),
    path(f"{EXPERIMENT}/trials/", trials.trials, name="experiment-trials"),
    path(f"{EXPERIMENT}/timeline/", timeline.timeline, name="experiment-timeline"),
    path(f"{EXPERIMENT}/log/", log.log, name="experiment-log"),
    path(f"{EXPERIMENT}/parameters/", parameters.parameters, name="experiment-parameters"),
    path(f"{EXPERIMENT}/intermediate/", intermediate.intermediate, name="experiment-intermediate"),
    path(f"{EXPERIMENT}/compare/", compare.compare, name="experiment-compare"),
    path(f"{EXPERIMENT}/config/", config.config, name="experiment-config"),
    path(f"{EXPERIMENT}/events/", events.events, name="experiment-events"),
    path(f"{EXPERIMENT}/report/", report_page.report, name="experiment-report"),
    path("trials/<slug:public_id>/", trial_page.trial, name="trial"),
    path("tensorboard/<slug:public_id>/", tensorboard_pages.open_board, name="tensorboard"),
    path("tensorboard/<slug:public_id>/<slug:ticket>/", tensorboard_pages.tensorboard_page, {"path": ""},
         name="tensorboard-page"),
    path("tensorboard/<slug:public_id>/<slug:ticket>/<path:path>", tensorboard_pages.tensorboard_page),
    path("sign-in/", sign_in.SignIn.as_view(), name="sign-in"),
    path("sign-in/single-sign-on/", single_sign_on.begin, name="single-sign-on"),
    path("sign-in/single-sign-on/back/", single_sign_on.come_back, name="single-sign-on-back"),
    path("sign-in/<str:secret>/", sign_in.by_link, name="sign-in-link"),
    path("sign-out/", sign_in.SignOut.as_view(), name="sign-out"),
    path("password-reset/", password_reset.AskForLink.as_view(), name="password-reset"),
    path("password-reset/asked/", password_reset.LinkAsked.as_view(), name="password_reset_done"),
    path("password-reset/<uidb64>/<token>/", password_reset.ChooseAnew.as_view(), name="password_reset_confirm"),
    path("account/", pages.account, name="account"),
    path("tokens/", token_pages.tokens, name="tokens"),
    path("account/password/", pages.ChangePassword.as_view(), name="change-password"),
    path("account/email/", own_email.AskForAnother.as_view(), name="change-email"),
    path("account/email/<str:word>/", own_email.confirm, name="confirm-email"),
    path("new/", new_experiment.NewExperiment.as_view(), name="new-experiment"),
    path("clusters/", clusters.clusters, name="clusters"),
    path("clusters/new/", cluster_form.new_cluster, name="cluster-new"),
    path("clusters/<slug:public_id>/edit/", cluster_form.edit_cluster, name="cluster-edit"),
    path("clusters/<slug:public_id>/", clusters.one_cluster, name="cluster"),
    path("usage/", usage.usage_page, name="usage"),
    path("reasons/", reasons.reasons, name="reasons"),
    path("platforms/", platforms.platforms, name="platforms"),
    path("docs/", unbuilt_docs.first_page, name="docs"),
    path("docs/<path:page>", unbuilt_docs.unbuilt_docs, name="docs-page"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/<slug:public_id>/", notifications.one_notification, name="notification"),
    path("api/docs/", api_pages.api_pages, name="api-pages"),
    path("api/docs/redoc/", api_pages.api_reference, name="api-reference"),
]
