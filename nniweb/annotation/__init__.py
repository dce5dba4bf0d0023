"""NNI's annotations: strings in trial code from which the search space is made, and that are carried out in a trial's
copy of the code.

    \"\"\"@nni.variable(nni.choice(16, 32), name=batch_size)\"\"\"
    batch_size = 16

``rewriting`` does it for the source of one file, ``reading_process`` for many in a process of its own,
``annotated_folder`` for a code folder.
"""
