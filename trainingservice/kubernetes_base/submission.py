"""Hands one trial to the cluster: what it needs in the namespace, its object, and who owns what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainingservice.code.code_archive import require_archive
from trainingservice.errors import PermanentError
from trainingservice.kubernetes_base import names, pod_logs
from trainingservice.kubernetes_base.api import SECRETS, ApiRefusal, Object, error_of
from trainingservice.kubernetes_base.belongings import WasCanceled, remove, require_ours
from trainingservice.kubernetes_base.cluster_access import ClusterAccess
from trainingservice.kubernetes_base.config import KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import Role
from trainingservice.kubernetes_base.pod_template import Delivery, job_key, plain_template, pod_template
from trainingservice.kubernetes_scheduling.objects import queue_labels
from trainingservice.trial_job import TrialJobDetail, job_document
from trialkeeper import contract


class Submission:
    """Makes trials' objects for one service. May be called from several threads."""

    def __init__(self, service: ClusterAccess) -> None:
        self._service = service

    def delivery(self, options: KubernetesTrialOptions) -> Delivery:
        """Have what the pods' keeper comes by in the namespace or the storage, and say where."""
        storage = self._service.settings.storage
        azure = ""
        if storage is not None and storage.storage_type == "azureStorage" and not storage.azure_secret_name:
            azure = self._service.belongings.azure_secret(storage)
        delivery = Delivery(storage=storage, azure_secret=azure)
        if options.keeper_image:
            return replace(delivery, keeper_image=options.keeper_image)
        if self._service.storage is not None:
            return replace(delivery, keeper_in_storage=self._service.storage.keeper())
        return replace(delivery, keeper_config_map=self._service.belongings.keeper())

    def provide_again(self, job: TrialJobDetail) -> None:
        """Make again what a trial's pods need beside the trial's own Secret, where somebody has deleted it.

        Pods that wait for it go on by themselves then. Asks the cluster at most once in a while, however often called.
        """
        self.delivery(self._service.options_of(job.form.options))
        for role in self._service.roles_of(job):
            self._service.belongings.pull_secret(job.form.experiment_id, role.name, role.settings)

    def _code(self, job: TrialJobDetail) -> contract.CodeDocument | None:
        if in_image := self._service.options_of(job.form.options).code_in_image():
            return {"folder": in_image}
        code = job.form.code
        if code is None:
            return None
        if self._service.storage is not None:
            path, sha256 = self._service.storage.code(code)
            return {"sha256": sha256, "archive": path}
        problem = self._service.settings.lacks_way_for_code()
        if problem:
            raise PermanentError(problem)
        if code.sha256 is None:
            raise PermanentError("There is no archive of the code to send to the pods; launch the experiment again.")
        require_archive(code)
        return {"sha256": code.sha256}

    def submit(self, job: TrialJobDetail) -> Object:
        """Make Secret and object. Raises WasCanceled."""
        if not self._service.settings.keepers_call_home():
            self._service.collected.expect(job.form)
            job = replace(job, form=replace(job.form.without_checkpoints(),
                                            keeper=replace(job.form.keeper, urls=(), token="")))
        options = self._service.options_of(job.form.options)
        problem = self._service.kind.check(options)
        if problem:
            raise PermanentError(problem)
        roles = self._service.roles_of(job)
        code = self._code(job)
        documents = {job_key(role): self._document(job, role, code) for role in roles}
        delivery = self.delivery(options)
        manifest = self.manifest_of(job, roles, delivery)
        try:
            secret = self._service.belongings.make_trial_secret(job, documents)
            trial = self._create(job, manifest)
            self._make_dependants(job, trial)
            self._hand_over(secret, trial)
        except ApiRefusal as refusal:
            raise error_of(refusal, f"prepare the trial {job.id}") from refusal
        return trial

    def finish(self, job: TrialJobDetail, trial: Object) -> None:
        """Of a trial whose object is there since an earlier try: who owns the Secret. Raises WasCanceled."""
        try:
            secret = self._service.belongings.find_secret(names.trial_secret(job.id))
            if secret is None or not secret["metadata"].get("ownerReferences"):
                self._make_dependants(job, trial)
                self._hand_over(secret or {"metadata": {"name": names.trial_secret(job.id), "resourceVersion": "0"}},
                                {"apiVersion": self._service.kind.resource.api_version,
                                 "kind": self._service.kind.resource.kind, "metadata": trial["metadata"]})
        except ApiRefusal as refusal:
            raise error_of(refusal, f"prepare the trial {job.id}") from refusal

    def _make_dependants(self, job: TrialJobDetail, trial: Object) -> None:
        kind = self._service.kind
        labels = names.trial_labels(self._service.cluster, job.form.experiment_id, job.id)
        for resource, body in kind.dependants(names.object_name(job.id), labels,
                                              self._service.options_of(job.form.options)):
            owner = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
                     "name": trial["metadata"]["name"], "uid": trial["metadata"]["uid"]}
            body["metadata"]["ownerReferences"] = [owner]
            try:
                self._service.api.call("POST", resource.path(self._service.namespace), body=body)
            except ApiRefusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise error_of(refusal, f"create the {resource.kind} {body['metadata']['name']}") from refusal

    def _with_grace(self, job: TrialJobDetail) -> TrialJobDetail:
        limits = job.form.limits
        grace = max(limits.grace_period, self._service.kind.least_grace(self._service.options_of(job.form.options)))
        return replace(job, form=replace(job.form, limits=replace(limits, grace_period=grace)))

    def _hand_over(self, secret: Object, trial: Object) -> None:
        try:
            if names.CANCELED in (secret["metadata"].get("annotations") or {}):
                raise WasCanceled
            self._service.belongings.hand_over(secret, trial)
        except WasCanceled:
            remove(self._service.api, self._service.kind.resource, self._service.namespace, trial["metadata"]["name"])
            raise

    def manifest_of(self, job: TrialJobDetail, roles: Sequence[Role], delivery: Delivery) -> Object:
        """The trial's object as it is sent."""
        job = self._with_grace(job)
        options = self._service.options_of(job.form.options)
        kind = self._service.kind
        queue = queue_labels(options.kueue_queue_name)
        own = names.trial_labels(self._service.cluster, job.form.experiment_id, job.id)
        labels = {**own, **queue} if kind.is_queued_by_pod else own
        if queue and not kind.is_queued_by_pod:
            options = options.model_copy(update={"run_policy": options.run_policy.model_copy(update={"suspend": True})})
        tells = not self._service.settings.keepers_call_home()
        templates = []
        for role in roles:
            pull = self._service.belongings.pull_secret(job.form.experiment_id, role.name, role.settings)
            if kind.runs_keeper(role.name):
                template = pod_template(job, role, delivery, options, labels=labels, container=kind.container,
                                        numbered=kind.numbers_pods, pull_secret=pull,
                                        automount=kind.needs_token,
                                        linger=pod_logs.LINGER if tells and kind.removes_pods else 0,
                                        linger_stopped=pod_logs.LINGER_STOPPED if tells else 0)
            else:  # what the operator starts in it
                template = plain_template(role, delivery, options, labels=labels, container=kind.container,
                                          pull_secret=pull)
            templates.append((role, template))
        of_object = {**options.labels, **({} if kind.is_queued_by_pod else queue), **own}
        manifest = kind.manifest(names.object_name(job.id), of_object, templates, options)
        metadata = manifest["metadata"]
        metadata["namespace"] = self._service.namespace
        if options.annotations:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **options.annotations}
        return manifest

    def _document(self, job: TrialJobDetail, role: Role, code: contract.CodeDocument | None) -> contract.JobDocument:
        form = replace(self._with_grace(job).form, command=role.command, gpu_number=role.gpu_number)
        part = self._service.options_of(job.form.options).code_part_of(role.name)
        if part and code is not None and code.get("sha256"):
            code = {**code, "part": part}
        return job_document(form, platform=self._service.platform, code=code)

    def _create(self, job: TrialJobDetail, manifest: Object) -> Object:
        resource, name = self._service.kind.resource, manifest["metadata"]["name"]
        try:
            trial = self._service.api.call("POST", resource.path(self._service.namespace), body=manifest)
            problem = self._service.kind.not_understood(manifest, trial)
            if problem:
                remove(self._service.api, resource, self._service.namespace, name)
                remove(self._service.api, SECRETS, self._service.namespace, names.trial_secret(job.id))
                raise PermanentError(problem)
            return trial
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists":
                found = self._service.api.call("GET", resource.path(self._service.namespace, name))
                try:
                    require_ours(found, resource, self._service.cluster)
                except PermanentError:
                    remove(self._service.api, SECRETS, self._service.namespace, names.trial_secret(job.id))
                    raise
                return found
            error = error_of(refusal, f"create the {resource.kind} {name}")
            if isinstance(error, PermanentError):
                remove(self._service.api, SECRETS, self._service.namespace, names.trial_secret(job.id))
            raise error from refusal
