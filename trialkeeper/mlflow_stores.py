"""A plug-in of MLflow: scripts that name a store on their own machine log to the server of their trial as well.

``mlflow.set_tracking_uri("sqlite:///mlflow.db")``, ``"./mlruns"`` or ``"http://localhost:5000"`` is in many scripts.
MLflow finds stores by entry points of packages; a folder on PYTHONPATH with such a package is made for each trial.
This file is its module, so it imports nothing of ours. A server on another machine is left as it is.
"""

import os
import sys
from typing import Any
from urllib.parse import urlparse

#: Has the address of the trial's server, also when the script sets MLflow's own variable.
OWN_URI = "NNI_MLFLOW_TRACKING_URI"
#: The folder in the attempt's, and the module in it.
FOLDER, MODULE = "for_mlflow", "nniweb_mlflow_stores"
_LOCAL_HOSTS = ("localhost", "ip6-localhost", "0.0.0.0", "::", "::1", "")
#: Schemes of MLflow's addresses. Those of other databases are servers. A path has none, and no entry point can say so.
_SCHEMES = ("file", "sqlite", "http", "https")
_GROUPS = {"mlflow.tracking_store": "tracking_store", "mlflow.model_registry_store": "model_registry_store"}


def tracking_store(store_uri: Any = None, **_: Any) -> Any:
    """Called by MLflow, as its own stores are."""
    from mlflow.store.tracking.rest_store import RestStore
    return RestStore(_credentials(store_uri))


def model_registry_store(store_uri: Any = None, **_: Any) -> Any:
    """Called by MLflow, as its own stores are."""
    from mlflow.store.model_registry.rest_store import RestStore
    return RestStore(_credentials(store_uri))


def _take_paths() -> None:
    """While MLflow loads its plug-ins: what it does with an address without a scheme."""
    for module, registry, store in (
            ("mlflow.tracking._tracking_service.utils", "_tracking_store_registry", tracking_store),
            ("mlflow.tracking._model_registry.utils", "_model_registry_store_registry", model_registry_store)):
        found = getattr(sys.modules.get(module), registry, None)
        if found is not None:
            found.register("", store)


def _credentials(store_uri: Any) -> Any:
    from functools import partial

    from mlflow.utils.credentials import get_default_host_creds
    own = os.environ.get(OWN_URI)
    if own and own != store_uri and is_on_this_machine(str(store_uri or "")):
        sys.stderr.write("nni: what this script logs to %s goes to the MLflow server of the trial\n" % store_uri)
        store_uri = own
    return partial(get_default_host_creds, store_uri)


def is_on_this_machine(uri: str) -> bool:
    """Whether it is a folder, a file, or a server on the loopback."""
    found = urlparse(uri)
    if found.scheme in ("http", "https"):
        host = (found.hostname or "").lower()
        return host in _LOCAL_HOSTS or host.startswith("127.")
    return True


def make_folder(attempt_folder: str, module: str) -> str:
    """For PYTHONPATH. ``module``: the text of this file. Raises OSError."""
    folder = os.path.join(attempt_folder, FOLDER)
    about = os.path.join(folder, MODULE + "-1.dist-info")
    os.makedirs(about, exist_ok=True)
    points = ["[%s]\n%s" % (group, "".join("%s = %s:%s\n" % (scheme, MODULE, name) for scheme in _SCHEMES))
              for group, name in _GROUPS.items()]
    for path, text in ((os.path.join(folder, MODULE + ".py"), module),
                       (os.path.join(about, "METADATA"), "Metadata-Version: 2.1\nName: %s\nVersion: 1\n" % MODULE),
                       (os.path.join(about, "entry_points.txt"), "\n".join(points))):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    return folder


if __name__ == MODULE:
    _take_paths()
