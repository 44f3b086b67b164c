"""From a configuration to the writer it asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rarrg.llm.backends import open_backend
from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Backend, Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.metrics.findings import label_findings
from rarrg.report.streaming import DraftStream
from rarrg.report.writing import JoinWriter, LLMWriter, Writer
from rarrg.writer_config import WriterConfig


def open_writer(config: WriterConfig, credentialed: bool, hear: Callable[[str], None] | None = None) -> Writer:
    """Open the writer that a configuration names.

    Phrases of credentialed data go to this machine and to ``allow_hosts`` only.

    Args:
        config: The writer.
        credentialed: The phrases are of data that must stay on this machine.
        hear: Gets each piece of a draft as it is written, where the backend does so; for one study at a time.

    Raises:
        RarrgError: A package, the model or the server cannot be had, or phrases may not go to the server.
    """
    if config.writer == "join":
        return JoinWriter(label_findings)
    policy = EndpointPolicy(credentialed, tuple(config.allow_hosts))
    return llm_writer(config, open_backend(config.llm, policy, None if hear is None else DraftStream(hear).hear))


def llm_writer(config: WriterConfig, backend: Backend) -> LLMWriter:
    """A writer that asks a backend.

    Args:
        config: How it asks.
        backend: The language model.
    """
    llm = config.llm
    return LLMWriter(
        backend,
        Sampling(llm.temperature, llm.top_p, llm.max_tokens, llm.seed),
        llm.attempts,
        config.examples,
        label_findings,
        None if llm.cache is None else ReplyCache(Path(llm.cache)),
    )
