from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "nniweb.experiments"
    verbose_name = "Experiments"

    def ready(self) -> None:
        from nniweb.experiments import data_folder_check, sign_in_attempts  # noqa: F401  # importing connects them
