"""The part of an address after "?": filters, order and page, the same names as over REST."""

from typing import Any, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import QueryDict

from nniweb.http.fields import CommaListField, Query

M = TypeVar("M", bound=Model)


class PageQuery:
    """What an address asks for. Words that are not understood are left out: a mistyped link still shows something."""

    #: How things are shown, not which.
    NO_FILTERS = frozenset({"order", "columns", "without", "page_size", "group", "density"})

    def __init__(self, form: type[Query], given: QueryDict) -> None:
        fields = self._fields = form().fields
        data: dict[str, Any] = {name: given.getlist(name) if isinstance(fields[name], CommaListField) else given[name]
                                for name in given if name in fields and any(given.getlist(name))}
        query = form(data=data)
        if not query.is_valid():
            data = {name: value for name, value in data.items() if name not in query.errors}
            query = form(data=data)
            query.is_valid(raise_exception=True)
        #: Checked values, defaults included.
        self.values: dict[str, Any] = dict(query.validated_data)
        #: What was given and understood, but the page: what links of the page keep, with the tag ``querystring``.
        self.given = QueryDict(mutable=True)
        self.given.update({name: ",".join(value) if isinstance(value, list) else value for name, value in data.items()})
        self._page = given.get("page")

    def __getitem__(self, name: str) -> str:
        """What was given for this filter, "" for nothing. For forms in templates."""
        if name not in self._fields:
            raise KeyError(name)  # a template asks here first, also for ``is_filtered``, and then for the attribute
        return str(self.given.get(name, ""))

    @property
    def is_filtered(self) -> bool:
        """Whether anything is filtered away that is usually there."""
        return bool(self.given.keys() - self.NO_FILTERS)

    @property
    def order(self) -> str:
        return str(self.values["order"])

    def page_of(self, rows: QuerySet[M], size: int) -> Page[M]:
        """The page asked for; the nearest there is."""
        return Paginator(rows, size).get_page(self._page)


class Column:
    """A table's column heading that sorts: the first click as people want it, the second the other way round."""

    def __init__(self, query: PageQuery, title: str, name: str = "", *, falls_first: bool = False,
                 number: bool = False, pin: int = 0, breaks: bool = False) -> None:
        """``pin``: its place among the columns that stay while the table scrolls sideways; 0 where it scrolls.
        ``breaks``: the title may take several lines.
        """
        self.title, self.name, self.number, self.pin, self.breaks = title, name, number, pin, breaks
        first, second = (f"-{name}", name) if falls_first else (name, f"-{name}")
        #: For aria-sort; "" where the table is in another order.
        self.sorted = {name: "ascending", f"-{name}": "descending"}.get(query.order, "") if name else ""
        #: The order that a click asks for; "" where the column does not sort.
        self.order = (second if query.order == first else first) if name else ""
