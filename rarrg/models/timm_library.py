"""timm, imported as where W&B is not installed.

timm's summary of a training, which rarrg does not use, imports W&B where it can: half a second that a report would
wait. Other modules of rarrg take timm from here.
"""

from __future__ import annotations

import sys

_WANDB = "wandb"
_imported = _WANDB in sys.modules
if not _imported:
    sys.modules[_WANDB] = None  # type: ignore[assignment]  # an import of it raises ImportError
try:
    import timm
    from timm.data import resolve_data_config
    from timm.models import save_for_hf
finally:
    if not _imported:
        del sys.modules[_WANDB]

__all__ = ["resolve_data_config", "save_for_hf", "timm"]
