from __future__ import annotations

import gc

import pytest

from rarrg.memory import no_collection


def test_the_collector_is_as_it_was_afterwards() -> None:
    with no_collection():
        assert not gc.isenabled()
        with no_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"), no_collection():
        raise ValueError("broken")
    assert gc.isenabled()
