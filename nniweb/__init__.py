"""NNI Web: the Django project."""


def __getattr__(name: str) -> str:
    """``__version__``, the wheel's too, asked for when somebody wants it: a checkout asks git."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nniweb.version import version

    globals()[name] = version()
    return str(globals()[name])
