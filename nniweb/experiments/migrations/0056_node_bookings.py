"""Trials that run on several nodes hold GPUs of several machines."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0055_several_clusters")]

    operations = [
        migrations.CreateModel("NodeBooking", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("rank", models.PositiveIntegerField()),
            ("machine_identity", models.CharField(db_index=True, max_length=100)),
            ("gpu_indices", models.JSONField()),
            ("attempt", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="node_bookings",
                                          to="experiments.attempt")),
        ]),
        migrations.AddConstraint("nodebooking", models.UniqueConstraint(
            fields=("attempt", "rank"), name="one_booking_for_a_rank")),
    ]
