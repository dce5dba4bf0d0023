"""``make release``: checks that this commit is a release, and puts all that is published of it into ``dist``.

``checks`` says what is not as it should be, ``artefacts`` builds the source archive and the wheel, ``sbom`` lists what
an installation gets. docs/releasing.md describes the steps before and after.
"""
