"""The documentation site: ``make docs`` builds it from docs/, README.md and the server's own code with MkDocs Material.

``build`` has the command, ``pages`` the pages from outside docs/, ``rest_reference`` those of the REST interface,
``links`` what becomes of links, ``hooks`` is where MkDocs calls the last three. ``theme`` takes scripts out of the
theme's pages, since the server's Content-Security-Policy lets none in.
"""
