"""The bill of materials: what an installation of the wheel gets, as a document of CycloneDX.

The Python packages are those that pip installs beside the wheel into an empty environment, with the versions of
requirements/constraints.txt. The browser libraries, which lie inside the wheel, are added from package-lock.json.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import venv
from pathlib import Path
from typing import Any

from release.artefacts import run

#: Of the documents.
SPECIFICATION = "1.6"
#: Libraries in the wheel, and the package of the documentation's pages, whose scripts are in it as well.
_IN_THE_WHEEL = {"echarts", "swagger-ui-dist"}
_OF_THE_DOCUMENTATION = "mkdocs-material"


def write_sbom(checkout: Path, wheel: Path, target: Path, epoch: int, workspace: Path) -> None:
    """Write the document of a wheel. ``workspace``: an empty folder for the environment. Asks the package index.
    Raises BuildFailed.
    """
    environment = workspace / "environment"
    venv.create(environment, with_pip=False)
    python = str(environment / "bin" / "python")
    run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", "--constraint",
         str(checkout / "requirements" / "constraints.txt"), str(wheel)])
    written = workspace / "environment.json"
    run([sys.executable, "-m", "cyclonedx_py", "environment", python, "--pyproject", str(checkout / "pyproject.toml"),
         "--mc-type", "application", "--output-reproducible", "--sv", SPECIFICATION, "-o", str(written)],
        {"SOURCE_DATE_EPOCH": str(epoch)})
    document = json.loads(written.read_text())
    complete(document, checkout, wheel)
    check(document)
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def complete(document: dict[str, Any], checkout: Path, wheel: Path) -> None:
    """Name the release itself, which is listed as installed from a file, and add what lies inside the wheel."""
    main = document["metadata"]["component"]
    main["version"] = wheel.name.split("-")[1]
    main["purl"] = f"pkg:pypi/nniweb@{main['version']}"
    installed = [one for one in document["components"] if one["name"] == "nniweb"]
    document["components"] = [one for one in document["components"] if one["name"] != "nniweb"]
    inside = [*_browser_libraries(checkout), _theme(checkout)]
    document["components"] += inside
    refs = {one["bom-ref"] for one in installed}
    needs: set[str] = {one["bom-ref"] for one in inside}
    for dependency in document["dependencies"]:
        if dependency["ref"] in refs | {main["bom-ref"]}:
            needs.update(dependency.get("dependsOn", ()))
    document["dependencies"] = [one for one in document["dependencies"] if one["ref"] not in refs | {main["bom-ref"]}]
    document["dependencies"] += [{"ref": main["bom-ref"], "dependsOn": sorted(needs - refs)},
                                 *({"ref": one["bom-ref"]} for one in inside)]


def _browser_libraries(checkout: Path) -> list[dict[str, Any]]:
    packages = json.loads((checkout / "package-lock.json").read_text())["packages"]
    found = []
    for name in sorted(_IN_THE_WHEEL):
        package = packages[f"node_modules/{name}"]
        algorithm, _, digest = package["integrity"].partition("-")
        found.append({
            "type": "library", "bom-ref": f"npm:{name}", "name": name, "version": package["version"],
            "purl": f"pkg:npm/{name}@{package['version']}", "licenses": [{"license": {"id": package["license"]}}],
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}]})
    return found


def _theme(checkout: Path) -> dict[str, Any]:
    pins = (checkout / "requirements" / "constraints.txt").read_text()
    pin = re.search(rf"^{_OF_THE_DOCUMENTATION}==(\S+)$", pins, re.MULTILINE)
    if pin is None:
        raise LookupError(f"{_OF_THE_DOCUMENTATION} is not in requirements/constraints.txt")
    return {"type": "library", "bom-ref": "theme", "name": _OF_THE_DOCUMENTATION, "version": pin[1],
            "purl": f"pkg:pypi/{_OF_THE_DOCUMENTATION}@{pin[1]}", "licenses": [{"license": {"id": "MIT"}}]}


def check(document: dict[str, Any]) -> None:
    """Raises ValueError where it is no document of CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.from_version(SPECIFICATION)).validate_str(json.dumps(document))
    if wrong is not None:
        raise ValueError(f"the bill of materials does not follow CycloneDX {SPECIFICATION}: {wrong}")
