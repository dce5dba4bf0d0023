"""Proposals that are run as several trials: what is decided at each end, and which trials are to be made next."""
