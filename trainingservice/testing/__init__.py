"""What proves a platform right, for the ones built in and for those of third parties.

``conformance``       the class of tests every platform passes
``keeper_protocol``   the class of tests every server of the keeper protocol passes
``scripted``          a platform whose behaviour a test writes down beforehand
``misbehaving``       services that hang, lie and fail, for the tests of a host

Needs pytest; nothing outside tests imports this package.
"""
