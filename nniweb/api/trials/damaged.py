"""What is answered where something was kept and is not what it was."""

from rest_framework.exceptions import APIException


class Damaged(APIException):
    """The file or output was kept, and is not what it was."""

    status_code = 410
    default_code = "damaged"
