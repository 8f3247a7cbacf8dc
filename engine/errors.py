"""The exceptions that are sentences to a person."""


class InputError(Exception):
    """The input was wrong: one sentence to a person that names the thing and the way out.

    The command line turns it into exit code 2, in one place.
    """


class ExpressionError(InputError):
    """A target expression was wrong at ``position`` (0-based character)."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Failure(Exception):
    """The input was right and the work failed all the same: one sentence on why, and the way on.

    The command line turns it into exit code 1, in one place.
    """
