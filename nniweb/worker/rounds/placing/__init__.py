"""Steps of a round for experiments on several clusters: where trials start, which ones leave, who is the home."""
