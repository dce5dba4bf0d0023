from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "nniweb.experiments"
    verbose_name = "Experiments"
