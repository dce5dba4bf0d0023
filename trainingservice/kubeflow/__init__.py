"""Kubeflow: each trial is a TFJob, PyTorchJob or MPIJob, or a TrainJob of Kubeflow Trainer."""
