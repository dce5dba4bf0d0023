"""Background work: leases on clusters, rounds over experiments, the host of training services."""
