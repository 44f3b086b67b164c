"""Roundabout denials of a report -> the plain one: "nothing to suggest pneumonia" -> "no pneumonia".

The rules, the labeler of findings and the grounding check all read "no" in front of a finding; what says the same, or
takes a denial back, in other words is put so for the three of them alike.
"""

from __future__ import annotations

import re

_SEEN = r"(?:seen|noted|identified|visualized|demonstrated|present|evident|visible|appreciated|apparent|there)"
_SHOWS = r"(?:shows?|demonstrates?|reveals?|contains?|has|have)"
_A = r"(?:an? |any |the )?"
_VERB = (
    r"(?:is|are|was|were|be|been|has|have|had|shows?|with|without|no|not|cannot|can|may|could|but|and|there|that|which)"
)
# a noun phrase without a verb, from where its clause begins
_SUBJECT = (
    rf"(?P<start>^|[,;:] (?:and |but |so )?|\b(?:and|but|so|that) ){_A}(?P<it>(?:(?!{_VERB}\b)[\w/-]+"
    rf" ){{0,6}}?(?!{_VERB}\b)[\w/-]+)"
)
_NOT_ABOUT = (
    r"(?:not (?:consistent|compatible) with|not suggestive of"
    r"|(?:unlikely|not likely) to (?:be|represent|reflect|indicate))"
)
_ORGAN = r"(?:lungs?|hemithorax|side|costophrenic angle|apex|base|pleural space)"

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\bnot only (?:is|are|was|were) there (.+?),? but also\b", r"there is \1 and"),
        (r"\bnot only (.+?),? but also\b", r"\1 and"),
        # twice denied
        (rf"^no (.+?) (is|are) not {_SEEN}$", r"\1 \2 present"),
        (r"\b(is|are) not absent\b", r"\1 present"),
        (r"\bnot (?:without|free (?:of|from)|clear of|devoid of|negative for)\b", "with"),
        (rf"\bthere (is|are|was|were) (?:not|no longer) {_A}", r"there \1 no "),
        (rf"\bthere (is|are|was|were)n't {_A}", r"there \1 no "),
        (rf"\bit does not appear that there (?:is|are) {_A}", "there is no "),
        (
            rf"\b(?:there is )?nothing (?:to (?:suggest|indicate)|suggesting|suggestive of|(?:suspicious"
            rf"|concerning) for) {_A}",
            "no ",
        ),
        (
            rf"\bit is (?:\w+ )?unlikely that (?:this|these|it|there)(?: findings?)? (?:represents?|reflects?|is"
            rf"|are) {_A}",
            "no ",
        ),
        (
            rf"(?:^|,? *\b)(?:(?:which|that|this|these|it|the findings?|findings?) )?(?:\b(?:is|are)"
            rf" )?\b{_NOT_ABOUT} {_A}",
            ", no ",
        ),
        (
            rf"{_SUBJECT}(?: (?:is|are|was|were))?(?: (?:felt|thought|considered)(?: to be)?)?(?: \w+ly)?"
            rf" unlikely\b(?! to\b)",
            r"\g<start>no \g<it>",
        ),
        (rf"{_SUBJECT} (?:is|are|was|were|has been|have been) (?:excluded|ruled out)\b", r"\g<start>no \g<it>"),
        (rf"{_SUBJECT}(?: (?:is|are|has|have))?(?: now)? gone\b", r"\g<start>no \g<it>"),
        (rf"^{_A}([\w/ -]{{3,60}}?)(?: ?:| -+) ?none(?: {_SEEN})?$", r"no \1"),
        (rf"\bneither (?:of the )?{_ORGAN} {_SHOWS} {_A}", "there is no "),
        (r"\b(is|are|was|were) neither ([\w-]+) nor ([\w-]+)\b", r"\1 not \2 or \3"),
        (rf"\b(is|are|was|were) no longer (?!{_SEEN}\b)", r"\1 not "),
        (r"\bnon-?enlarged (heart|cardiac silhouette)\b", r"\1 is not enlarged"),
    )
)

# a word of each form, of which most sentences have none
_CUE = re.compile(
    r"unlikely|no[tn]|nei|n't|gone|longer|excluded|ruled|but|though|while|whereas|than|except|from|exception"
)
_TURN = re.compile(
    r",? *\b(?:but|although|though|while|whereas|other than|except(?:ing)?(?: for)?|aside from|apart from"
    r"|with the exception of) "
)
_NAMED = re.compile(
    rf"^(?:there (?:is|are) )?(?:(?:no|without) )?(?:(?:evidence|signs?) of )?{_A}(?:definite |significant |other )*"
    rf"(?:left |right |bilateral )?(?P<name>(?!there\b|left\b|right\b)[a-z-]+(?: [a-z-]+)??)"
    rf"(?: (?:on|in|at) (?:the |either |both )?\w+)?(?: (?:is|are|was|were) (?:not )?(?:{_SEEN}|absent))?"
    r"(?: (?:on|in|at) (?:the |either |both )?\w+)?$"
)
_ONE = re.compile(r"\bone\b(?! (?:of|or|and|to|cm|mm|centimeter)\b)")
_ELLIPSIS = re.compile(
    rf"^(?:(?:is |are )?(?:{_SEEN} )?(?P<where>(?:on|in|at) the (?:left|right)\b.*)"
    r"|(?P<size>(?:an? )?(?:small|tiny|trace|minimal|mild|moderate|large)) (?P<there>(?:on|in|at) the (?:left"
    r"|right)\b.*))$"
)
_EXCEPTION = re.compile(r"\b(?:than|except|from|exception)")
_DENIED = re.compile(r"\b(?:no|without|not|absent)\b")


def plain_denials(sentence: str) -> str:
    """Put the denials of a sentence plainly.

    Args:
        sentence: A lower-case sentence, or a phrase, without its full stop.

    Returns:
        The sentence with "no" before what it denies, and with the finding named again where "one" stands for it behind
        a denial ("no effusion on the right but one on the left").
    """
    if _CUE.search(sentence):
        for pattern, text in _FORMS:
            sentence = pattern.sub(text, sentence)
        sentence = _named_again(sentence.strip(" ,"))
    return sentence


def _named_again(sentence: str) -> str:
    turn = _TURN.search(sentence)
    if turn is None:
        return sentence
    denial, other = sentence[: turn.start()], sentence[turn.end() :]
    named = _NAMED.match(denial)
    if named is None or not _DENIED.search(denial):
        return sentence
    name = _single(named["name"])
    if _ONE.search(other):
        other = _ONE.sub(name, other, count=1)
    elif left_out := _ELLIPSIS.match(other):
        other = f"{left_out['size'] or ''} {name} {left_out['where'] or left_out['there']}".strip()
    else:
        return sentence
    # "no effusion other than on the left" says nothing of the left in its first part
    return other if _EXCEPTION.search(turn[0]) else f"{denial} but {other}"


def _single(name: str) -> str:
    for plural, single in (("thoraces", "thorax"), ("ies", "y"), ("ss", "ss"), ("is", "is"), ("s", "")):
        if name.endswith(plural):
            return name.removesuffix(plural) + single
    return name
