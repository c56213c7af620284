"""The exceptions of attnctl. Each has the one-line message and the exit status of the command."""

from __future__ import annotations


class Error(Exception):
    """An error of attnctl: a wrong argument, a damaged or missing file, or too little memory.

    ``status`` is the exit status with which the command ``attnctl`` ends after the same error: 2 for a wrong
    argument, 3 for a file or an input with invalid content, 4 for a file or library that cannot be found, read or
    written, 5 for a limit of memory or size, 6 for numbers that are not finite, and 7 for a difference.
    """

    status: int = 3

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UsageError(Error, ValueError):
    """An argument is wrong (status 2)."""

    status = 2


class InputError(Error, ValueError):
    """A file or an input has invalid content (status 3)."""

    status = 3


class FileError(Error, OSError):
    """A file or library cannot be found, read or written (status 4)."""

    status = 4


class LimitError(Error, MemoryError):
    """The work needs more memory or a larger size than is allowed (status 5)."""

    status = 5


_CLASSES: dict[int, type[Error]] = {2: UsageError, 3: InputError, 4: FileError, 5: LimitError}


def make_error(status: int, message: str) -> BaseException:
    """Return the exception of an error of the C++ library, which calls this function."""
    if status == 130:
        return KeyboardInterrupt(message)
    error = _CLASSES.get(status, Error)(message)
    error.status = status
    return error
