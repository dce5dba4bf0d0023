"""Warm places: jobs in which attempts run one after the other."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0056_node_bookings")]

    operations = [
        migrations.CreateModel("Place", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("job_name", models.CharField(max_length=20)),
            ("asked_for", models.CharField(max_length=64)),
            ("key", models.CharField(max_length=64)),
            ("given_at", models.DateTimeField()),
            ("asked_at", models.DateTimeField()),
            ("opened_at", models.DateTimeField()),
            ("closed_at", models.DateTimeField(null=True)),
            ("reason", models.JSONField(null=True)),
            ("attempt", models.ForeignKey(db_constraint=False, db_index=False,
                                          on_delete=django.db.models.deletion.DO_NOTHING, related_name="+",
                                          to="experiments.attempt")),
            ("cluster", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT,
                                          related_name="+", to="experiments.cluster")),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="places", to="experiments.experiment")),
        ]),
        migrations.AddField("attempt", "place", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL,
            related_name="attempts", to="experiments.place")),
        migrations.AddConstraint("place", models.UniqueConstraint(
            condition=models.Q(("closed_at__isnull", True)), fields=("job_name",), name="one_open_place_of_a_job")),
        migrations.AddIndex("place", models.Index(fields=["experiment"], name="places_of_experiments")),
        migrations.AddIndex("place", models.Index(
            condition=models.Q(("closed_at__isnull", True)), fields=["cluster"], name="places_open")),
        migrations.AddIndex("attempt", models.Index(
            condition=models.Q(("place__isnull", False)), fields=["place"], name="attempts_of_places")),
    ]
