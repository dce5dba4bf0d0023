from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "nniweb.experiments"
    verbose_name = "Experiments"

    def ready(self) -> None:
        from nniweb.experiments import checks  # noqa: F401  registers itself
