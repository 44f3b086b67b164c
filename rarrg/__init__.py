"""Report generation for chest X-rays by phrase retrieval (RA-RRG)."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["ReportGenerator", "__version__"]

if TYPE_CHECKING:
    from rarrg.pipeline import ReportGenerator


def __getattr__(name: str) -> object:
    # torch takes seconds to import; `import rarrg` and `rarrg --help` must not pay for it.
    if name == "ReportGenerator":
        from rarrg.pipeline import ReportGenerator

        return ReportGenerator
    raise AttributeError(f"module 'rarrg' has no attribute {name!r}")
