"""Lists come in pages: ``?page=2&page_size=100``; the answer has count, next, previous and results."""

from django.core.paginator import Page, Paginator
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request

from trainingservice.words.shown_value import shown

LARGEST_PAGE = 1000


class _Paginator(Paginator):  # type: ignore[type-arg]  # of whatever a view lists
    """Does not ask for the number of rows where the first page shows that it has them all."""

    def page(self, number: int | str) -> Page:  # type: ignore[type-arg]
        if number != 1:
            return super().page(number)
        rows = list(self.object_list[:self.per_page])
        if len(rows) < self.per_page:
            self.count = len(rows)
        return Page(rows, 1, self)


class Pages(PageNumberPagination):
    django_paginator_class = _Paginator
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = LARGEST_PAGE
    invalid_page_message = "There is no such page."

    def get_page_size(self, request: Request) -> int:
        written = request.query_params.get("page_size")
        if written is None:
            return self.page_size
        return _number("page_size", written, LARGEST_PAGE)

    def get_page_number(self, request: Request, paginator: object) -> int:
        number = _number("page", request.query_params.get("page", "1"), 10**9)
        if number > 1 and number > paginator.num_pages:  # type: ignore[attr-defined]
            raise NotFound(f"There is no page {number}; the last one is {paginator.num_pages}.")  # type: ignore[attr-defined]
        return number


def _number(field: str, written: str, most: int) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 11 and 1 <= int(written) <= most):
        raise ValidationError({field: f"must be a whole number from 1 to {most}, not {shown(written[:20])}."})
    return int(written)
