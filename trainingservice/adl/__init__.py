"""AdaptDL (NNI's ``adl``): each trial is an AdaptDLJob, which AdaptDL stops and starts again on other nodes."""
