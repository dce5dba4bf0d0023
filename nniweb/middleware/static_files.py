"""The files of the pages and of the documentation, each of which is looked at when it is asked for first."""

from typing import Any

from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware

from nniweb.storage import own_files

#: Where the documentation site is, for everybody: nothing in it is about this installation.
DOCS = "/docs/"


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise has no types
    """WhiteNoise's, which looks at sizes, times and kinds of all five hundred files when a server starts. Where they
    are is known from the start; what is added to their folders later is not served.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        #: Address -> where the file is.
        self._places: dict[str, str] = {}
        super().__init__(*args, **more)
        if own_files.DOCS_SITE.is_dir():
            self.add_files(str(own_files.DOCS_SITE), prefix=DOCS)

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: Any = None) -> None:
        self._places[url] = path

    def __call__(self, request: HttpRequest) -> Any:
        url = request.path_info
        if url not in self.files and url in self._places:
            super().add_file_to_dictionary(url, self._places[url])
        return super().__call__(request)
