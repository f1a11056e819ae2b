"""What schemathesis cannot read in the document."""
import os

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

# A fault that a schema can say has one of these codes: what fits the document must never be refused with them, else document and service
# disagree. Other codes speak of what a value means: that an address is none, that a time has passed, that a cursor is not ours.
OF_SCHEMAS = {"unknown_field", "required", "invalid_value", "too_short", "too_long", "too_few", "too_many", "not_unique"}

# Rules that a schema cannot say, or only in a way that nobody would want to read, with the same codes.
BEYOND_SCHEMAS = {
    ("created_after", "invalid_value"): "a leap second, an offset of a day",
    ("created_before", "invalid_value"): "likewise",
    ("from", "invalid_value"): "likewise, of the counts",
    ("to", "invalid_value"): "likewise, of the counts",
    ("as_of", "invalid_value"): "likewise, or a time to come",
    ("scheduled_at", "invalid_value"): "likewise",
    ("expires_at", "invalid_value"): "likewise",
    ("recipient", "invalid_value"): "the email has not so many",
    ("subject", "required"): "unless the template has one",
    ("html", "required"): "unless there is text, or a template",
    ("content_type", "invalid_value"): "a media type",
    ("content_id", "invalid_value"): "half a mail address",
    ("headers", "too_short"): "a field of white space is empty",
    ("to", "too_many"): "with cc and bcc",
    ("variables", "not_unique"): "by name",
}


def is_meaning(fault):
    names = {part.split("[")[0] for part in fault["field"].split(".")}
    return fault["code"] not in OF_SCHEMAS or any((name, fault["code"]) in BEYOND_SCHEMAS for name in names)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if not isinstance(failure, RejectedPositiveData):
        return True
    if response.status_code == 400:
        # A name that reaches for a prototype is malformed wherever it stands.
        return b"__proto__" not in (response.request.body or b"")
    return response.status_code != 422 or not all(is_meaning(fault) for fault in response.json()["details"])


@schemathesis.hook
def before_call(context, case, kwargs):
    """It may do all but change, rotate or revoke the key that it comes with."""
    if case.path_parameters and case.path_parameters.get("id") == os.environ["JETPOST_KEPT"]:
        case.path_parameters["id"] = "key_kept"
