"""Somebody of each kind, and one of each thing to ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.clusters.service_factory import state_folder
from nniweb.experiments.models import (
    ApiToken,
    Attempt,
    Budget,
    Checkpoint,
    Experiment,
    NotificationDelivery,
    NotificationRule,
    Price,
    Quota,
    SingleSignOnIdentity,
    TensorBoard,
    TrialFile,
    User,
    Worker,
)
from nniweb.experiments.models.account import Role, Scope
from nniweb.experiments.variants.stored_variants import keep_variant
from trainingservice.variants.code_variant import ChangedFile, variant_content

#: Columns of the table. A stranger is a member whose groups have nothing to do with what is asked for.
ROLES = ("anonymous", "stranger", "viewer", "member", "admin")


@dataclass
class World:
    """The member's experiment on a cluster for everybody, shared with a group in which the viewer is as well."""

    people: dict[str, User | None]
    attempt: Attempt
    ids: dict[str, Any] = field(default_factory=dict)

    def path(self, address: str) -> str:
        """The address with this world's ids in it."""
        for name, value in self._values(address).items():
            address = address.replace(f"<{name}>", str(value))
        assert "<" not in address, f"{address}: tests/nniweb/access/roles.py has no value for it yet"
        return address

    def _values(self, address: str) -> dict[str, Any]:
        values = dict(self.ids)
        trial = self.attempt.trial
        of_part = {"experiments": trial.experiment.public_id, "trials": trial.public_id,
                   "clusters": trial.experiment.cluster.public_id, "notifications": values["rule_id"],
                   "tensorboard": values["board_id"]}
        part = address.split("/")[1]
        if part == "docs":
            values["page"] = "no-such-page.html"  # those that are there are files, as styles and scripts
        if part in of_part:
            values["public_id"] = of_part[part]
        if address.startswith("/admin/"):
            values["id"] = values["object_id"] = self._row(address)
        return values

    @staticmethod
    def _row(address: str) -> Any:
        """The primary key of something that the admin's page of that name can show."""
        app, _, name = address.removeprefix("/admin/").partition("/")
        model = apps.all_models.get(app, {}).get(name.partition("/")[0])
        found = model._default_manager.order_by("pk").first() if model else None
        return found.pk if found else 1


def make_world(experiment: Experiment, attempt: Attempt, admin: User) -> World:
    """Rows for a walk. ``attempt`` is of ``experiment``."""
    ours, theirs = Group.objects.create(name="ours"), Group.objects.create(name="theirs")
    people: dict[str, User | None] = {"anonymous": None, "admin": admin}
    for name, role, group in (("stranger", Role.MEMBER, theirs), ("viewer", Role.VIEWER, ours),
                              ("member", Role.MEMBER, ours)):
        person = people[name] = User.objects.create_user(name, role=role)
        person.groups.add(group)
    experiment.owner, experiment.group = people["member"], ours
    experiment.save()
    attempt.trial.experiment = experiment
    kept = TrialFile.objects.create(attempt=attempt, name="model.bin", size=1, storage_path="trials/nowhere")
    output = state_folder(experiment.cluster) / "trials" / experiment.public_id / attempt.job_name / "nni"
    output.mkdir(parents=True)
    ApiToken.make(admin)
    _, token = ApiToken.make_with_row(people["member"], "the member's", Scope.READ, None)  # type: ignore[arg-type]
    audit.record("sign-in", admin, admin)
    SingleSignOnIdentity.objects.create(user=admin, issuer="https://sso.example.org", subject="1")
    Worker.objects.create(id="w", host="box", pid=1, started_at=timezone.now(), heard_at=timezone.now())
    trial = attempt.trial
    now = timezone.now()
    trial.variant = keep_variant(variant_content("0" * 64, [ChangedFile("trial.py", "pass\n")]), now)
    trial.save()
    rule = NotificationRule.objects.create(owner=people["member"], channel="webhook", created_at=now)
    message = NotificationDelivery.objects.create(rule=rule, occasion="test", body="{}", state="given_up", ended_at=now,
                                                  created_at=now, planned_at=now, due_at=now)
    board = TensorBoard.objects.create(experiment=experiment, trials=[trial.public_id], created_at=now, used_at=now)
    quota = Quota.objects.create(user=people["member"], max_trials=5)
    budget = Budget.objects.create(user=people["member"], trials=5)
    price = Price.objects.create(cluster=experiment.cluster, gpu_hour=1)
    checkpoint = Checkpoint.objects.create(
        attempt=attempt, trial=trial, manifest="0" * 64, name="step-1", size=1, file_count=1, joined_sequence=0,
        confirmed_n=2, confirmed_at=now, created_at=now)
    return World(people, attempt, {
        "checkpoint_id": checkpoint.pk, "sha256": checkpoint.manifest,
        "experiment_id": experiment.public_id, "trial_id": trial.public_id, "cluster_id": experiment.cluster.public_id,
        "file_id": kept.pk, "number": 1, "key": "nothing", "secret": "used-up", "word": "used-up", "name": "stdout",
        "first": 0, "last": 1, "path": "nowhere", "task": "x",
        "app_label": "experiments", "url": "nowhere", "content_type_id": 1,
        "job": attempt.job_name, "rule_id": rule.public_id, "delivery_id": message.public_id,
        "quota_id": quota.pk, "budget_id": budget.pk, "price_id": price.pk,
        "board_id": board.public_id, "ticket": "of-no-session-at-all",
        "user_id": people["member"].pk, "group_id": ours.pk, "token_id": token.pk,  # type: ignore[union-attr]
        "uidb64": "nobody", "token": "used-up"})
