"""Any scheduler that has commands to submit, ask and cancel: PBS, LSF, SGE, OAR, HTCondor and their like."""
