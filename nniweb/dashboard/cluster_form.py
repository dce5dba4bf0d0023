"""The page on which a cluster is set up or changed. Who may is what REST says, which the page calls."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.access.visibility import may_change_cluster, visible_clusters
from nniweb.experiments.clusters.form_page import form_context
from nniweb.experiments.models import Cluster


@require_GET
def new_cluster(request: HttpRequest) -> HttpResponse:
    """An empty form, for administrators."""
    if not the_visitor(request).is_admin:
        raise PermissionDenied("Only administrators may set up clusters. An experiment file may have a trainingService "
                               "section of its own.")
    return _page(request, None)


@require_GET
def edit_cluster(request: HttpRequest, public_id: str) -> HttpResponse:
    """The form of a cluster, for administrators and the owner of a private one."""
    user = the_visitor(request)
    cluster = get_object_or_404(visible_clusters(user), public_id=public_id)
    if not may_change_cluster(user, cluster):
        raise PermissionDenied("The cluster belongs to somebody else; only its owner and administrators may change it.")
    return _page(request, cluster)


def _page(request: HttpRequest, cluster: Cluster | None) -> HttpResponse:
    every = reverse("clusters")
    back = every if cluster is None else reverse("cluster", args=[cluster.public_id])
    return render(request, "dashboard/cluster_form_page.html", form_context(
        the_visitor(request), cluster, after=reverse("cluster", args=["CLUSTER"]), back=back, every=every))
