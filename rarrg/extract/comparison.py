"""Wording that compares with an earlier study: when a phrase compares, and how a clause is put into the present.

The eighteen terms of :data:`COMPARISON_TERMS` (RA-RRG, table 4) are matched as whole words, in any case and without
stemming, so "degenerative changes" holds none of them. A term does **not** compare in these uses, and only in these:

* ``increased`` or ``decreased`` describes, against what is normal, a quantity that has a norm ("increased interstitial
  markings", "increased kyphosis", "decreased bone density", "increased AP diameter"): the quantity follows in the
  same noun phrase and no word of comparison ("since", "from", "compared", "in the interval") stands in the phrase.
  "Increased size", "increased opacity" and "increased effusion" compare: an opacity has no norm to exceed.
* ``change`` names a finding by its kind ("degenerative change", "postsurgical change", "atelectatic change").
* ``worse`` weighs one place against another in the same image ("left worse than right", "worse at the bases").
* ``prior`` or ``previous`` dates a disease or an operation ("prior granulomatous disease", "previous cabg"), not a
  study. The extractor goes further and writes "old" or nothing there, since a reader of the phrase cannot tell.

Everything else compares: "no change", "prior study", "stable", "again", "interval", "remain", and so on.
"""

from __future__ import annotations

import re

COMPARISON_TERMS: tuple[str, ...] = (
    "change",
    "unchanged",
    "prior",
    "stable",
    "interval",
    "previous",
    "again",
    "increased",
    "improve",
    "remain",
    "worse",
    "persistent",
    "removal",
    "similar",
    "earlier",
    "decreased",
    "recurrence",
    "redemonstrate",
)

_TERM = re.compile(rf"\b(?:{'|'.join(COMPARISON_TERMS)})\b")
QUANTITY = (
    r"(?:markings?|volumes?|diameters?|dimensions?|kyphosis|kyphotic|lordosis|curvature|density|densities|"
    r"mineralization|vascularity|vasculature|tortuosity|attenuation|lucency|lucencies|airspace(?! (?:disease"
    r"|opacit|consolid|infiltrat))|clear space|spaces?|"
    r"interstitium|heights?|vascular congestion|air trapping|angulation|thickness|caliber|translucency)"
)
_DESCRIPTION = (
    r"(?:degenerative|arthritic|osteoarthritic|arthropathic|postsurgical|postoperative|surgical|post-surgical|"
    r"post-operative|posttraumatic|post-traumatic|atelectatic|sclerotic|fibrotic|fibronodular|emphysematous|"
    r"atherosclerotic|inflammatory|hypertrophic|cystic|bullous|bronchitic|granulomatous|interstitial|spondylitic|"
    r"spondylotic|osteophytic|chronic|vertebroplasty|sternotomy|bony|parenchymal|expansile|calcific|endplate"
    r"|discogenic)"
)
_NOT_COMPARING = re.compile(
    rf"\b(?:increased|decreased)(?: [\w/-]+){{0,5}}? {QUANTITY}\b"
    rf"|\b{_DESCRIPTION}(?: (?:disc|disk|endplate|joint|spine|type|bony|calcific))* change\b"
    r"|\bworse (?:than(?: on| in)?(?: the)? (?:left|right)|(?:on|in|at|within|towards?) the)\b"
    r"|\b(?:prior|previous) (?!(?:[\w-]+ ){0,3}?(?:stud|exam|radiograph|film|imag|chest|ct\b|scan|report|x-ray))"
    r"[\w-]+"
)
_AGAINST_EARLIER = re.compile(r"\b(?:since|from|compared|comparison|in the interval|than (?:prior|before))\b")


def compares(phrase: str) -> bool:
    """Say whether a phrase holds one of the eighteen terms in a use that compares with an earlier study.

    Args:
        phrase: A phrase or a sentence, in any case.
    """
    text = phrase.lower()
    if not _TERM.search(text):
        return False
    against_earlier = _AGAINST_EARLIER.search(text) is not None
    kept = _NOT_COMPARING.sub(lambda use: use[0] if against_earlier and "creased" in use[0] else " ", text)
    return _TERM.search(kept) is not None


_ADDED = (
    r"(?:new|newly|continued|continuing|improved|improving|worsened|worsening|increasing(?:ly)?|decreasing|enlarging"
    r"|developing|progressing"
    r"|progressive(?! massive)|persisting|persistently|persists|remaining|remains|recurrent|constant|static|still"
    r"|as before|since|(?:larger|smaller|better)(?! (?:than|on|at|in)\b)|reduced|re-?demonstrated)"
)
_CHANGE = re.compile(
    rf"\b(?:{_ADDED}|improve(?:s|ment)|worsens|resolv(?:ed|es|ing)|resolution"
    r"|(?:development|persistence) of|continues? to|progress(?:ed|es|ion)"
    r"|no longer|previously|compared|comparison)\b(?!-)"
)
_TAKEN_OUT = re.compile(
    rf",? *\b(?:(?:is|are|was|were|has|have|been|now) )*(?:{_ADDED}|stable|unchanged|again|persistent)\b(?: in size)?"
)


def speaks_of_change(phrase: str) -> bool:
    """Say whether a phrase tells how something moved, in words beside the eighteen terms ("new", "improving").

    A language model that is told to leave these out (RA-RRG, figure 7) still writes them. Reports have uses of them
    that compare nothing ("larger on the left"), so that only what a model wrote is held to this.

    Args:
        phrase: A phrase or a sentence, in any case.
    """
    return _CHANGE.search(phrase.lower()) is not None


def without_change(phrase: str) -> str:
    """Take the words out that only say how something moved ("progressive left effusion", "effusion is larger").

    Args:
        phrase: A lower-case phrase.
    """
    return " ".join(_TAKEN_OUT.sub(" ", phrase).split())


_STUDY = (
    r"(?:stud(?:y|ies)|exam(?:ination)?s?|radiographs?|films?|images?|imaging|ct|scans?|x-rays?|priors?|prior"
    r"|¤(?! [a-z])|"
    r"one|mammograms?)"
)
_GRADE = (
    r"(?:(?:slightly|mildly|grossly|largely|essentially|relatively|significantly|substantially|markedly|"
    r"radiographically|overall|probably|moderately|somewhat|minimally|considerably|appreciably|¤) )*"
)
_SEEN = r"(?:seen|noted|described|identified|demonstrated|visualized|known|mentioned)"
_SIDES = r"(?!(?:the )?(?:left|right|contralateral|opposite|other))"
_TAIL = re.compile(
    rf"[,(]? *\b{_GRADE}(?:(?:is|are|was|were|has|have|been|appears?|remains?|which|that|and|but) )*"
    rf"{_GRADE}(?:when |as |in |with )*"
    rf"(?:compared|comparison|similar(?:ly)?(?= (?:to|in|as|when|compared|with)|$)|since|as (?:on"
    rf"|in) (?:the )?(?:prior|previous))"
    rf"(?: (?:with|to|from|in [a-z]+(?=,? (?:to|from)))\b)* *{_SIDES}[^,]*"
)
_FROM_EARLIER = re.compile(
    rf" *,? *\b(?:from|than|in|on|with|to|of|by) (?:the |a |an |patient's |his |her |most )*"
    rf"(?:prior|previous|recent|comparison|earlier|old|last|preceding)(?: (?:most|recent|available|chest|¤"
    rf"|outside|pa))*"
    rf"(?: {_STUDY}(?![\w-]))+(?: (?:of|from|dated|on|in|performed)\b.*)?"
    r"|,? *\b(?:from|than|on|to) (?:prior|previous)s?(?=$|,)"
    rf"|,? *\bthan (?:previously|before)\b(?: {_SEEN}\b)?"
    rf"|,? *\b{_SEEN} (?:previously|before)\b|,? *\bpreviously$"
    rf"|,? *\bfrom comparison(?: {_STUDY})?|,? *\b(?:over|in) the interval\b|,? *\bin interval\b"
    r"|,? *\bdating back\b.*$"
    r"|,? *\b\d+ (?:days?|weeks?|months?|years?) (?:ago|prior|earlier)\b"
)
_GONE = re.compile(
    r"\b(?:interval |¤ )*removal of\b|\b(?:has|have) (?:since |now )?been (?:subsequently |interval )?removed\b"
    r"|\b(?:was|were|been) removed\b|\bextubat|\binterval (?:retraction|repositioning)\b"
)
_AFTER_REMOVAL = re.compile(r",? *\b(?:after|following|post)(?: \w+){0,2} removal of\b.*$")
_RESOLVED = re.compile(
    r"^(?P<it>.+?) (?:has|have|had) (?:since |now |(?P<part>not |yet to |partially |largely |almost |mostly |nearly "
    r"|virtually )|completely |fully |entirely |essentially |totally )*(?:been )?(?:resolved?|cleared?"
    r"|disappear(?:ed)?)\b.*$"
    r"|^(?:there (?:is|has been) )?(?:(?P<most>near(?:ly)? |almost |partial |incomplete )|complete |interval )*"
    r"(?:resolution|clearing) of (?P<of>.+)$"
    r"|^(?P<longer>.+?) (?:is|are) no longer (?:seen|noted|visualized|identified|demonstrated|present|evident|visible"
    r"|appreciated|apparent|there)\b.*$"
)
_NOW = re.compile(
    r"^(?P<it>.+?),? (?:has|have|had) (?:[a-z]+ )?(?:increased|decreased|improved|worsened|progressed"
    r"|enlarged|changed|"
    r"grown|diminished)\b.*?(?:,|and|and is)? now (?P<size>[a-z]+(?: to [a-z]+)?)(?: in size)?$"
    r"|^(?P<still>(?!.*\bno\b).+), (?:now|still) (?P<large>tiny|trace|minimal|small|mild|moderate|large"
    r"|severe)(?: in size)?$"
)
_CHANGED = re.compile(
    rf",? *\b(?<!there )(?<!there)(?:and|but)? ?(?:(?:has|have|had|is|are|was|were|also|been|not|that"
    rf"|which) )+{_GRADE}"
    r"(?:increased|decreased|improved|worsened|progressed|changed|grown|enlarged in the interval|diminished"
    r"|developed|"
    r"increasing|decreasing|improving|worsening)(?: (?:slightly|significantly|substantially|considerably|markedly))?"
    r"(?: in (?:size|extent|severity|number|density|prominence|conspicuity))?"
)
_NOT_CHANGED_QUANTITY = re.compile(
    rf"^(?P<it>.*\b{QUANTITY}) (?:is|are) not (?:\w+ly )?(?P<how>increased|decreased|diminished|reduced)$"
)
_WAS_MEASURED = re.compile(
    r",? *\b(?:was|were|previously|formerly)(?: (?:previously|measured|measuring|was|about|approximately))* \d[\d.]* ?"
    r"(?:mm|cm)\b(?: (?:on|in|at) (?:the )?(?:prior|previous|comparison|earlier|last)\b.*)?$"
)
# what is not there again, or not left, is not there
_NO_RESIDUE = re.compile(r"\bno (?:evidence of )?(?:(?:residual|recurrent|recurrence of)(?: (?:or|and) )?)+ *(?:the )?")
_LESS = re.compile(
    rf"^(?:there (?:is|are) )?{_GRADE}(?:less|more|fewer) (?P<what>.+?) than (?:before|previously|(?:on |in"
    rf" )?(?:the )?prior)\b.*$"
)
_REPLACED = re.compile(r"^.+? (?:has|have) been replaced (?:by|with) ")
_FORMERLY = re.compile(
    r"^(?:the )?previously (?!seen|noted|described|identified|demonstrated|visualized)[a-z-]+ (?=.*\b(?:is|are) now\b)"
)
_THAN_BEFORE = re.compile(
    rf",? *\b(?:(?:is|are|appears?) )?{_GRADE}(?:(?:more|less) [a-z]+|lower|higher|larger|smaller|greater) than"
    rf" (?:(?:on|in|at) )?"
    rf"(?:the |a )?(?:prior|previous|comparison|earlier|last|before|previously)\b.*$"
)
_MOVED_TO = re.compile(
    r"\b(?:has|have) been (?:advanced|withdrawn|retracted|repositioned|pulled back|adjusted)\b(?:,? and(?: is)? now)?"
)
# "not seen on the prior study" says that it is here now
_NOT_BEFORE = re.compile(
    r",? *\b(?:which |that |and |but )?(?:(?:is|was|were|are|had|has|been) )*not (?:previously (?:\w+ ?)+$"
    r"|(?:[a-z]+ ){0,3}?"
    r"(?:seen|visualized|identified|present|evident|noted|demonstrated|appreciated|there)"
    r" (?:(?:on|in|at) (?:the |any |her |his |patient's )?(?:\w+ )?(?:prior|previous|comparison|earlier"
    r"|preceding|last)\b[^,()]*|previously|before)"
    r"[^,()]*)"
)
_NO_CHANGE = re.compile(
    r"^(?:there (?:is|has been|are) )?(?:no|without|with no) (?:significant |definite |appreciable |obvious "
    r"|interval |¤ )*(?:changes?|(?:improvement|worsening|progression|resolution)(?= (?:in|of)\b))"
    r"(?: is (?:found|seen))?(?: (?:in|of|to)| from)?(?: the)?(?: (?:appearance|position|size) (?:in|of)(?: the)?)?\b"
)
_WITHOUT_CHANGE = re.compile(
    r",? *\b(?:without|with no|no)(?: any)?(?: (?:significant|interval|definite|appreciable|¤))* (?:interval )?"
    r"(?:change|improvement|worsening|progression)s?(?: (?:in|of|from|since)\b.*)?$"
    r"|,? *\bwith (?:(?:significant|slight|mild|interval) )*(?:improvement|worsening|progression)(?: (?:in|of"
    r"|from|since)\b.*)?$"
)
_ADJECTIVE = (
    r"(?:developing|stable|unchanged|persistent|persistently|persisting|continued|continuing|new|newly|redemonstrated"
    r"|improved|improving|worsened|worsening|"
    r"resolving|increasing|decreasing|enlarging|interval|recurrent|similar|"
    rf"previously {_SEEN}|again|still"
    r"|redemonstration(?: of)?|"
    r"redemonstrates|redemonstrate|interval (?:development|increase|decrease|placement|appearance|change|performance|"
    r"improvement|worsening|progression|insertion) (?:of|in)|(?:development|worsening|progression"
    r"|improvement|persistence) (?:of|in))"
)
_LEADING = re.compile(
    rf"\b{_GRADE}{_ADJECTIVE}(?: (?:and|to|or) {_GRADE}{_ADJECTIVE})*,? +"
    r"(?:(?:in|of)? ?(?:the )?(?:appearance|position|positioning|placement|configuration|course"
    r"|location) of (?:the )?)?"
)
_TRAILING = re.compile(
    rf"[,(]? *\b(?:and |but |which |that |as |also )*(?:(?:is|are|was|were|has|have|been|appears?|remains?"
    rf"|also|both) )*"
    rf"(?:(?:seen|noted|demonstrated|identified|visualized) )?{_GRADE}(?:stable|unchanged|similar|persistent"
    rf"|redemonstrated|"
    rf"again (?:seen|noted|demonstrated|identified|visualized|present|evident|is seen)|again|persists?"
    rf"|improved|worsened|"
    rf"worsening|improving|stable to (?:de|in)creased|(?:in|de)creased(?= *(?:$|,))|worse(?! (?:than|on|in"
    rf"|at))(?: ¤)?|better|"
    r"smaller|larger|(?:more|less) (?:prominent|conspicuous|extensive|pronounced)(?= *(?:$|,)))"
    rf"(?: (?:in|with) (?:size|appearance|position|configuration|extent|contour|the appearance|size and appearance|"
    rf"size and contour|positioning|location|number|severity|¤)\b)*\)?(?= *(?:$|[,.)]|and |with |without ))"
)
_AGAIN_SEEN = re.compile(
    r"^(?:there (?:is|are) )?again,? ?(?:(?:seen|noted|demonstrated|identified|visualized) )?(?:(?:is"
    r"|are) )?(?:there (?:is|are) )?"
    r"|^redemonstration (?:of|is made of) "
)
_CHANGE_OF = re.compile(
    rf"\b(?:apparent |slight |mild |¤ )*(?:interval )?(?:{'increase|decrease|improvement|worsening|progression'}|"
    r"development|increased size|decreased size|changes?)(?: in size)? (?:in|of) (?:the )?(?:size of (?:the )?)?"
)
_IN_SIZE = re.compile(
    r",? *\b(?:mildly |slightly )?(?:in|de)creased in (?:size|number|extent|prominence|conspicuity)\b"
)
_OF_A_STUDY = re.compile(
    rf"\b(?:prior|previous|comparison|earlier|last|old) (?:[\w¤-]+ ){{0,3}}?{_STUDY}(?![\w-])(?! [a-z])"
    rf"|\bcomparison\b|\bcompared\b"
)
_CREASED = re.compile(
    rf"\b(?:diffusely )?{_GRADE}"
    r"(?:in|de)creased (?!(?:[\w/-]+ ){0,5}?" + QUANTITY + r"\b)(?:in size |size of (?:the )?)?"
)
_HISTORY = re.compile(
    r"\b(?:prior|previous) (?=(?:\w+ )?(?:granulomatous|granuloma|histoplasm|infect|inflamm|fracture"
    r"|rib fracture|trauma|"
    r"injur|tuberc|healed|pneumonia|gunshot|disease|process|exposure|avn|tb\b|insult|infarct))"
)


def to_present(clause: str) -> str:
    """Rewrite one lower-case clause to the present state.

    What only says how things moved comes back empty ("interval removal of the tube"); what is gone comes back negated
    ("the effusion has resolved"); what is there stays without the comparison ("stable mild cardiomegaly").

    Args:
        clause: A lower-case clause without a full stop, ``¤`` standing for a de-identification mark.
    """
    clause = _AFTER_REMOVAL.sub("", clause)
    if not clause or _GONE.search(clause):
        return ""
    clause = _NOT_BEFORE.sub("", clause)
    clause = re.sub(r"^(?:there is |there are )?(?:interval )?resolved ", "no ", clause)
    if resolved := _RESOLVED.match(clause):
        if resolved["part"] or resolved["most"]:
            return to_present(resolved["it"] or resolved["of"])
        it = to_present(resolved["it"] or resolved["of"] or resolved["longer"] or "")
        return f"no {_articles(it)}" if it else ""
    if now := _NOW.match(clause):
        it = _articles(to_present(now["it"] or now["still"]))
        return f"{now['size'] or now['large']} {it}" if it else ""
    if normal := _NOT_CHANGED_QUANTITY.match(clause):
        return f"no {normal['how']} {_articles(normal['it'])}"
    text = _NO_CHANGE.sub("", clause)
    text = _WAS_MEASURED.sub("", text)
    text = _NO_RESIDUE.sub("no ", text)
    text = _THAN_BEFORE.sub("", text)
    text = _MOVED_TO.sub("", text)
    text = _LESS.sub(r"\g<what>", text)
    text = _REPLACED.sub("", text)
    text = _FORMERLY.sub("", text)
    text = re.sub(r"\bworse (than|on|in|at)\b", r"greater \1", text)
    text = re.sub(r"^no (?:new|¤ new|newly|worsening|increasing|additional|interval)\b.*", "", text)
    text = re.sub(r"\bno (?:new or acute|acute or new)\b", "no acute", text)
    text = _WITHOUT_CHANGE.sub("", text)
    text = re.sub(r"\b(?:no|without) (?:new|interval|worsening|increasing)\b.*", "", text)
    text = re.sub(
        r"^compar(?:ed|ison|ing)\b[^,]*,|^since (?:the |prior|previous)[^,]*,|^in the interval,", "", text
    ).strip()
    text = _TAIL.sub("", text)
    text = _FROM_EARLIER.sub("", text)
    text = _AGAIN_SEEN.sub("", text)
    text = _CHANGED.sub(_keep_quantity, text)
    text = _IN_SIZE.sub("", text)
    text = _TRAILING.sub(lambda tail: _keep_quantity(tail) or " ", text)
    text = _CHANGE_OF.sub("", text) if "change" not in text or "interval" in text else text
    text = re.sub(r"\bremains?\b", lambda verb: "is" if verb[0].endswith("s") else "are", text)
    text = re.sub(r"\bcontinue(s?) to be\b", lambda verb: "is" if verb[1] else "are", text)
    text = re.sub(
        r"\b(?:persists?|continues?) (?=(?:in|at|within|over|along|on|near|throughout|involving)\b)", "", text
    )
    text = _LEADING.sub("", text)
    text = _HISTORY.sub("old ", text)
    text = re.sub(r"\b(?:prior|previous|previously) (?!" + _STUDY + r"\b)(?=[a-z])", "", text)
    text = _CREASED.sub("", text)
    text = re.sub(rf"^(?:an? )?{_GRADE}(?:smaller|larger) (?!.*\b(?:smaller|larger|than)\b)", "", text)
    text = re.sub(r"\b(?:still|again|interval)\b|\bdisease progression\b", "", text)
    text = " ".join(text.split()).strip(" ,")
    return "" if _OF_A_STUDY.search(text) else text


def _keep_quantity(change: re.Match[str]) -> str:
    """``the markings are increased`` describes; ``have increased`` compares, and so does ``the mass is increased``."""
    stands = re.match(r" *(?:is|are|was|were) (?:\w+ly )?(?:increased|decreased|diminished)$", change[0])
    return change[0] if stands and re.search(rf"\b{QUANTITY}$", change.string[: change.start()].rstrip()) else ""


def _articles(text: str) -> str:
    return re.sub(r"^(?:the|a|an|this|these|that|those) ", "", text)
