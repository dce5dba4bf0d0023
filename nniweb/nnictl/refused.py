"""What NNI's command does and this one does not: a sentence for each, with what to do instead."""

from nniweb.storage.own_files import COMMAND

#: Verbs -> the sentence. A verb of two words is one below the other.
REFUSED = {
    "trainingservice register": "A platform of your own is a Python package with an entry point: "
                                "docs/write-a-platform.md.",
    "trainingservice unregister": "A platform of your own is removed with its package: pip uninstall PACKAGE.",
    "trainingservice list": f"The page Platforms of the server lists the platforms; {COMMAND} doctor examines them.",
    "package": "nnictl package was replaced by nnictl algo.",
    "ss_gen": "A search space file is not generated. With useAnnotation: true in the config, the annotations of the "
              "code are the search space: docs/annotation.md.",
    "trial codegen": "Code is not generated. With useAnnotation: true in the config, annotated code is run as it is: "
                     "docs/annotation.md.",
    "webui nas": "Neural architecture search is not supported.",
    "jupyter-extension install": "There is no extension for JupyterLab. In a notebook, use nniweb.client: "
                                 "docs/start-from-python.md.",
    "jupyter-extension uninstall": "There is no extension for JupyterLab.",
    "hello": f"Use one of the examples: docs/start-from-python.md, or {COMMAND} launch with a file below examples.",
}
#: Said by ``platform clean``, which has nothing to do.
NOTHING_TO_CLEAN = ("Nothing was cleaned: what an experiment leaves on its platform is removed when the experiment is "
                    f"deleted (nnictl experiment delete ID, or {COMMAND} experiments delete ID).")
