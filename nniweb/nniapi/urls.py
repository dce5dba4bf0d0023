"""Addresses of NNI's REST interface, below ``/nni/<experiment id>/api/v1/nni/``. As in NNI they end without a slash."""

from django.urls import path

from nniweb.nniapi import views

TRIAL = "<slug:trial_id>"

urlpatterns = [
    path("version", views.VersionView.as_view()),
    path("check-status", views.StatusView.as_view()),
    path("experiment", views.ExperimentView.as_view()),
    path("experiment/cluster-metadata", views.ClusterMetadataView.as_view()),
    path("experiment/import-data", views.ImportDataView.as_view()),
    path("experiment/imported-data", views.ImportedDataView.as_view()),
    path("experiment-metadata", views.ExperimentMetadataView.as_view()),
    path("experiments-info", views.ExperimentsInfoView.as_view()),
    path("job-statistics", views.JobStatisticsView.as_view()),
    path("trial-jobs", views.TrialJobsView.as_view()),
    path(f"trial-jobs/{TRIAL}", views.TrialJobView.as_view()),
    path("metric-data", views.MetricDataView.as_view()),
    path(f"metric-data/{TRIAL}", views.MetricDataView.as_view()),
    path("metric-data-range/<int:first>/<int:last>", views.MetricRangeView.as_view()),
    path("metric-data-latest", views.LatestMetricsView.as_view()),
    path("export-data", views.ExportView.as_view()),
    path(f"trial-file/{TRIAL}/<str:name>", views.TrialFileView.as_view()),
    path(f"trial-log/{TRIAL}/<str:name>", views.TrialFileView.as_view()),
    path("tensorboard", views.TensorboardView.as_view()),
    path("tensorboard/<str:task>", views.TensorboardView.as_view()),
    path("tensorboard-tasks", views.TensorboardView.as_view()),
    path("<path:path>", views.NothingHereView.as_view()),
]
