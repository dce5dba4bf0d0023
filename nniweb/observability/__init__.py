"""How the installation shows how it is: probes, figures for Prometheus, ids in logs."""
