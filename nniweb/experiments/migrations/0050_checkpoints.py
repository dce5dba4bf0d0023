"""Checkpoints of trials. Attempts get columns that may be NULL: on SQLite these are added without a copy of the table."""

import django.db.models.deletion
from django.db import migrations, models

_ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0046_worker_module_folders"),
    ]

    operations = [
        migrations.CreateModel("CheckpointChunk", [
            ("id", _ID),
            ("sha256", models.CharField(max_length=64)),
            ("size", models.PositiveIntegerField()),
            ("wanted_at", models.DateTimeField()),
            ("lost_at", models.DateTimeField(null=True)),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="checkpoint_chunks", to="experiments.experiment")),
        ]),
        migrations.CreateModel("Checkpoint", [
            ("id", _ID),
            ("manifest", models.CharField(max_length=64)),
            ("name", models.CharField(max_length=255)),
            ("step", models.BigIntegerField(null=True)),
            ("size", models.BigIntegerField()),
            ("file_count", models.PositiveIntegerField()),
            ("stored_at", models.DateTimeField(null=True)),
            ("k", models.PositiveIntegerField(null=True)),
            ("sequence", models.BigIntegerField(null=True)),
            ("joined_sequence", models.BigIntegerField(null=True)),
            ("confirmed_n", models.BigIntegerField(null=True)),
            ("confirmed_at", models.DateTimeField(null=True)),
            ("removed_at", models.DateTimeField(null=True)),
            ("created_at", models.DateTimeField()),
            ("attempt", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                          related_name="checkpoints", to="experiments.attempt")),
            ("trial", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints",
                                        to="experiments.trial")),
        ]),
        migrations.CreateModel("CheckpointChunkUse", [
            ("id", _ID),
            ("checkpoint", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="uses", to="experiments.checkpoint")),
            ("chunk", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="uses",
                                        to="experiments.checkpointchunk")),
        ]),
        migrations.AddConstraint("checkpoint", models.UniqueConstraint(
            fields=("attempt", "manifest"), name="one_checkpoint_per_manifest")),
        migrations.AddIndex("checkpoint", models.Index(
            condition=models.Q(("removed_at__isnull", False), ("stored_at__isnull", False)), fields=["removed_at"],
            name="checkpoints_to_remove")),
        migrations.AddConstraint("checkpointchunk", models.UniqueConstraint(
            fields=("experiment", "sha256"), name="one_chunk_per_hash")),
        migrations.AddConstraint("checkpointchunkuse", models.UniqueConstraint(
            fields=("checkpoint", "chunk"), name="one_use_per_chunk")),
        migrations.AddField("quota", "max_checkpoint_gb", models.PositiveIntegerField(
            blank=True, help_text="That the server keeps of their trials. Empty: no limit.", null=True,
            verbose_name="GB of checkpoints")),
        migrations.AddField("attempt", "first_sequence", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("attempt", "resumed_from", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL,
            related_name="resumed", to="experiments.checkpoint")),
        migrations.AddIndex("attempt", models.Index(
            condition=models.Q(("resumed_from__isnull", False)), fields=["resumed_from"], name="attempts_resumed")),
    ]
