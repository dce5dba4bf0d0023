"""The formatters and filters of the settings, for tests that look at what is logged."""

import copy
import logging.config

from django.conf import settings


def configured_logs() -> logging.config.DictConfigurator:
    """``.configure_formatter(.config["formatters"][NAME])`` and so on. Of a copy: it takes out of it what it reads."""
    return logging.config.DictConfigurator(copy.deepcopy(settings.LOGGING))
