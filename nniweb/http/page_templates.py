"""Templates whose pages can always be sent: a trial may report halves of characters, which UTF-8 does not have."""

from typing import Any

from django.http import HttpRequest
from django.template.backends.django import DjangoTemplates, Template, reraise
from django.template.exceptions import TemplateDoesNotExist
from django.utils.safestring import SafeString


class PageTemplates(DjangoTemplates):
    """Django's, with halves of characters shown as ``\\ud800``."""

    def from_string(self, template_code: str) -> Template:
        return _Page(self.engine.from_string(template_code), self)

    def get_template(self, template_name: str) -> Template:
        try:
            return _Page(self.engine.get_template(template_name), self)
        except TemplateDoesNotExist as missing:
            reraise(missing, self)


class _Page(Template):
    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> str:
        page = super().render(context, request)
        try:
            page.encode()
        except UnicodeEncodeError:  # rare, so that other pages are not copied
            return SafeString(page.encode(errors="backslashreplace").decode())
        return page
