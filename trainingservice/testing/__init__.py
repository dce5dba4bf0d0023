"""What proves a platform right, for the ones built in and for those of third parties.

``conformance``       the class of tests every platform passes
``rules``             what each of its cases is for, in words
``keeper_protocol``   the class of tests every server of the keeper protocol passes
``scripted``          a platform whose behaviour a test writes down beforehand
``misbehaving``       services that hang, lie and fail, for the tests of a host

The first two need pytest. Nothing outside tests imports this package.
"""

try:
    import pytest
except ImportError:  # the scripted platform also runs where pytest is not installed
    pass
else:  # failing assertions of the cases shall show their values, as those of a test file do
    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("cases", "bench", "keeper_protocol")))
