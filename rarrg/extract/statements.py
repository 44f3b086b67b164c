"""One clause of the present state -> its noun phrases: negation in front, uncertainty in front, predicate in front."""

from __future__ import annotations

import re

from rarrg.extract.clauses import NO
from rarrg.extract.coordination import split_findings
from rarrg.extract.lexicon import (
    ADJECTIVES,
    ADVERBS,
    AFFIRMING,
    drop_seen,
    has_finding,
    has_head,
    is_anatomy,
    tidy,
)
from rarrg.extract.negation import negated_list
from rarrg.extract.organs import (
    ASPECT_OF,
    bare_name,
    members_of,
    names_organ,
    normal_organs,
    organ_name,
)
from rarrg.extract.spelling import MARK

_THERE = re.compile(
    r"^(?:(?:and|also|additionally|again|then|or|,) )*(?:(?:there|it|this|these|they|which|that"
    r"|what) )?(?:appears? to be|appear to|"
    r"(?:(?:may|might|could) be)?(?:is|are|was|were|has been|have been|had been|noted|seen|identified"
    r"|note(?:d)? (?:is|are)|"
    r"demonstrates?|shows?|reveals?|exhibits?|contains?|suffered|undergone)(?: (?:is|are|to be|also|once))*) "
)
_PRONOUN = re.compile(
    r"^(?:the )?(?:this|these|those|that|it|its|which|they|both|findings?|one|appearance|all|there|study"
    r"|result|remainder|rest)\b(?: (?:finding|findings|appearance|area|areas|exam|examination|study|of the exam)s?)?$"
)
_DEMONSTRATES = re.compile(
    r"^(?P<subject>.{2,80}?) (?:show|shows|showing|demonstrate|demonstrates|demonstrating|reveal|reveals"
    r"|exhibits?|contain|contains|have|has) (?P<what>(?!been\b).+)$"
)
_NEGATED = re.compile(rf"^(?:{NO})(?: (?:any|the|a|an))?\b *(?P<body>.*)$")
_NOT_SEEN = re.compile(
    r"^(?P<it>.+?),? (?:(?:is|are|was|were|has been|have been) )?(?:not|never) (?:been )?(?:\w+ly )?"
    r"(?:seen|identified|visualized|present|evident|noted|demonstrated|appreciated|detected|apparent|observed"
    r"|found|visible)\b(?P<rest>.*)$"
    r"|^(?P<absent>.+?) (?:is|are) absent\b(?P<where> (?:on|in|at) the \w+)?.*$"
)
_NOT_ADJECTIVE = re.compile(r"^(?P<it>.+?) (?:is|are|does|do|has|have)(?: not|n't) (?P<how>.+)$")
_NOT_EXCLUDED = re.compile(
    r"^(?P<it>.+?) (?:cannot|can not|can't|could not|may not|is not|are not|not)(?: entirely"
    r"| completely)?(?: be)?(?: entirely| completely| definitely| fully)? (?:excluded|ruled out)\b.*$"
    r"|^(?P<hard>.+?) (?:is|are) difficult to (?:exclude|rule out)\b.*$"
)
_WORDS_OF_DOUBT = (
    r"(?:(?:most |very |quite )(?=likely|compatible|consistent|suggestive|probably))?(?:may|might|could"
    r"|possibly|possible|probably|probable|likely|suggests?|suggesting|suggestive|"
    r"concerning|concern|suspicious(?= for)|worrisome|compatible|consistent|questionable|questioned|question"
    r"|suspected|presumed|"
    r"presumably|perhaps|either|suggestions?(?= of)|favor(?:ed|s|ing)?|cannot exclude|equivocal|apparently"
    r"|conceivably)"
)
_DOUBT = re.compile(
    rf"(?P<before>^|^.*?[\s,(])(?P<cue>(?:(?:which|that|and|or|this|these|findings?|finding|is|are|was|were"
    rf"|raising|a|the|some|as|to|appears?|has|appearance) )*{_WORDS_OF_DOUBT}\b"
    r"(?: (?:of|for|with|to|that|be|been|have|has|represents?|representing|representative|reflects?"
    r"|reflecting|relates?|related|indicates?|indicate|accounted|due|secondary|from|"
    r"is|are|in part|partly|partially|also|a|an|the|some|because|resulting|by|suggest|history|indicative"
    r"|about|there|an area|area|element|component|underlying|combination|just)\b)*) *(?P<after>.*)$"
)
_REPRESENTS = re.compile(
    r"^(?P<before>.+?),? (?:represents?|representing|reflects?|reflecting) (?:the |an? )?(?P<after>.+)$"
)
_NORMAL = re.compile(
    r"^(?:normal|unremarkable|(?:with)?in (?:the )?(?:normal|limits? of normal)|of normal|maintained"
    r"|preserved|negative$|"
    r"not remarkable|without (?:acute )?abnormalit)(?!ly)"
)
_UPPER_LIMIT = re.compile(
    r"(?:(?:at|near|towards?|within|of|in|to|on|is|the|¤) )*(?:upper(?:[ -]limits?)?(?: of| range of"
    r"| limits)? ?(?:the )?normal(?: limits?)?|top(?:s)?[ -](?:of[ -])?normal(?: limits)?"
    r"|borderline(?: (?:in size|enlarged|large|normal|prominent|cardiomegaly))?)\b"
)
_BARE_STATE = re.compile(
    r"^(?P<subject>.+?) (?P<state>(?:grossly |otherwise |both |all )*(?:normal|unremarkable|clear|intact"
    r"|midline|(?:with)?in (?:the )?(?:normal limits|limits of normal|normal range)|of normal (?:size|contour"
    r"|caliber|appearance)|"
    r"(?:at |near |towards? )*(?:the )?upper limits? (?:of )?normal|top normal)(?:,? (?:in|for|of) (?:[\w ]+)"
    r"| in (?:size|contour))?(?: bilaterally)?(?:,? and (?:contour|configuration|clear|expanded|intact"
    r"|unremarkable))?)$"
)
_PREDICATE = re.compile(
    r"^(?P<subject>.+?),? (?:is|are|was|were|appears?(?: to be)?|looks?|remains?|seems?)(?: (?:is|are|to be"
    r"|noted to be|seen to be|also|again))* (?P<state>.+)$"
)
_SEEN = re.compile(
    r"^(?:also |again |once again |best |better |incidentally |partially |well |easily |clearly )*"
    r"(?:seen|noted|identified|present|visualized|demonstrated|evident|found|appreciated|shown|observed"
    r"|visible|apparent|there)\b *(?P<rest>.*)$"
)
_STATE_DETAIL = re.compile(
    r"\b(?:for (?:the )?(?:patient'?s? )?(?:age|technique|appearance|size|contour|degree of inspiration|¤).*"
    r"|in (?:appearance|configuration|caliber|course|position|shape|morphology)\b.*)"
)


def read_statement(clause: str) -> list[str]:
    """Read the noun phrases of one clause.

    Args:
        clause: A lower-case clause of the present state.

    Returns:
        Phrases that state something, "no" or "possible" in front; not yet in their one surface form.
    """
    return [phrase for raw in _read(clause.strip(" ,.-"), 0) if (phrase := tidy(raw))]


def _read(clause: str, depth: int) -> list[str]:
    if not clause or depth > 8:
        return []
    text = _THERE.sub("", clause, count=1) if not clause.startswith("no ") else clause
    if negated := _NEGATED.match(text):
        return _negated(negated["body"], depth)
    if excluded := _NOT_EXCLUDED.match(text):
        return [f"possible {excluded['it'] or excluded['hard']}"]
    if unseen := _NOT_SEEN.match(text):
        if re.search(r"\b(?:lateral|frontal|pa|ap|view|well)\b", unseen["rest"] or ""):
            # "a nodule seen on the frontal view, not identified on the lateral view" is there
            found = re.match(r"(?P<it>.+?) (?:is |are )?(?:seen|visualized|identified|noted)\b", unseen["it"] or "")
            return _read(found["it"], depth + 1) if found else []
        if re.search(r"\b(?:seen|noted|identified|present|visualized|demonstrated)\b,?$", unseen["it"] or ""):
            # "an opacity is noted, not evident elsewhere"
            return _read(unseen["it"].rstrip(", "), depth + 1)
        return _negated(unseen["it"] or f"{unseen['absent']}{unseen['where'] or ''}", depth)
    if shows := _DEMONSTRATES.match(text):
        return _shown(shows["subject"], shows["what"], depth)
    if refused := _NOT_ADJECTIVE.match(text):
        return _not_so(refused["it"], refused["how"])
    if doubt := _DOUBT.match(text):
        return _doubted(doubt, depth)
    if named := _REPRESENTS.match(text):
        # a reading given for certain, unless it names alternatives
        sure = "" if " or " not in named["after"] else "possible "
        return [*_read(named["before"], depth + 1), f"{sure}{named['after']}"]
    if (bare := _BARE_STATE.match(text)) and not re.search(r"\b(?:is|are|appears?)\b", bare["subject"]):
        return _predicated(bare["subject"], bare["state"], depth)
    if predicate := _PREDICATE.match(text):
        return _predicated(predicate["subject"], predicate["state"], depth)
    return _noun_phrases(drop_seen(text))


def _on_side_of(subject: str, phrase: str) -> str:
    """``the left lung shows an opacity``: the opacity is on the left."""
    side = re.match(r"(?:the )?(left|right) (?:lung|hemithorax|chest|apex|base)\b", subject)
    if side is None or re.search(r"\b(?:left|right|bilateral)", phrase):
        return phrase
    lead = re.match(r"(?:(?:no|possible) )?(?:an? |the )?", phrase)
    start = lead.end() if lead else 0
    if re.match(r"(?:upper|middle|lower|apical|basilar|basal|perihilar) ", phrase[start:]):
        return f"{phrase[:start]}{side[1]} {phrase[start:]}"
    return f"{phrase} in the {side[0].removeprefix('the ')}"


# names no place itself: "no acute abnormality", "arthritic changes"
_OF_NO_PLACE = re.compile(
    r"^(no |possible )?((?:(?:acute|focal|active|significant|chronic|old|other) )*)"
    r"(abnormalit(?:y|ies)|findings?|process|disease)$"
    r"|^(no |possible )?((?!.*\b(?:airspace|lung|bony|pulmonary|pleural|spine|disc)\b)(?:\w+ )*?)(fractures?|changes)$"
)
_OF_ORGAN = {"bony structures": "bony", "lungs": "lung", "pleural spaces": "pleural", "soft tissues": "soft tissue"}


def _negated(body: str, depth: int) -> list[str]:
    phrases, rest = negated_list(body)
    return [*phrases, *_read(rest, depth + 1)]


def _shown(subject: str, what: str, depth: int) -> list[str]:
    """``the lungs show no acute abnormality``: the subject says where, if what is shown does not."""
    if doubt := re.match(r"^(?:a |an )?normal (?P<how>appearance|size|contour|configuration|caliber).*$", what):
        return normal_organs(subject, f"normal in {doubt['how']}")
    phrases = _read(what, depth + 1)
    places = [organ_name(name) for name in members_of(subject)]
    if not is_anatomy(subject) or has_finding(subject):
        return ([*_noun_phrases(subject)] if has_finding(subject) else []) + phrases
    placed: list[str] = []
    for phrase in phrases:
        match = _OF_NO_PLACE.match(phrase)
        if match is None:
            placed.append(_on_side_of(subject, phrase))
            continue
        for place in places:
            adjective = _OF_ORGAN.get(place)
            if match[6] and match[6].startswith("fracture"):
                placed.append(phrase)
            elif adjective is None or match[6]:
                placed.append(f"{phrase} of the {place}")
            else:
                placed.append(f"{match[1] or ''}{match[2]}{adjective} {match[3]}")
    return placed


def _not_so(subject: str, how: str) -> list[str]:
    how = re.sub(r"^(?:be |to be |appear (?:to be )?)", "", how)
    name = bare_name(subject)
    if how == "remarkable":
        return normal_organs(subject, "normal")
    grade = "significant " if re.match(r"(?:significantly|grossly|markedly)", how) else ""
    if re.search(r"\benlarged\b", how):
        if organ_name(name) in ("heart size", "heart"):
            return [f"no {grade}cardiomegaly"]
        return [f"no {grade}enlargement of the {name}"]
    if re.search(r"\b(?:widened|wide)\b", how) and "mediast" in name:
        return [f"no {grade}mediastinal widening"]
    if how.split()[-1] in ADJECTIVES and len(how.split()) <= 2:
        return [f"no {how} {name}"]
    return []


def _doubted(doubt: re.Match[str], depth: int) -> list[str]:
    before = re.sub(
        r"(?:,| and| or| which| that| is| are| the| a| appears?| of)+ *$", "", f" {doubt['before']}".rstrip(" ,(")
    ).strip(" ,")
    after = doubt["after"].strip(" ,.)")
    after = re.sub(rf"\b{_WORDS_OF_DOUBT}\b(?: (?:of|for|with))?", "", after)
    after = re.sub(r", (?=in |on |at )", " ", drop_seen(f"{after} ")).strip(" ,")
    beyond = re.match(rf"(?P<doubtful>[^,]+), (?:and )?(?:{MARK} )?(?:and )?(?P<seen>.+)$", after)
    if beyond and " or " not in after and AFFIRMING.match(beyond["seen"]) and has_head(beyond["seen"]):
        return [*_doubted_of(before, beyond["doubtful"], depth), *_read(beyond["seen"], depth + 1)]
    return _doubted_of(before, after, depth)


def _doubted_of(before: str, after: str, depth: int) -> list[str]:
    """What was seen (``before``) stays sure; what it may be (``after``) gets the "possible"."""
    seen: list[str] = []
    if before and not _PRONOUN.match(before):
        if after and is_anatomy(before) and not has_finding(before) and _is_state(after):
            return [f"possible {phrase}" for phrase in _predicated(before, after, depth)]
        if not after:
            return [f"possible {phrase}" for phrase in _read(before, depth + 1)]
        seen = _read(before, depth + 1)
    if not after:
        return seen
    if after.startswith("no ") or re.match(rf"{NO}\b", after):
        return seen + _read(after, depth + 1)
    return [*seen, f"possible {_without_verb(after)}"]


def _without_verb(text: str) -> str:
    return re.sub(r"\b(?:is|are|was|were) (?=in |at |on |of |within |over)", "", text)


def _is_state(text: str) -> bool:
    words = re.sub(ADVERBS, "", text).split()
    return bool(words) and (
        _NORMAL.match(" ".join(words)) is not None
        or _UPPER_LIMIT.match(text) is not None
        or all(w in ADJECTIVES for w in words)
    )


def _predicated(subject: str, state: str, depth: int) -> list[str]:
    otherwise = "otherwise " if re.search(r"\botherwise\b", state) else ""
    plain = re.sub(ADVERBS, "", state).strip(" ,")
    if _PRONOUN.match(subject):
        return _read(plain, depth + 1) if has_finding(plain) else []
    if subject.startswith("no "):
        return _negated(subject[3:], depth)
    if negated := _NEGATED.match(plain):
        return _shown(subject, f"no {negated['body']}", depth)
    if _UPPER_LIMIT.match(plain):
        organ = organ_name(bare_name(subject))
        organ = "heart size" if organ in ("heart", "cardiac silhouette") else organ
        return [f"{organ} at the upper limits of normal"] if is_anatomy(subject) and MARK not in subject else []
    if seen := _SEEN.match(plain):
        return _noun_phrases(f"{subject} {seen['rest']}".strip())
    if _NORMAL.match(plain):
        # "normal in size, tortuous": what follows the comma is another state
        head, _, tail = plain.partition(",")
        phrases = normal_organs(subject, f"{otherwise}{head}")
        tail = re.sub(r"^ *and ", "", tail).strip()
        if tail:
            phrases += (
                _predicated(subject, tail, depth + 1)
                if _is_state(tail) or tail.split()[0] in ADJECTIVES
                else _read(tail, depth + 1)
            )
        elif joined := re.search(r" and (clear|expanded|intact|symmetric)$", head):
            phrases += _predicated(subject, joined[1], depth + 1)
        return phrases
    plain = _STATE_DETAIL.sub("", plain).strip(" ,")
    plain = re.sub(r"^(?:noted to be|seen to be|felt to be|not(?:ed)? as) ", "", plain)
    bilateral = re.sub(r" (?:bilaterally|in size|in both lungs)$", "", plain)
    parts = [part for part in re.split(r",? and |, | but ", bilateral) if part]
    if parts and all(all(word in ADJECTIVES for word in part.split()) for part in parts):
        side = " bilaterally" if plain.endswith("bilaterally") and "lungs" not in subject else ""
        phrases = []
        for member in members_of(subject):
            if has_finding(member) and not is_anatomy(member):
                phrases.append(f"{' '.join(parts)} {member}{side}")
            elif MARK in member or not is_anatomy(member):
                continue
            else:
                phrases += [
                    f"{otherwise if part == 'clear' else ''}{part} {organ_name(member)}{side}" for part in parts
                ]
        return phrases
    if parts and all(word in ADJECTIVES for word in parts[0].split()) and len(parts) > 1:
        return _predicated(subject, parts[0], depth + 1) + _read(" and ".join(parts[1:]), depth + 1)
    return _noun_phrases(f"{bare_name(subject)} {plain}")


_NORMAL_LIST = re.compile(
    r"^(?:the |a )?(?P<otherwise>otherwise )?(?P<state>normal|unremarkable|clear"
    r"|intact) (?P<what>(?:appearance of (?:the )?)?.+)$"
)


def _noun_phrases(text: str) -> list[str]:
    """Comma lists of findings, one phrase each; "a and b" only where each side stands on its own."""
    if (normal := _NORMAL_LIST.match(text)) and (
        ASPECT_OF.match(normal["what"]) or names_organ(re.split(r",| and ", normal["what"])[0])
    ):
        return _predicated(normal["what"], f"{normal['otherwise'] or ''}{normal['state']}", 0)
    phrases: list[str] = []
    for piece in re.split(r", (?:and |as well as )?", text):
        piece = piece.strip(" ,")
        if not piece:
            continue
        if phrases and not has_head(piece):
            # a tail such as "left greater than right" belongs to what it follows
            if re.match(
                r"(?:left|right|greater|more|most|best|predominantly|particularly|especially|in|at|on|within"
                r"|with|measuring|projecting|involving|over)\b",
                piece,
            ):
                phrases[-1] += f" {piece}"
            continue
        if not has_head(piece) and text.startswith(f"{piece}, "):
            # "small, calcified granuloma": adjectives parted by a comma
            return _noun_phrases(text.replace(", ", " ", 1))
        phrases += split_findings(piece)
    return phrases
