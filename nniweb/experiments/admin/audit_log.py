"""The audit log in the admin: to read, to search, and nothing else."""

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from nniweb.experiments.admin.access import ToLookAt
from nniweb.experiments.models import AuditEntry


@admin.register(AuditEntry)
class AuditEntryAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["at", "who", "action", "kind", "name", "in_words", "via", "token_id", "address"]
    list_filter = ["kind", "at"]
    search_fields = ["=who", "^action", "=target", "=address", "name"]
    search_help_text = ("A user name, the beginning of an action (sign-in, experiment, token ...), an id, an address. "
                        "What was done with a token is linked on the page of tokens.")
    ordering = ["-pk"]
    show_full_result_count = False
    list_per_page = 100
    fields = ["at", "who", "who_id", "via", "token_id", "address", "action", "kind", "target", "name", "in_words"]
    readonly_fields = ["in_words"]

    @admin.display(description="details")
    def in_words(self, entry: AuditEntry) -> str:
        return ", ".join(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                         for name, value in entry.details.items())

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}
