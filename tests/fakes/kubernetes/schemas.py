"""What objects must look like. The Framework's schema is the recorded one; the others are written from the references.

Built-in kinds are checked strictly: a field that the real API would drop with a warning is refused here, so that a
misspelt field of ours is found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def strict(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "strict": True}


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


METADATA = strict(name=TEXT, namespace=TEXT, labels=TEXTS, annotations=TEXTS, ownerReferences=many(
    strict(("apiVersion", "kind", "name", "uid"), apiVersion=TEXT, kind=TEXT, name=TEXT, uid=TEXT, controller=FLAG,
           blockOwnerDeletion=FLAG)), resourceVersion=TEXT, uid=TEXT, creationTimestamp=TEXT, generation=NUMBER)
QUANTITIES: Schema = {"type": "object", "additionalProperties": {
    "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}}
_KEYS = many(strict(("key", "path"), key=TEXT, path=TEXT))
VOLUME = strict(
    ("name",), name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}, emptyDir=strict(),
    secret=strict(secretName=TEXT, items=_KEYS, optional=FLAG), configMap=strict(("name",), name=TEXT, items=_KEYS),
    nfs=strict(("server", "path"), server=TEXT, path=TEXT, readOnly=FLAG),
    persistentVolumeClaim=strict(("claimName",), claimName=TEXT, readOnly=FLAG),
    azureFile=strict(("secretName", "shareName"), secretName=TEXT, shareName=TEXT, readOnly=FLAG))
CONTAINER = strict(
    ("name", "image"), name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}, image=TEXT,
    imagePullPolicy=TEXT, command=many(TEXT), args=many(TEXT), workingDir=TEXT,
    env=many(strict(("name",), name={"type": "string", "pattern": "^[-._a-zA-Z][-._a-zA-Z0-9]*$"}, value=TEXT,
                    valueFrom=strict(fieldRef=strict(("fieldPath",), fieldPath=TEXT, apiVersion=TEXT)))),
    ports=many(strict(("containerPort",), containerPort=NUMBER, name=TEXT, protocol=TEXT)),
    resources=strict(requests=QUANTITIES, limits=QUANTITIES), terminationMessagePath=TEXT,
    terminationMessagePolicy={"type": "string", "enum": ["File", "FallbackToLogsOnError"]},
    volumeMounts=many(strict(("name", "mountPath"), name=TEXT, mountPath=TEXT, readOnly=FLAG, subPath=TEXT)))
POD_SPEC = strict(
    ("containers",), restartPolicy={"type": "string", "enum": ["Never", "OnFailure", "Always"]},
    containers=many(CONTAINER), initContainers=many(CONTAINER), volumes=many(VOLUME), serviceAccountName=TEXT,
    automountServiceAccountToken=FLAG, terminationGracePeriodSeconds=COUNT, nodeSelector=TEXTS, hostNetwork=FLAG,
    imagePullSecrets=many(strict(("name",), name=TEXT)), schedulerName=TEXT, priorityClassName=TEXT,
    tolerations=many(strict(key=TEXT, operator=TEXT, value=TEXT, tolerationSeconds=NUMBER, effect={
        "type": "string", "enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]})),
    schedulingGates=many(strict(("name",), name=TEXT)),
    activeDeadlineSeconds={"type": "integer", "minimum": 1})
POD_TEMPLATE = strict(metadata=METADATA, spec=POD_SPEC)


def _object(**properties: Schema) -> Schema:
    return strict(("metadata",), apiVersion=TEXT, kind=TEXT, metadata=METADATA, **properties)


JOB = _object(spec=strict(
    ("template",), template=POD_TEMPLATE, backoffLimit=COUNT, completions=COUNT, parallelism=COUNT,
    completionMode={"type": "string", "enum": ["NonIndexed", "Indexed"]}, ttlSecondsAfterFinished=COUNT,
    activeDeadlineSeconds={"type": "integer", "minimum": 1}, suspend=FLAG))
POD = _object(spec=POD_SPEC)
SECRET = _object(type=TEXT, data=TEXTS, stringData=TEXTS, immutable=FLAG)
CONFIG_MAP = _object(data=TEXTS, binaryData=TEXTS, immutable=FLAG)

CLAIM = _object(spec=strict(("accessModes", "resources"), accessModes=many(
    {"type": "string", "enum": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]}),
    volumeMode={"type": "string", "enum": ["Filesystem", "Block"]}, storageClassName=TEXT,
    resources=strict(requests=QUANTITIES)))
#: The schema of AdaptDL's chart; its validator has the API check the template as a PodTemplate.
ADAPTDLJOB = _object(spec=strict(
    ("template",), maxReplicas={"type": "integer", "minimum": 1}, minReplicas=COUNT, preemptible=FLAG,
    template=POD_TEMPLATE))

_REPLICAS = strict(replicas={"type": "integer", "minimum": 1}, template=POD_TEMPLATE,
                   restartPolicy={"type": "string", "enum": ["Never", "OnFailure", "Always", "ExitCode"]})
_SINGLE = {**_REPLICAS, "properties": {**_REPLICAS["properties"],
                                       "replicas": {"type": "integer", "minimum": 1, "maximum": 1}}}
_RUN_POLICY = strict(cleanPodPolicy={"type": "string", "enum": ["None", "Running", "All"]},
                     ttlSecondsAfterFinished=COUNT, activeDeadlineSeconds=COUNT, backoffLimit=COUNT, suspend=FLAG,
                     schedulingPolicy=strict(minAvailable=NUMBER, queue=TEXT, minResources=QUANTITIES,
                                             priorityClass=TEXT, scheduleTimeoutSeconds=NUMBER), managedBy=TEXT)


def _kubeflow(replica_specs: str, roles: dict[str, Schema], **more: Schema) -> Schema:
    specs = {"type": "object", "properties": roles, "strict": True}
    return _object(spec=strict((replica_specs,), **{replica_specs: specs}, runPolicy=_RUN_POLICY, **more))


TFJOB = _kubeflow("tfReplicaSpecs", {"Worker": _REPLICAS, "PS": _REPLICAS, "Chief": _SINGLE, "Master": _SINGLE,
                                     "Evaluator": _REPLICAS},
                  successPolicy=TEXT)
PYTORCHJOB = _kubeflow("pytorchReplicaSpecs", {"Master": _SINGLE, "Worker": _REPLICAS}, nprocPerNode=TEXT,
                       elasticPolicy=OPEN)
MPIJOB = _kubeflow("mpiReplicaSpecs", {"Launcher": _SINGLE, "Worker": _REPLICAS}, slotsPerWorker=NUMBER,
                   mainContainer=TEXT)
MPIJOB_V2 = _kubeflow("mpiReplicaSpecs", {"Launcher": _SINGLE, "Worker": _REPLICAS}, slotsPerWorker=NUMBER,
                      runLauncherAsWorker=FLAG, sshAuthMountPath=TEXT, launcherCreationPolicy=TEXT,
                      mpiImplementation={"type": "string", "enum": ["OpenMPI", "Intel", "MPICH"]})

#: A runtime's priority class cannot be patched.
_PATCHED = {name: schema for name, schema in POD_SPEC["properties"].items() if name != "priorityClassName"}
_NODE_PATCH = strict(template=strict(spec=strict(replicatedJobs=many(strict(
    name=TEXT, template=strict(spec=strict(template=strict(metadata=METADATA, spec={
        **POD_SPEC, "required": [], "properties": {**_PATCHED, "containers": many(
            {**CONTAINER, "required": ["name"]}), "initContainers": many({**CONTAINER, "required": ["name"]})}}))))))))
TRAINJOB = _object(spec=strict(
    ("runtimeRef",), runtimeRef=strict(
        ("name",), name=TEXT, kind={**TEXT, "default": "ClusterTrainingRuntime"},
        apiGroup={**TEXT, "default": "trainer.kubeflow.org"}),
    trainer=strict(image=TEXT, command=many(TEXT), args=many(TEXT), env=CONTAINER["properties"]["env"],
                   numNodes={"type": "integer", "minimum": 1},
                   resourcesPerNode=CONTAINER["properties"]["resources"], numProcPerNode=OPEN),
    runtimePatches=many(strict(("manager",), manager=TEXT, trainingRuntimeSpec=_NODE_PATCH)),
    suspend={**FLAG, "default": False}, activeDeadlineSeconds={"type": "integer", "minimum": 1},
    managedBy={**TEXT, "default": "trainer.kubeflow.org/trainjob-controller"}))


def _framework() -> Schema:
    recorded = json.loads((RECORDINGS / "access" / "crd-frameworks-as-created-by-controller.json").read_text())
    schema: Schema = recorded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


#: plural -> schema. A custom resource's metadata is checked like that of all objects.
SCHEMAS: dict[str, Schema] = {
    "jobs": JOB, "pods": POD, "secrets": SECRET, "configmaps": CONFIG_MAP,
    "persistentvolumeclaims": CLAIM, "adaptdljobs": ADAPTDLJOB, "tfjobs": TFJOB, "pytorchjobs": PYTORCHJOB,
    "mpijobs": MPIJOB, "trainjobs": TRAINJOB, "frameworks": _framework()}
