"""Whether the keeper of a job in a container calls this server, or its journal is fetched."""

from trainingservice.errors import PermanentError
from trainingservice.trial_job import JobApplicationForm


def keeper_urls(form: JobApplicationForm, channel: str, *, otherwise: str = "storage",
                others: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The addresses that the keeper calls; () where its journal is fetched by the way named ``otherwise``.

    ``channel``: "auto", "http" or ``otherwise``; ``others``: addresses that the platform itself has found.
    """
    urls = form.keeper.urls or others
    if channel == "http" and not urls:
        raise PermanentError("channel is http, but only the server's loopback address is known. Set NNIWEB_PUBLIC_URL "
                             "to an address that the cluster can reach, or nniManagerIp in the config file, or set "
                             f"channel: {otherwise}.")
    return () if channel == otherwise else urls
