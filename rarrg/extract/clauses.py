"""One sentence -> clauses, each with one statement, ready to be read as a phrase."""

from __future__ import annotations

import re

_COPULA = r"(?:is|are|was|were|appears?|appear to be|appears to be|looks?)"
_OTHER = (
    r"(?:the |both |visualized )?(?:\w+ ){1,4}?(?:is|are|has|have|appears?|normal|within|unremarkable|intact|clear)\b"
)
_HARD = re.compile(
    r",? *\b(?:but|although|though|however|while|whereas|aside from|except for|apart from|other than"
    r"|with the exception of|causing|resulting in|"
    r"producing|leading to)\b,? *(?:they are |it is |they |it )?"
    r"|,? *\band associated (?=\w)"
    r"|,? *\band (?=(?:resolution|clearing|removal|improvement|worsening|progression|development|placement) of\b)"
    r"|,? *\band (?=(?:the )?(?:previously|prior) [^,]*\b(?:has|have|is|are)\b)"
    r"|,? *\band (?=(?:there (?:is|are)|no\b|without\b|with no\b|negative for))"
    r"|, (?=(?:there (?:is|are)|no\b|negative for|with no\b))|(?<=\w) (?=there (?:is|are) )"
    r"|(?<=\w) (?=the (?:lungs|heart|cardio\w+|mediastinum) (?:is|are) )"
    rf"|(?<=\bnormal limits)(?:, | and )(?={_OTHER})|(?<=\bnormal)(?:, | and )(?={_OTHER})"
    rf"|(?<=\bunremarkable)(?:, | and )(?={_OTHER})"
    r"|,? *\bas (?:are|is|well as) (?:the )?(?=normal)"
    r"|,? *\b(?:which|that) (?=(?:may|might|could|likely|probably|possibly|suggest))"
)
_NO_WITH = re.compile(
    r",? *\b(?:and |but )?(?:otherwise )?(?:with )?(?=without\b|with no\b|negative for|no (?!longer))"
    r"(?<! is )(?<! are )(?<!with )(?<!show )(?<!shows )(?<!strate )(?<!strates )"
    r"(?<!reveal )(?<!reveals )(?<!have )(?<!has )(?<!appear )(?<!appears )(?<!are grossly )"
    r"(?<! are otherwise )(?<! is otherwise )"
)
_BARE_WITH = re.compile(
    r",? *\b(?:along |together )?"
    r"(?<!compared )(?<!comparison )(?<!compatible )(?<!consistent )(?<!comparing )(?<!associated )(?<!continuous )"
    r"with (?!(?:the |its |their |a |distal |catheter |lead |intact )*(?:tips?|leads?|distal|side|"
    r"adjacent|a? ?history|normal (?:aging|limits)|respect|contrast|the exception|patient|age|underlying|"
    r"superimposed|surrounding|predominan|air-fluid|at least|¤ lumen|¤ tip|¤))"
    r"(?:(?:some |mild )?(?:(?:overlying|associated|resultant|resulting|subsequent|accompanying|secondary"
    r"|concurrent) )?)?"
)

NO = r"(?:no|without|negative for|free of|free from|clear of|absence of|with no|devoid of)"


def split_clauses(sentence: str) -> list[str]:
    """Split one sentence where another statement begins; lists under one negation or one predicate stay together.

    Args:
        sentence: A sentence of :func:`rarrg.extract.sentences.sentences`.
    """
    pieces = [sentence]
    for pattern in (_HARD, _NO_WITH, _BARE_WITH):
        pieces = [part.strip(" ,") for piece in pieces for part in _split(pattern, piece)]
    return [part for piece in pieces for part in _split_statements(piece) if part]


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    parts = [part for part in pattern.split(text) if part and part.strip(" ,")]
    # "with" under a negation belongs to it: "no effusion with atelectasis" does not affirm atelectasis
    if pattern is _BARE_WITH and re.match(rf"(?:there (?:is|are) )?{NO}\b", text):
        return [text]
    return parts


_BREAK = re.compile(r"(, (?:and )?| and )")
_VERB = re.compile(rf"\b(?:{_COPULA}|has|have|had|persists?|remains?|resolved)\b")


_MORE_STATE = re.compile(
    r"(?:size|contours?|configuration|appearance|clear|calcified|tortuous|ectatic|intact|expanded|course"
    r"|normal|stable|unchanged|"
    r"within normal limits)(?: (?:in \w+|bilaterally))?$"
)


def _split_statements(text: str) -> list[str]:
    """``the heart is normal, the aorta is tortuous and calcified`` -> one clause a verb, lists left whole."""
    if len(_VERB.findall(text)) < 2:
        return [text]
    pieces = _BREAK.split(text)
    groups: list[str] = [pieces[0]]
    for index in range(1, len(pieces), 2):
        separator, piece = pieces[index], pieces[index + 1]
        ahead = any(_VERB.search(later) for later in pieces[index + 1 :: 2])
        closed = _VERB.search(groups[-1]) is not None
        if (
            closed
            and ahead
            and "between" not in groups[-1]
            and _VERB.match(piece) is None
            and not _MORE_STATE.match(piece)
            and not piece.startswith(("which ", "that ", "who "))
        ):
            groups.append(piece)
        else:
            groups[-1] += separator + piece
    return groups
