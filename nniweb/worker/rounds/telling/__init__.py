"""Steps of a round that tell tuners and assessors results, ends of trials and the end of the experiment."""
