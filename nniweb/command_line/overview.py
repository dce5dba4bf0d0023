"""What the program tells about itself: its commands, with a line each. Django's list has thirty more, and no words."""

#: By what somebody wants to do.
COMMANDS = {
    "Experiments": {
        "launch": "launch an experiment from its config file; --follow shows the progress",
        "experiments": "list, show, follow, pause, stop, undo, export experiments (nniweb experiments --help)",
        "config": "check a config file, or print the resolved settings",
        "import_nni": "import a finished experiment of NNI",
        "mcp": "tools for an agent that starts this program (nniweb mcp --help)",
        "nnictl": "the verbs of NNI's nnictl (nniweb nnictl --help)",
    },
    "A server": {
        "serve": "start the web server and a worker",
        "worker": "start a further worker",
        "nni-port": "let nnictl and NNI's Python client reach an experiment",
        "doctor": "check this installation and print problems with their solutions",
        "algo": "register custom tuners and assessors under a name",
        "backup": "write a backup; the server may run",
        "restore": "restore one",
        "move-files": "move files of the data folder to the storage of NNIWEB_FILE_STORAGE",
        "migrate": "upgrade the database to this program's version",
        "rotate-keys": "encrypt all secrets with a new key",
        "ledger": "show what trials took in each month, and check it",
        "recount": "have the counts of ended trials added up anew, or check them",
    },
    "People": {
        "sign-in-link": "print a link that signs a person in once",
        "token": "print a new token for REST and the client",
        "changepassword": "change somebody's password",
        "createsuperuser": "make an administrator",
    },
    "This program": {
        "completion": "print a completion script for bash, zsh or fish",
        "check": "check the settings for mistakes",
        "help": "help for one command: nniweb help COMMAND; help --commands also lists Django's commands",
    },
}


def overview(program: str) -> str:
    """The text. ``program``: as it was called, such as ``nniweb`` or ``manage.py``."""
    width = max(len(name) for commands in COMMANDS.values() for name in commands)
    lines = [f"usage: {program} COMMAND ...", ""]
    for title, commands in COMMANDS.items():
        lines += [f"{title}:", *(f"  {name:{width}}  {words}".replace("nniweb ", f"{program} ")
                                 for name, words in commands.items()), ""]
    lines.append(f"Options of a command: {program} COMMAND --help. With --server, launch and experiments use a server "
                 "on another machine.")
    return "\n".join(lines)
