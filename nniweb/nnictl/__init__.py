"""``nniweb nnictl``: the verbs and options of NNI's command, carried out on a server of NNI Web."""
