"""Why an answer is not accepted: the same codes in process and over HTTP."""


class Refused(ValueError):
    """A request that changes nothing; `code` says why, as an HTTP status would."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
