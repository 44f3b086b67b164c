"""What the words around a mention say of it: affirmed, denied, hedged, or neither.

Each rule is a pair of patterns, a trigger and what ends its reach: "no" reaches over a list up to the next verb or the
next finding of its own, "is not seen" reaches back to the verb before it.
"""

from __future__ import annotations

import re

_VERB = r"is|are|was|were|appears?|remains?|has|have|had|shows?|demonstrates?|reveals?|contains?"
_TURN = r"but|however|although|though|whereas|while|yet|which|except|other than|apart from|aside from|there(?:'s)?"
_WITH = r"(?<!consistent)(?<!compatible)(?<!associated) with\b"
_SEEN = (
    r"(?:seen|identified|visualized|visible|present|evident|appreciated|demonstrated|noted|detected|observed|found"
    r"|apparent|shown|suggested)"
)
# these begin a finding of its own: "no effusion, mild cardiomegaly", "no effusion and mild cardiomegaly"
_GRADED = (
    r"mild|mildly|moderate|moderately|minimal|tiny|stable|scattered|chronic|old|remote|healed|healing|degenerative"
    r"|unchanged|persistent|possible|probable|calcified|multiple|tortuous|again|status"
)
# and these after a comma, where no "or" follows: "no effusion, left basilar opacity"
_PLACED = (
    r"small|large|left|right|bilateral|bibasilar|basilar|streaky|patchy|increased|low|surgical|prominent|cardiomegaly"
)
_OWN = rf"(?:, (?:and )?| and )(?:the |an? )?(?:{_GRADED})\b"

_NO = re.compile(
    r"\b(?:no|without|negative for|(?:free|clear|absence|lack|resolution|removal|clearing) (?:of|from)|absent|nor"
    r"|neither|never|denies|(?:resolved|cleared|removed)(?! by)|not (?:show|demonstrate|reveal|have|contain)"
    rf"|not(?! (?:(?:\w+ )?{_SEEN}|(?:\w+ ){{0,2}}(?:changed?|well|limited|only|exclude|include)))"
    r"|clear(?= (?:focal |acute |any )*(?:air ?space|infiltrat|effusion|consolid|pneumo|opacit|nodul|mass)))\b"
)
_NO_ENDS = re.compile(
    rf"\b(?:{_VERB}|{_TURN}|due to|secondary to|because of|related to|after|following|status post|given|obscured by)\b"
    rf"|{_WITH}|{_OWN}|, (?:and )?(?:the |an? )?(?:{_PLACED})\b(?!.*(?:\bn?or\b|/))"
)
# words of negation that deny no finding: "no change in the effusion", "nearly resolved", "no hardware failure"
_NO_DENIAL = re.compile(
    r"\b(?:no|not|without)(?: \w+){0,3} (?:chang\w*|increase|decrease|progression|worsening|improvement|difference)\b"
    r"|\b(?:nearly|almost|near|partial|partially|incomplete\w*|some|not)(?: \w+)? (?:resol\w+|clear\w+|removed)\b"
    r"|\b(?:no|without)(?: \w+){0,3}"
    r"(?= (?:hardware|device|lead|catheter|line|tube) (?:complication|failure|loosening|malposition|migration))"
)
_NOT_SEEN = re.compile(
    rf"\b(?:not|no longer)(?: (?!well|clearly|fully|optimally)\w+)? {_SEEN}\b"
    r"(?! (?:on|in) (?:the |a |any )?(?:prior|previous|old|earlier))"
    r"|\b(?:resolved|cleared|removed|absent|(?:ruled|excluded)(?: out)?|disappeared)\b"
)
_NOT_SEEN_ENDS = re.compile(
    rf"\b(?:{_TURN}|with|without|shows?|demonstrates?|reveals?|cannot|can not|should)\b"
    r"|\b(?:is|are|was|were|has|have) (?!not|no\b|been|now|completely|since|also|resolved|cleared|removed|absent|seen)"
    r"|, and (?:the|there|prior|previous\w*)\b|\b(?:in|of|on) (?:the )?(?:prior|previous)"
)

# "possible small effusion" reaches to the end of its noun phrase
_POSSIBLE = re.compile(
    r"\b(?:less likely|possibl[ey]|possibility of|questionabl[ey]|question(?:ed)?(?: of)?|equivocal"
    r"|suspect(?:ed)?|presum\w+"
    r"|perhaps|suggestion of|suspicion (?:of|for))\b"
)
_POSSIBLE_ENDS = re.compile(
    rf"\b(?:{_VERB}|{_TURN}|with|without)\b| and (?!(?:\w+ ){{0,2}}(?:ribs?|lower|upper|lungs?|lobes?|bases?)\b)"
    r"|,(?![^,]*(?:,[^,]*)?\b(?:or|versus|vs)\b)"
)
# "may represent" reaches further
_MAY = re.compile(
    r"\b(?:may(?:be)?|might|could|(?:cannot|can not|can't|not|difficult to|unable to|not possible to)"
    r" (?:be )?(?:\w+ )?(?:exclude|rule out)|suspicious for|concern(?:ing)? (?:for|of)|worrisome for|favou?r\w*"
    r"|consider(?! (?:ct|chest|follow|further|repeat|dedicated|oblique))"
    r"|differential(?: diagnos[ei]s)?(?: considerations?)?(?: (?:also )?(?:includes?|is|are|of))?|versus|vs)\b"
)
_MAY_ENDS = re.compile(rf"\b(?:{_VERB}|{_TURN})\b|{_WITH}|{_OWN}")
_VERSUS = re.compile(r"(?:[ -]\w+){0,4}? (?:versus|vs)\b")
_VERSUS_ENDS = re.compile(
    r"\b(?:may|might|could|represent\w*|reflect\w*|likely|consistent|compatible|suggest\w*|xxxx|and)\b"
)
_UNDECIDED = re.compile(
    r"\b(?:cannot|can not|can't|not) (?:be )?(?:\w+ ){0,2}(?:excluded|ruled out)\b"
    r"|\b(?:is|are|be|was|were) (?:also )?(?:possible|probable|suspected|questioned|considered|questionable"
    r"|in the differential|(?:another|a|also a) (?:possibility|consideration))\b|(?<=s) suspected\b"
    r"|\bdifficult to (?:\w+ )?exclude\b|\bshould be (?:excluded|considered)\b"
    r"|\b(?:not (?:well|clearly|fully|optimally|adequately)|suboptimally|poorly|incompletely)[ -]"
    r"(?:seen|visualized|demonstrated|evaluated|defined|assessed)\b"
    r"|\b(?:may|might|could) (?:also )?(?:be present|have this appearance)\b"
)
_UNDECIDED_ENDS = re.compile(
    rf"\b(?:{_TURN}|with|may|might|could|shows?)\b(?! be (?:present|excluded))"
    r"|\b(?:is|are|was|were|has|have|remains?|appears?) (?!not|also|possible|probable|suspected|quest|consider|in the"
    r" diff|poorly|subop|incompl)|, "
)

_ASKED = re.compile(
    r"\b(?:(?:evaluat\w*|assess\w*|exam\w*|looking|look|screen\w*|search|correlat\w*(?: \w+)?|indication) for"
    r"|for (?:further )?(?:evaluation|assessment) of|(?<!cannot )(?<!can not )(?<!not )(?:rule[ds]? out|r/o)"
    r"|(?<!difficult )(?<!unable )(?<!possible )to (?:further )?(?:exclude|evaluate|assess|identify|confirm)"
    r"|(?:prior |past |known |given |patient's |clinical )*history of|h/o|recommend\w*|if there is|follow-?up of)\b"
)
_ASKED_ENDS = re.compile(rf"\b(?:{_VERB}|{_TURN}|with|without|no)\b|[,:]")
_ADVISED = re.compile(r"(?: \w+){0,3} (?:is|are|would be) (?:recommended|suggested|advised|needed)\b| protocol\b")


def unstated(sentence: str, start: int, end: int) -> bool:
    """Say whether a mention is neither affirmed nor denied: ``evaluate for``, ``history of``, ``is recommended``.

    Args:
        sentence: A lower-case sentence.
        start: Where the mention begins.
        end: Where it ends.
    """
    return _reaches(_ASKED, _ASKED_ENDS, sentence, start) or _ADVISED.match(sentence, end) is not None


def undecided(sentence: str, start: int, end: int) -> bool:
    """Say whether later words leave a mention open: ``is not excluded``, ``not well seen``, ``is suspected``."""
    return _follows(_UNDECIDED, _UNDECIDED_ENDS, sentence, end)


def denied(sentence: str, start: int, end: int) -> bool:
    """Say whether a mention is denied, by a word before it (``no``) or after it (``is not seen``, ``has resolved``)."""
    sentence = _NO_DENIAL.sub(lambda words: "#" * len(words[0]), sentence)
    return _reaches(_NO, _NO_ENDS, sentence, start) or _follows(_NOT_SEEN, _NOT_SEEN_ENDS, sentence, end)


def hedged(sentence: str, start: int, end: int) -> bool:
    """Say whether a mention is uncertain: ``possible``, ``may represent``, ``versus`` before or after it."""
    if _reaches(_POSSIBLE, _POSSIBLE_ENDS, sentence, start) or _reaches(_MAY, _MAY_ENDS, sentence, start):
        return True
    versus = _VERSUS.match(sentence, end)
    return versus is not None and _VERSUS_ENDS.search(versus[0]) is None


def _reaches(trigger: re.Pattern[str], ends: re.Pattern[str], sentence: str, start: int) -> bool:
    """Say whether a trigger stands before the mention, and nothing between them ends its reach."""
    return any(
        _unbroken(ends, sentence, found.end(), start) for found in trigger.finditer(sentence) if found.end() <= start
    )


def _follows(trigger: re.Pattern[str], ends: re.Pattern[str], sentence: str, end: int) -> bool:
    """Say whether a trigger stands after the mention, and nothing between them ends its reach."""
    return any(_unbroken(ends, sentence, end, found.start()) for found in trigger.finditer(sentence, end))


def _unbroken(ends: re.Pattern[str], sentence: str, start: int, end: int) -> bool:
    # the search sees the whole sentence: whether a comma ends a list depends on an "or" further on
    found = ends.search(sentence, start)
    return found is None or found.start() >= end
