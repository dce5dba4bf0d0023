"""Any scheduler that has commands to submit, ask and cancel: PBS, LSF, SGE, HTCondor and their like."""
