"""The words of ``infer.py``, spelled as the parser knows them."""

from __future__ import annotations

from collections.abc import Sequence

SEVERAL = {"--frontal": "--frontal+", "--lateral": "--lateral+", "--allow-host": "--allow_hosts+"}
FLAGS = ("--findings",)


def plain_words(argv: Sequence[str]) -> list[str]:
    """Spell ``--frontal a.jpg b.jpg`` as a list of two, and a flag without a value as true.

    Args:
        argv: Words after the command.
    """
    words: list[str] = []
    listing = ""
    for word, after in zip(argv, [*argv[1:], "--"], strict=True):
        name, equals, value = word.partition("=")
        if name in SEVERAL:
            listing = SEVERAL[name]
            if equals:
                words.append(f"{listing}={value}")
            elif after.startswith("--"):
                words.append(name)  # the parser says what lacks
        elif word.startswith("--"):
            listing = ""
            words.append(f"{word}=true" if word in FLAGS and after.startswith("--") else word)
        else:
            words.append(f"{listing}={word}" if listing else word)
    return words
