"""Template tags: what a person types into a terminal of this server, which depends on how it was installed."""

from django import template

from nniweb.storage import own_files

register = template.Library()


@register.simple_tag
def command() -> str:
    """What stands before the name of a command."""
    return own_files.COMMAND


@register.simple_tag
def example() -> str:
    """The file of an experiment that needs nothing."""
    return own_files.example_config()
