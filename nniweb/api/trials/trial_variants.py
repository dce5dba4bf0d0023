"""What a trial has instead of files of its experiment's code."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.trials.trial_views import trial_of
from nniweb.documents.variants import VariantDetailSerializer, changed_file_document, variant_document
from nniweb.experiments.variants.shown_diff import diff_text, shown_files
from nniweb.experiments.variants.stored_variants import VariantGone, content_of


class TrialVariantView(generics.GenericAPIView[Any]):
    pagination_class = None
    serializer_class = VariantDetailSerializer

    @extend_schema(operation_id="trials_variant", responses=VariantDetailSerializer)
    def get(self, request: Request, trial_id: str) -> Response:
        """The trial's variant of the code, as a diff and as whole files. 404: it runs the code as it is."""
        trial = trial_of(request, trial_id)
        if trial.variant is None:
            raise NotFound("The trial runs the code of its experiment as it is.")
        try:
            content = content_of(trial.variant)
        except VariantGone as gone:
            raise NotFound(f"The trial's variant of the code is not there any more. {gone}") from None
        shown = shown_files(content.files)
        return Response({**variant_document(trial.variant), "code": content.base, "diff": diff_text(shown),
                         "changed_files": [changed_file_document(one) for one in shown]})
