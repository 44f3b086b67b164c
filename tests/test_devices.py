from __future__ import annotations

import pytest
import torch

from rarrg.devices import device_name, device_of, encoder_threads
from rarrg.errors import RarrgError


def test_a_gpu_index_must_exist(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(name) for name in ("auto", "cuda", "cuda:1")] == [
        torch.device(name) for name in ("cuda", "cuda", "cuda:1")
    ]
    for name in ("cuda:2", "cuda:99999999999"):
        with pytest.raises(RarrgError, match=f"device {name}: the GPUs here are cuda:0 to cuda:1"):
            device_of(name)


def test_devices_have_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert device_name(torch.device("cpu")).endswith(", 1 thread")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a GPU, {device.index}")
    assert device_name(torch.device("cuda:1")) == "a GPU, 1"


def test_threads_of_encoders_compute_alone_and_others_as_before():
    before = torch.get_num_threads()
    with encoder_threads(torch.device("cpu")) as (threads, alone):
        assert threads == before
        alone()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with encoder_threads(torch.device("cuda")) as (threads, _):
        assert threads == 1
