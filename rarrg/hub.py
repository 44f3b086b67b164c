"""What to say when the Hugging Face hub gives no model."""

from __future__ import annotations

from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
from safetensors import SafetensorError

from rarrg.errors import RarrgError

# Everything that transformers, sentence-transformers and huggingface_hub raise for a model that cannot be had: hub
# errors are OSErrors, malformed ids and unknown architectures ValueErrors. A failed connection is the HTTPError of the
# client that huggingface_hub is built on (httpx or its successor), or with requests, before 1.0, an OSError.
LOAD_ERRORS = (OSError, ValueError, HTTPError, SafetensorError)


def first_line(error: Exception) -> str:
    """First line of an error's message without its full stop, or the error's name where it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def unavailable(name: str, error: Exception, otherwise: str) -> RarrgError:
    """One line for a model that the hub did not give.

    Args:
        name: The model's name as the user wrote it.
        error: What was raised.
        otherwise: What to use in its place, as ``a local folder``.
    """
    return RarrgError(
        f"{name}: cannot be had from the Hugging Face hub ({first_line(error)}); check the name, log in "
        f"(hf auth login) where it asks for that, see that HF_HUB_OFFLINE is not set, or give {otherwise}"
    )
