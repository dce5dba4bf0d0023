"""Which secrets are stored, for the person who would have to enter them anew: what they are of, never what they are."""

from nniweb.experiments.models import ClusterMetadata, Experiment, NotificationRule


def stored_secrets() -> list[str]:
    """Such as "cluster farm: password", in order. Of experiments only those that are not done. Raises DatabaseError."""
    of_clusters = ClusterMetadata.objects.exclude(sealed_value=None).values_list("cluster__name", "key")
    of_experiments = Experiment.objects.unfinished().exclude(code_git_token=None).values_list("name", "public_id")
    of_rules = NotificationRule.objects.exclude(sealed_url=None, sealed_secret=None).values_list("owner__username")
    return sorted({*(f"cluster {name}: {key}" for name, key in of_clusters),
                   *(f"experiment {name} ({public_id}): token of its Git repository"
                     for name, public_id in of_experiments),
                   *(f"webhooks of {name}" for (name,) in of_rules)})
