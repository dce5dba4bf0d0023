"""Addresses of the REST interface, below ``/api/v1/``."""

from django.urls import path, re_path
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.views import APIView

from nniweb.api import schema  # noqa: F401  tells the schema how programs and browsers sign in
from nniweb.api.administration import audit_log, budgets, disk_usage, ledger, quotas, usage
from nniweb.api.clusters import cluster_views, platforms, workers
from nniweb.api.clusters.cluster_metadata import ClusterMetadataListView, ClusterMetadataView
from nniweb.api.experiments import (
    clone,
    experiment_changes,
    experiment_chart,
    experiment_clusters,
    experiment_events,
    experiment_failures,
    experiment_log,
    experiment_tensorboards,
    experiment_timeline,
    experiment_views,
    external_proposals,
    intermediate_series,
    launch_form,
    parameter_analysis,
    pareto_front,
)
from nniweb.api.people import account, groups, notifications, tokens, users
from nniweb.api.trials import (
    many_trials,
    named_trials,
    trial_attempts,
    trial_checkpoints,
    trial_files,
    trial_output,
    trial_output_files,
    trial_ranks,
    trial_variants,
    trial_views,
    trials_export,
)


@extend_schema(exclude=True)
class NothingHereView(APIView):
    """So that a wrong address below /api/v1/ gets an error like all others."""

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound(f"Nothing is served at {request.path}. Addresses end with a slash; /api/schema/ lists them.")


EXPERIMENT = "experiments/<slug:experiment_id>"
TRIAL = "trials/<slug:trial_id>"
CLUSTER = "clusters/<slug:cluster_id>"
RULE = "notifications/<slug:rule_id>"

urlpatterns = [
    path("experiments/", experiment_views.ExperimentsView.as_view()),
    path("experiments/check/", experiment_views.ExperimentCheckView.as_view()),
    path("experiments/config-fields/", launch_form.ConfigFieldsView.as_view()),
    path("experiments/sampled-points/", launch_form.SampledPointsView.as_view()),
    path(f"{EXPERIMENT}/", experiment_views.ExperimentDetailView.as_view()),
    path(f"{EXPERIMENT}/actions/pause/", experiment_views.ExperimentPauseView.as_view()),
    path(f"{EXPERIMENT}/actions/freeze/", experiment_views.ExperimentFreezeView.as_view()),
    path(f"{EXPERIMENT}/actions/resume/", experiment_views.ExperimentResumeView.as_view()),
    path(f"{EXPERIMENT}/actions/stop/", experiment_views.ExperimentStopView.as_view()),
    path(f"{EXPERIMENT}/actions/rerun-failed/", experiment_views.ExperimentRerunFailedView.as_view()),
    path(f"{EXPERIMENT}/actions/import-data/", experiment_views.ExperimentImportDataView.as_view()),
    path(f"{EXPERIMENT}/proposals/", external_proposals.ProposalsView.as_view()),
    path(f"{EXPERIMENT}/results/", external_proposals.ResultsView.as_view()),
    path(f"{EXPERIMENT}/changes/", experiment_changes.ExperimentChangesView.as_view()),
    path(f"{EXPERIMENT}/changes/<int:number>/actions/undo/", experiment_changes.ExperimentUndoView.as_view()),
    path(f"{EXPERIMENT}/clusters/", experiment_clusters.ExperimentClustersView.as_view()),
    path(f"{EXPERIMENT}/clone/", clone.ExperimentCloneView.as_view()),
    path(f"{EXPERIMENT}/chart/", experiment_chart.ExperimentChartView.as_view()),
    path(f"{EXPERIMENT}/forecast/", budgets.ExperimentForecastView.as_view()),
    path(f"{EXPERIMENT}/failures/", experiment_failures.ExperimentFailuresView.as_view()),
    path(f"{EXPERIMENT}/front/", pareto_front.ExperimentFrontView.as_view()),
    path(f"{EXPERIMENT}/series/", intermediate_series.ExperimentSeriesView.as_view()),
    path(f"{EXPERIMENT}/start-step/", intermediate_series.ExperimentStartStepView.as_view()),
    path(f"{EXPERIMENT}/events/", experiment_events.ExperimentEventsView.as_view()),
    path(f"{EXPERIMENT}/timeline/", experiment_timeline.ExperimentTimelineView.as_view()),
    path(f"{EXPERIMENT}/log/", experiment_log.ExperimentLogView.as_view()),
    path(f"{EXPERIMENT}/log/text/", experiment_log.ExperimentLogTextView.as_view()),
    path(f"{EXPERIMENT}/parameters/", parameter_analysis.ParameterColumnsView.as_view()),
    path(f"{EXPERIMENT}/parameters/importance/", parameter_analysis.ParameterImportanceView.as_view()),
    path(f"{EXPERIMENT}/trials/", trial_views.ExperimentTrialsView.as_view()),
    path(f"{EXPERIMENT}/trials/actions/stop/", many_trials.StopManyView.as_view()),
    path(f"{EXPERIMENT}/trials/actions/freeze/", many_trials.FreezeManyView.as_view()),
    path(f"{EXPERIMENT}/trials/actions/thaw/", many_trials.ThawManyView.as_view()),
    path(f"{EXPERIMENT}/trials/actions/rerun/", many_trials.RerunManyView.as_view()),
    path(f"{EXPERIMENT}/trials/actions/tag/", many_trials.TagManyView.as_view()),
    path(f"{EXPERIMENT}/tensorboards/", experiment_tensorboards.TensorBoardsView.as_view()),
    path(f"{EXPERIMENT}/tensorboards/<slug:board_id>/", experiment_tensorboards.TensorBoardView.as_view()),
    path(f"{EXPERIMENT}/export/", trials_export.ExperimentExportView.as_view()),
    path("trials/named/", named_trials.NamedTrialsView.as_view()),
    path(f"{TRIAL}/", trial_views.TrialDetailView.as_view()),
    path(f"{TRIAL}/actions/cancel/", trial_views.TrialCancelView.as_view()),
    path(f"{TRIAL}/actions/freeze/", trial_views.TrialFreezeView.as_view()),
    path(f"{TRIAL}/actions/thaw/", trial_views.TrialThawView.as_view()),
    path(f"{TRIAL}/actions/refresh/", trial_views.TrialRefreshView.as_view()),
    path(f"{TRIAL}/actions/rerun/", trial_views.TrialRerunView.as_view()),
    path(f"{TRIAL}/actions/check-parameters/", trial_views.TrialCheckParametersView.as_view()),
    path(f"{TRIAL}/attempts/", trial_attempts.TrialAttemptsView.as_view()),
    path(f"{TRIAL}/resources/", trial_attempts.TrialResourcesView.as_view()),
    path(f"{TRIAL}/metrics/", trial_views.TrialMetricsView.as_view()),
    path(f"{TRIAL}/events/", trial_views.TrialEventsView.as_view()),
    path(f"{TRIAL}/output/", trial_output.TrialOutputView.as_view()),
    path(f"{TRIAL}/output/text/", trial_output.TrialOutputTextView.as_view()),
    path(f"{TRIAL}/parameters/", trial_views.TrialParametersView.as_view()),
    path(f"{TRIAL}/files/", trial_files.TrialFilesView.as_view()),
    path(f"{TRIAL}/files/<int:file_id>/", trial_files.TrialFileView.as_view()),
    path(f"{TRIAL}/checkpoints/", trial_checkpoints.TrialCheckpointsView.as_view()),
    path(f"{TRIAL}/checkpoints/<int:checkpoint_id>/", trial_checkpoints.TrialCheckpointView.as_view()),
    path(f"{TRIAL}/output-files/", trial_output_files.TrialOutputFilesView.as_view()),
    path(f"{TRIAL}/output-files/content/", trial_output_files.TrialOutputFileView.as_view()),
    path(f"{TRIAL}/output-files/archive/", trial_output_files.TrialOutputArchiveView.as_view()),
    path(f"{TRIAL}/variant/", trial_variants.TrialVariantView.as_view()),
    path(f"{TRIAL}/ranks/", trial_ranks.TrialRanksView.as_view()),
    path(f"{TRIAL}/ranks/output/", trial_ranks.TrialRankOutputView.as_view()),
    path("clusters/", cluster_views.ClustersView.as_view()),
    path("clusters/check/", cluster_views.ClusterCheckView.as_view()),
    path(f"{CLUSTER}/", cluster_views.ClusterDetailView.as_view()),
    path(f"{CLUSTER}/actions/rehearse/", cluster_views.ClusterRehearsalView.as_view()),
    path(f"{CLUSTER}/metadata/", ClusterMetadataListView.as_view()),
    path(f"{CLUSTER}/metadata/<slug:key>/", ClusterMetadataView.as_view()),
    path("notifications/", notifications.NotificationsView.as_view()),
    path(f"{RULE}/", notifications.NotificationDetailView.as_view()),
    path(f"{RULE}/actions/test/", notifications.NotificationTestView.as_view()),
    path(f"{RULE}/deliveries/", notifications.DeliveriesView.as_view()),
    path(f"{RULE}/deliveries/<uuid:delivery_id>/actions/send-again/", notifications.DeliverySendAgainView.as_view()),
    path("platforms/", platforms.PlatformsView.as_view()),
    path("platforms/<str:name>/", platforms.PlatformView.as_view()),
    path("account/", account.AccountView.as_view()),
    path("tokens/", tokens.TokensView.as_view()),
    path("tokens/<int:token_id>/", tokens.TokenView.as_view()),
    path("tokens/<int:token_id>/end/", tokens.TokenEndView.as_view()),
    path("users/", users.UsersView.as_view()),
    path("users/<int:user_id>/", users.UserView.as_view()),
    path("users/<int:user_id>/actions/sign-in-link/", users.UserSignInLinkView.as_view()),
    path("groups/", groups.GroupsView.as_view()),
    path("groups/<int:group_id>/", groups.GroupView.as_view()),
    path("quotas/", quotas.QuotasView.as_view()),
    path("quotas/<int:quota_id>/", quotas.QuotaView.as_view()),
    path("budgets/", budgets.BudgetsView.as_view()),
    path("budgets/<int:budget_id>/", budgets.BudgetView.as_view()),
    path("prices/", budgets.PricesView.as_view()),
    path("prices/<int:price_id>/", budgets.PriceView.as_view()),
    path("ledger/", ledger.LedgerView.as_view()),
    path("ledger/export/", ledger.LedgerExportView.as_view()),
    path("audit/", audit_log.AuditView.as_view()),
    path("disk-usage/", disk_usage.DiskUsageView.as_view()),
    path("disk-usage/data-folder/", disk_usage.InstallationUsageView.as_view()),
    path("usage/", usage.UsageView.as_view()),
    path("workers/", workers.WorkersView.as_view()),
    re_path("", NothingHereView.as_view()),
]
