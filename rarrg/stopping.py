"""Lightning ends the process on Ctrl-C and on SIGTERM, the latter with status 0; here both are exceptions again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lightning.pytorch.utilities.exceptions import SIGTERMException

from rarrg.errors import Terminated


@contextmanager
def stoppable(how_on: str) -> Iterator[None]:
    """Run a Lightning trainer within.

    Args:
        how_on: How the work goes on after it was terminated.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        Terminated: After SIGTERM.
    """
    try:
        yield
    except SIGTERMException as error:
        raise Terminated(how_on) from error
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
