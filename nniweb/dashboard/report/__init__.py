"""An experiment's report: one page without scripts that is read, printed and sent on without the server."""
