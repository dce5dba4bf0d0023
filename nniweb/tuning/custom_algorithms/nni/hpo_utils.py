"""``nni.common.hpo_utils``: what algorithms use to deal with search spaces, and the check of one."""

import logging
from collections.abc import Iterable
from typing import Any

from nniweb.tuning.custom_algorithms.nni.deduplicator import Deduplicator
from nniweb.tuning.custom_algorithms.nni.formatted_space import (
    ParameterSpec,
    deformat_parameters,
    format_parameters,
    format_search_space,
)
from nniweb.tuning.custom_algorithms.nni.utils import OptimizeMode
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput

__all__ = ["Deduplicator", "OptimizeMode", "ParameterSpec", "deformat_parameters", "format_parameters",
           "format_search_space", "validate_search_space"]

logger = logging.getLogger(__name__)


def validate_search_space(search_space: Any, support_types: Iterable[str] | None = None,
                          raise_exception: bool = False) -> bool:
    """Whether the space can be used, and has no other types than these at its top. What is wrong is logged, or raised
    as ValueError.
    """
    try:
        parsed = parse_search_space(search_space)
    except InvalidInput as invalid:
        problem = str(invalid)
    else:
        known = None if support_types is None else set(support_types)
        problem = "; ".join(f"{name}: the type {parameter.type_name} is not supported"
                            for name, parameter in parsed.parameters.items()
                            if known is not None and parameter.type_name not in known)
    if not problem:
        return True
    if raise_exception:
        raise ValueError(problem)
    logger.error("the search space: %s", problem)
    return False
