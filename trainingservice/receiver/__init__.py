"""A REST server for keepers, for those who use a platform without the web application."""
