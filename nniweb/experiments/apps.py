from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "nniweb.experiments"
    verbose_name = "Experiments"

    def ready(self) -> None:
        from nniweb.experiments import checks, data_folder_check  # noqa: F401  register themselves
        from nniweb.process.garbage import leave_alone_what_is_loaded

        leave_alone_what_is_loaded()
