"""What the program tells about itself: its commands, with a line each. Django's list has thirty more, and no words."""

#: By what somebody wants to do.
COMMANDS = {
    "Experiments": {
        "launch": "launch an experiment from its file; --follow shows the progress",
        "experiments": "list, show, follow, steer, undo, export them (nniweb experiments --help)",
        "config": "check an experiment file, or print what it means",
        "import_nni": "take over a finished experiment of NNI's",
    },
    "A server": {
        "serve": "start the web server and a worker",
        "worker": "start a further worker",
        "doctor": "say what is wrong with this installation, and what to do",
        "algo": "register tuners and assessors of your own under a name",
        "backup": "write a backup, also while it runs",
        "restore": "restore one",
        "migrate": "bring the database to this program's version",
        "rotate-keys": "seal all secrets with a new key",
    },
    "People": {
        "sign-in-link": "print a link that signs somebody in, once",
        "token": "print a new token for REST and the client",
        "changepassword": "change somebody's password",
        "createsuperuser": "make an administrator",
    },
    "This program": {
        "completion": "print what makes bash, zsh or fish complete all this",
        "check": "look for mistakes in the settings",
        "help": "of one command: nniweb help COMMAND; help --commands names those of Django, too",
    },
}


def overview(program: str) -> str:
    """The text. ``program``: as it was called, such as ``nniweb`` or ``manage.py``."""
    width = max(len(name) for commands in COMMANDS.values() for name in commands)
    lines = [f"usage: {program} COMMAND ...", ""]
    for title, commands in COMMANDS.items():
        lines += [f"{title}:", *(f"  {name:{width}}  {words}".replace("nniweb ", f"{program} ")
                                 for name, words in commands.items()), ""]
    lines.append(f"Options of each: {program} COMMAND --help. Of launch and experiments: --server speaks with a server "
                 "elsewhere.")
    return "\n".join(lines)
