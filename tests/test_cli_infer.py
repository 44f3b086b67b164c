from __future__ import annotations

import pytest

from rarrg.cli_infer import plain_words


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        (["--frontal", "a.jpg"], ["--frontal+=a.jpg"]),
        (["--frontal=a.jpg"], ["--frontal+=a.jpg"]),
        (
            ["--frontal", "a.jpg", "b.jpg", "--lateral", "c.jpg", "--threshold", "0.3"],
            ["--frontal+=a.jpg", "--frontal+=b.jpg", "--lateral+=c.jpg", "--threshold", "0.3"],
        ),
        (["--frontal=a.jpg", "b.jpg"], ["--frontal+=a.jpg", "--frontal+=b.jpg"]),
        (["--allow-host", "gpu1"], ["--allow_hosts+=gpu1"]),
        (["--findings"], ["--findings=true"]),
        (["--findings", "--resolve", "nothing"], ["--findings=true", "--resolve", "nothing"]),
        (["--model", "runs/demo"], ["--model", "runs/demo"]),
        (["--frontal"], ["--frontal"]),
    ],
)
def test_words_are_spelled_as_the_parser_knows_them(given, spelled):
    assert plain_words(given) == spelled
