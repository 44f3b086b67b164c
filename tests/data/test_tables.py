from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rarrg.data.tables import read_rows
from rarrg.errors import RarrgError


def refusal(path: Path) -> str:
    with pytest.raises(RarrgError) as caught:
        list(read_rows(path, ("b", "a")))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_columns_come_in_the_order_asked_for_with_line_numbers(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text('\ufeffa,b,c\n1,2,3\n\n"two\nlines",5,6\n', encoding="utf-8")
    assert list(read_rows(path, ("b", "a"))) == [(2, ["2", "1"]), (5, ["5", "two\nlines"])]


def test_gzipped_table(tmp_path: Path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\r\n1,2\r\n"))
    assert list(read_rows(path, ("a",))) == [(2, ["1"])]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no column 'b' (columns: none)"),
        (b"a,c\n1,2\n", "no column 'b' (columns: a, c)"),
        (b"a,b\n1,2\n1\n", "line 3: has 1 fields, the header has 2"),
        (b"a,b\n1,2,3\n", "line 2: has 3 fields"),
        (b"a,b\n1,\xff\n", "not UTF-8"),
        (b'a,b\n1,"2\n', "not a valid CSV"),
    ],
)
def test_broken_tables(tmp_path: Path, text: bytes, words: str):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    assert words in refusal(path)


def test_missing_file(tmp_path: Path):
    assert "cannot be read" in refusal(tmp_path / "t.csv")


def test_gzip_that_is_none_and_gzip_cut_short(tmp_path: Path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"a,b\n1,2\n")
    assert "cannot be read" in refusal(path)
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-12])
    assert "broken gzip" in refusal(path)
