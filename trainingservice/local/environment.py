"""What a local trial sees of the server's environment: an allow-list, so that no secret of the server gets out.

Handed on: where programs and the user's things are (PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, TMP,
TEMP), language and time (LANG, LANGUAGE, LC_*, TZ), libraries and accelerators (LD_LIBRARY_PATH,
DYLD_LIBRARY_PATH, CUDA_*, NVIDIA_*, ROCM_*, HIP_*, HSA_*), numeric libraries (OMP_*, MKL_*,
OPENBLAS_*, NUMEXPR_*), proxies and certificates that downloads need (HTTP_PROXY, HTTPS_PROXY,
NO_PROXY, in both spellings, SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE), Python's own
(VIRTUAL_ENV, CONDA_*, PYTHONPATH, PYTHONUNBUFFERED, PYTHONHASHSEED, PYTHONIOENCODING, PYTHONUTF8),
caches (XDG_CACHE_HOME, XDG_DATA_HOME, XDG_CONFIG_HOME, HF_HOME, TORCH_HOME), where podman and docker find their
settings and their daemon (XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS, CONTAINERS_CONF, CONTAINERS_STORAGE_CONF,
CONTAINER_HOST, REGISTRY_AUTH_FILE, DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CONFIG) and DISPLAY.

Not handed on: everything else, above all what begins with NNIWEB_ or DJANGO_, the names of databases
and cloud credentials. TERM is left out because a trial has no terminal. A trial that needs more gets
it in its command: ``NAME=value python3 train.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

#: Where podman and docker find their settings and their daemon.
OF_ENGINES = frozenset({
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINER_HOST",
    "REGISTRY_AUTH_FILE", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"})
_NAMES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "LANG", "LANGUAGE", "TZ", "DISPLAY",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8",
    "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HF_HOME", "TORCH_HOME",
}) | OF_ENGINES
_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "ROCM_", "HIP_", "HSA_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "CONDA_")


def allowed_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of the environment (default: this process's) that agent, keepers and trials may see."""
    source = os.environ if environment is None else environment
    return {name: value for name, value in source.items() if name in _NAMES or name.startswith(_PREFIXES)}
