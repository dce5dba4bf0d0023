"""Figures that this process counts itself. Each process has its own; what they share is in ``database_figures``.

Thread-safe, as prometheus_client is. Times in seconds.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

#: What /metrics shows, less what it asks the database for. Not the library's own: tests and processes make several.
registry = CollectorRegistry()
ProcessCollector(registry=registry)
PlatformCollector(registry=registry)
GCCollector(registry=registry)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

reports = Counter("nniweb_reports", "Answered reports of keepers, by HTTP status.", ["status"],
                  registry=registry)
entries = Counter("nniweb_report_entries", "Journal entries in accepted reports, including repeated entries.",
                  registry=registry)
report_seconds = Histogram("nniweb_report_seconds", "Time from the arrival of a whole report to its answer.",
                           registry=registry, buckets=SECONDS)
group_reports = Histogram("nniweb_commit_group_reports", "Reports that shared a commit.", registry=registry,
                          buckets=(1, 2, 4, 8, 16, 32, 64))
commit_seconds = Histogram("nniweb_commit_seconds", "Time to store one group of reports, including the commit.",
                           registry=registry, buckets=SECONDS)
reports_waiting = Gauge("nniweb_reports_waiting", "Reports that wait to be stored.", registry=registry)
oldest_report_seconds = Gauge("nniweb_oldest_report_waiting_seconds",
                              "How long the oldest unanswered report has waited; 0 if there is none.",
                              registry=registry)
gather_seconds = Gauge("nniweb_report_gather_seconds",
                       "For how many seconds keepers are asked to gather metrics and output; 0 if they are not.",
                       registry=registry)
round_seconds = Histogram("nniweb_round_seconds", "Time of one round of the worker over a cluster's "
                                                  "experiments.", ["cluster"],
                          registry=registry, buckets=SECONDS)
rounds_failed = Counter("nniweb_rounds_failed", "Rounds that were postponed because of an error.", ["cluster"],
                        registry=registry)
csp_reports = Counter("nniweb_csp_reports", "Violations of the Content-Security-Policy that browsers reported.",
                      registry=registry)
notifications = Counter("nniweb_notifications", "Attempts to send a notification, by channel and outcome.",
                        ["channel", "outcome"], registry=registry)
notification_seconds = Histogram("nniweb_notification_seconds",
                                 "Time of one attempt to send a notification.", ["channel"],
                                 registry=registry, buckets=SECONDS)
clusters_driven = Gauge("nniweb_cluster_driven", "1 while this process runs the cluster's trials.", ["cluster"],
                        registry=registry)


def show_queue(waiting: Callable[[], float], oldest_seconds: Callable[[], float],
               gathered: Callable[[], float]) -> None:
    """Ask these for the queue of reports, and how long keepers gather, whenever the figures are read."""
    reports_waiting.set_function(waiting)
    gather_seconds.set_function(gathered)
    oldest_report_seconds.set_function(oldest_seconds)
