"""Experiment config files as NNI users write them (v1 and v2/v3), read into one settings object.

``parse_experiment_config`` is the way in, ``resolved_document`` the way back. Nothing here knows
Django, and nothing here knows a platform: a platform's section comes from its ``config.py``.
"""

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.parsing import ParsedConfig, parse_experiment_config
from nniweb.experiments.config.platform_section import PlatformSection, parse_stored_section
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings

__all__ = ["AlgorithmSettings", "ConfigError", "ConfigInvalid", "ExperimentSettings", "ParsedConfig",
           "PlatformSection", "parse_experiment_config", "parse_stored_section", "resolved_document"]
