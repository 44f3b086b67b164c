"""One clause of the present state -> its noun phrases: negation in front, uncertainty in front, predicate in front."""

from __future__ import annotations

import re

from rarrg.extract.clauses import MARK, NO
from rarrg.extract.lexicon import (
    ADJECTIVES,
    AFFIRMING,
    ADVERBS,
    has_finding,
    has_head,
    is_anatomy,
    tidy,
)

_THERE = re.compile(
    r"^(?:(?:and|also|additionally|again|then|or|,) )*(?:(?:there|it|this|these|they|which|that|what) )?(?:appears? to be|appear to|"
    r"(?:(?:may|might|could) be)?(?:is|are|was|were|has been|have been|had been|noted|seen|identified|note(?:d)? (?:is|are)|"
    r"demonstrates?|shows?|reveals?|exhibits?|contains?|suffered|undergone)(?: (?:is|are|to be|also|once))*) "
)
_PRONOUN = re.compile(r"^(?:the )?(?:this|these|those|that|it|its|which|they|both|findings?|one|appearance|all|there|study|result|remainder|rest)\b(?: (?:finding|findings|appearance|area|areas|exam|examination|study|of the exam)s?)?$")
_SHOWS = re.compile(
    r"^(?P<subject>.{2,70}?) (?:show|shows|showing|demonstrate|demonstrates|demonstrating|reveal|reveals|have|has|exhibits?|contain|contains|are|is)"
    rf"(?= (?:{NO})\b| (?!been)[^,]*\b(?:show|changes|fractures?|markings)) (?P<what>.+)$"
)
_DEMONSTRATES = re.compile(
    r"^(?P<subject>.{2,80}?) (?:show|shows|showing|demonstrate|demonstrates|demonstrating|reveal|reveals|exhibits?|contain|contains|have|has) (?P<what>(?!been\b).+)$"
)
_NEGATED = re.compile(rf"^(?:{NO})(?: (?:any|the|a|an))?\b *(?P<body>.*)$")
_NOT_SEEN = re.compile(
    r"^(?P<it>.+?),? (?:(?:is|are|was|were|has been|have been) )?(?:not|never) (?:been )?(?:\w+ly )?"
    r"(?:seen|identified|visualized|present|evident|noted|demonstrated|appreciated|detected|apparent|observed|found|visible)\b(?P<rest>.*)$"
    r"|^(?P<absent>.+?) (?:is|are) absent\b.*$"
)
_NOT_ADJECTIVE = re.compile(r"^(?P<it>.+?) (?:is|are|does|do|has|have)(?: not|n't) (?P<how>.+)$")
_NOT_EXCLUDED = re.compile(
    r"^(?P<it>.+?) (?:cannot|can not|can't|could not|may not|is not|are not|not)(?: be)?(?: entirely| completely| definitely| fully)? (?:excluded|ruled out)\b.*$"
)
_WORDS_OF_DOUBT = (
    r"(?:may|might|could|possibly|possible|probably|probable|(?:most )?likely|suggests?|suggesting|suggestive|"
    r"concerning|concern|suspicious(?= for)|worrisome|compatible|consistent|questionable|questioned|question|suspected|presumed|"
    r"presumably|perhaps|favor(?:ed|s|ing)?|cannot exclude|equivocal|apparently|conceivably)"
)
_DOUBT = re.compile(
    rf"(?P<before>^|^.*?[\s,(])(?P<cue>(?:(?:which|that|and|or|this|these|findings?|finding|is|are|was|were|raising|a|the|some|as|to|appears?|has|appearance) )*{_WORDS_OF_DOUBT}\b"
    r"(?: (?:of|for|with|to|that|be|been|have|has|represents?|representing|representative|reflects?|reflecting|relates?|related|indicates?|indicate|accounted|due|secondary|from|"
    r"is|are|in part|partly|partially|also|a|an|the|some|because|resulting|by|suggest|history|indicative|about|there|an area|area|element|component|underlying|combination|just)\b)*) *(?P<after>.*)$"
)
_TO_SUGGEST = re.compile(r",? *\b(?:to (?:suggest|indicate)|suggesting|suggestive of|suspicious for|concerning for|worrisome for|compatible with|consistent with|of)\b *(?:the |an? )?")
_TRAILING_VERB = re.compile(
    r",? *\b(?:(?:is|are|was|were|can be|has been|have been|being) )?(?:also |again |once |clearly |definitely |best |better |readily |well )*"
    r"(?:seen|identified|visualized|present|evident|noted|demonstrated|appreciated|detected|apparent|observed|found|visible|shown|there)\b(?! (?:only|better))"
)
_ITEM = re.compile(r"(,? *\bor/?and\b *|,? *\band/or\b *|, *(?:and |or |nor )?| (?:and|or|nor) | */ *)")
_EMPTY_HEAD = re.compile(
    r"^(?:(?:any|other|definite|definitely|convincing|obvious|apparent|typical|gross|radiographic|visible|visualized|further|evident|additional|"
    r"identifiable|discernible|clear|direct|strong|specific|plain film|active|overt|¤) )*"
    r"(?:(?:evidence|signs?|findings?|indications?|suggestion|sequelae?|features?|area|areas|focus|foci|regions?|pattern)(?: (?:of|for|to suggest|suggestive of|suggesting|suggest|suspicious for|compatible with|consistent with))+ )?"
    r"(?:(?:an?|the|any|definite|visible|visualized|obvious|gross|convincing|typical|¤) )*"
)
# a comma forgotten between two absent findings
_NO_COMMA = re.compile(r"\b(consolidations?|airspace disease|pneumothora(?:x|ces)|effusions?) (?=(?:focal|large|pneumothora|pleural effusion))")
_FOCAL_AREA = re.compile(r"\b(focal |acute |abnormal )?(?:areas?|foci|focus) of (?:focal )?")
_STOPS = re.compile(
    r"^(?:the |a |an )?(?:mild|mildly|moderate|small|minimal|tiny|stable|low|tortuous|normal|heart|lungs|mediastin|cardi|there|calcified|scattered|chronic|old|"
    r"multiple|degenerative|unchanged|left|right|bilateral|clear|intact|elevated|possible|slight|prominent|trachea|healed|surgical|status post|"
    r"sternotomy|hyper)(?![a-z]*(?: effusion| pneumothora| or | infiltrate| consolidation))"
)
_LOCATION = re.compile(r" (?:in|within|on|at|throughout) (?:the |either |both |each )?(?!time|this)[^,]*$")
_NORMAL = re.compile(
    r"^(?:normal|unremarkable|(?:with)?in (?:the )?(?:normal|limits? of normal)|of normal|maintained|preserved|negative$|"
    r"not remarkable|without (?:acute )?abnormalit|normally)"
)
_UPPER_LIMIT = re.compile(
    r"(?:(?:at|near|towards?|within|of|in|to|on|is|the|¤) )*(?:upper(?:[ -]limits?)?(?: of| range of| limits)? ?(?:the )?normal(?: limits?)?|top(?:s)?[ -](?:of[ -])?normal(?: limits)?|borderline(?: (?:in size|enlarged|large|normal|prominent|cardiomegaly))?)\b"
)
_BARE_STATE = re.compile(
    r"^(?P<subject>.+?) (?P<state>(?:grossly |otherwise |both |all )*(?:normal|unremarkable|clear|intact|midline|(?:with)?in (?:the )?(?:normal limits|limits of normal|normal range)|of normal (?:size|contour|caliber|appearance)|"
    r"(?:at |near |towards? )*(?:the )?upper limits? (?:of )?normal|top normal)(?:,? (?:in|for|of) (?:[\w ]+)| in (?:size|contour))?(?: bilaterally)?(?:,? and (?:contour|configuration|clear|expanded|intact|unremarkable))?)$"
)
_PREDICATE = re.compile(
    r"^(?P<subject>.+?),? (?:is|are|was|were|appears?(?: to be)?|looks?|remains?|seems?)(?: (?:is|are|to be|noted to be|seen to be|also|again))* (?P<state>.+)$"
)
_SEEN = re.compile(
    r"^(?:also |again |once again |best |better |incidentally |partially |well |easily |clearly )*"
    r"(?:seen|noted|identified|present|visualized|demonstrated|evident|found|appreciated|shown|observed|visible|apparent|there)\b *(?P<rest>.*)$"
)
_STATE_DETAIL = re.compile(
    r"\b(?:for (?:the )?(?:patient'?s? )?(?:age|technique|appearance|size|contour|degree of inspiration|¤).*|in (?:appearance|configuration|caliber|course|position|shape|morphology)\b.*)"
)
_BESIDE_SIZE = re.compile(r"^(?:the )?(?:size|contours?|configuration|appearance|shape|caliber|silhouettes?|outline|border|borders)$")
_ADJECTIVE_ITEM = re.compile(
    r"^(?:the )?(?:cardiac|mediastinal|hilar|pulmonary|pleural|osseous|bony|skeletal|aortic|cardiomediastinal|superior mediastinal|upper|lower|left|right|diaphragmatic|soft tissue)$"
)

_ORGANS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"^(?:cardiomediastinal|cardiac(?: and|/) ?mediastinal|heart and mediastinal)(?: (?:size|contours?|silhouettes?|structures?|outline|margins?|borders?|shadows?))*(?: and contours?)?$", "cardiomediastinal silhouette"),
        (r"^(?:heart|cardiac)(?: silhouette)? size$|^size of (?:the )?(?:heart|cardiac silhouette)$", "heart size"),
        (r"^(?:heart|cardiac) (?:contours?|borders?|margins?)$", "cardiac contour"),
        (r"^(?:heart|cardiac) silhouettes?$", "cardiac silhouette"),
        (r"^(?:superior |upper )?mediastinal (?:contours?|silhouettes?|size|outline|structures?|borders?|margins?)$", "mediastinal contour"),
        (r"^hilar (?:contours?|structures?|shadows?|silhouettes?|regions?)$|^hila$", "hilar contour"),
        (r"^(?:central )?pulmonary vascul\w*(?: markings)?$|^pulmonary vascular$|^vascularity$|^vasculature$|^lung vasculature$", "pulmonary vascularity"),
        (r"^(?:visible |visuali[sz]ed |remaining |underlying |surrounding )*(?:osseous|bony|skeletal|bone)(?: (?:structures?|thorax|skeleton|elements))?(?: of the (?:chest|thorax))?$|^(?:visible |visualized )*(?:bones?|skeleton|osseous and skeletal structures)(?: of the (?:chest|thorax))?$", "bony structures"),
        (r"^(?:both |bilateral )*lungs?(?: fields?| parenchyma)?(?: bilaterally)?$", "lungs"),
        (r"^pleural (?:spaces?|surfaces?)$", "pleural spaces"),
        (r"^(?:overlying |surrounding |adjacent |visualized )*soft tissues?$", "soft tissues"),
        (r"^(?:visible |visualized )?(?:upper abdomen|upper abdominal structures)$", "upper abdomen"),
        (r"^(?:bilateral )?costophrenic angles?$", "costophrenic angle"),
    )
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
        return [f"possible {excluded['it']}"]
    if unseen := _NOT_SEEN.match(text):
        if re.search(r"\b(?:lateral|frontal|pa|ap|view|well)\b", unseen["rest"] or ""):
            return []
        return _negated(unseen["it"] or unseen["absent"], depth)
    if shows := _DEMONSTRATES.match(text):
        return _shown(shows["subject"], shows["what"], depth)
    if refused := _NOT_ADJECTIVE.match(text):
        return _not_so(refused["it"], refused["how"])
    if doubt := _DOUBT.match(text):
        return _doubted(doubt, depth)
    if bare := _BARE_STATE.match(text):
        if not re.search(r"\b(?:is|are|appears?)\b", bare["subject"]):
            return _predicated(bare["subject"], bare["state"], depth)
    if predicate := _PREDICATE.match(text):
        return _predicated(predicate["subject"], predicate["state"], depth)
    return _noun_phrases(_TRAILING_VERB.sub("", text))


def _negated(body: str, depth: int) -> list[str]:
    """``focal consolidation, effusion, or pneumothorax`` under one "no" -> one phrase each."""
    body = _TRAILING_VERB.sub("", f"{body} ").strip(" ,")
    body = _NO_COMMA.sub(r"\1, ", body)
    pieces = _ITEM.split(body)
    items: list[str] = []
    rest = ""
    joined = ""
    for index in range(0, len(pieces), 2):
        piece = pieces[index].strip()
        if items and not joined and (_STOPS.match(piece) or re.search(r"\b(?:is|are|normal|intact)\b", piece)):
            rest = "".join(pieces[index:])
            break
        text = f"{joined}{piece}"
        separator = pieces[index + 1] if index + 1 < len(pieces) else ""
        if separator and not has_head(_EMPTY_HEAD.sub("", text)) or _ADJECTIVE_ITEM.match(text):
            joined = f"{text} " if separator.strip() == "," else f"{text}{' or ' if 'nd' in separator or 'or' in separator else ' or '}"
            continue
        joined = ""
        items.append(text)
    if joined.strip():
        items.append(re.sub(r" or $", "", joined))
    place = _LOCATION.search(items[-1]) if len(items) > 1 else None
    where = place[0] if place and not re.search(r"\b(?:view|image|exam|study)", place[0]) else ""
    phrases: list[str] = []
    shared = ""
    for index, item in enumerate(items):
        item = _FOCAL_AREA.sub(lambda area: area[1] or "", _EMPTY_HEAD.sub("", item))
        item = re.sub(r" or $", "", item)
        item = _share_adjective(shared, item)
        shared = item
        if where and index < len(items) - 1 and not _LOCATION.search(item):
            item += where
        parts = _TO_SUGGEST_SPLIT.split(item)
        for part in parts:
            part = _EMPTY_HEAD.sub("", part)
            phrases.append(f"no {part.strip()}")
    return [*phrases, *_read(rest, depth + 1)]


_TO_SUGGEST_SPLIT = re.compile(
    r",? *\b(?:to (?:suggest|indicate)|suggesting|suggestive of|suspicious for|concerning for|worrisome for|compatible with|consistent with)\b *(?:the |an? )?"
)
_KIN = (
    {"nodule", "nodules", "mass", "masses", "lesion", "lesions", "opacity", "opacities"},
    {"fracture", "fractures", "dislocation", "dislocations", "subluxation"},
)


def _share_adjective(before: str, item: str) -> str:
    """``suspicious nodules or masses``: the adjective narrows both, for a bare "no masses" would claim more."""
    words, last = item.split(), before.split()
    for kin in _KIN:
        if len(words) == 1 and words[0] in kin and len(last) > 1 and last[-1] in kin:
            return f"{' '.join(last[:-1])} {item}"
    return item


def _shown(subject: str, what: str, depth: int) -> list[str]:
    """``the lungs show no acute abnormality``: the subject says where, if what is shown does not."""
    if doubt := re.match(r"^(?:a |an )?normal (?P<how>appearance|size|contour|configuration|caliber).*$", what):
        return _normal(subject, f"normal in {doubt['how']}")
    phrases = _read(what, depth + 1)
    place = _organ(_bare(subject))
    if not is_anatomy(subject) or has_finding(subject):
        return ([*_noun_phrases(subject)] if has_finding(subject) else []) + phrases
    generic = re.compile(r"^(no |possible )?((?!.*\b(?:airspace|lung|bony|pulmonary|pleural)\b)(?:\w+ )*?)(abnormalit(?:y|ies)|findings?|process|disease|fractures?|changes)$")
    placed: list[str] = []
    for phrase in phrases:
        match = generic.match(phrase)
        if match is None:
            placed.append(phrase)
        elif place == "bony structures":
            if match[3].startswith(("fracture",)):
                placed.append(phrase)
            elif match[3] == "changes":
                placed.append(f"{phrase} of the bony structures")
            else:
                placed.append(f"{match[1] or ''}{match[2]}bony {match[3]}")
        else:
            placed.append(f"{phrase} of the {re.sub(r'^the ', '', subject)}")
    return placed


def _not_so(subject: str, how: str) -> list[str]:
    how = re.sub(r"^(?:be |to be |appear (?:to be )?)", "", how)
    name = _bare(subject)
    grade = "significant " if re.match(r"(?:significantly|grossly|markedly)", how) else ""
    if re.search(r"\benlarged\b", how):
        if _organ(name) in ("heart size", "heart"):
            return [f"no {grade}cardiomegaly"]
        return [f"no {grade}enlargement of the {name}"]
    if re.search(r"\b(?:widened|wide)\b", how) and "mediast" in name:
        return [f"no {grade}mediastinal widening"]
    if how.split()[-1] in ADJECTIVES and len(how.split()) <= 2:
        return [f"no {how} {name}"]
    return []


def _doubted(doubt: re.Match[str], depth: int) -> list[str]:
    before = re.sub(r"(?:,| and| or| which| that| is| are| the| a| appears?| of)+ *$", "", f" {doubt['before']}".rstrip(" ,(")).strip(" ,")
    after = doubt["after"].strip(" ,.)")
    after = re.sub(rf"\b{_WORDS_OF_DOUBT}\b(?: (?:of|for|with))?", "", after)
    after = _TRAILING_VERB.sub("", f"{after} ").strip(" ,")
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
    return bool(words) and (_NORMAL.match(" ".join(words)) is not None or _UPPER_LIMIT.match(text) is not None or all(w in ADJECTIVES for w in words))


def _bare(subject: str) -> str:
    text = re.sub(rf"^(?:and )?(?:the |both the |both |all |visuali[sz]ed |visible |remaining |included |underlying |imaged |{MARK} )+", "", f"{subject.strip()}")
    return text.strip(" ,")


def _organ(name: str) -> str:
    for pattern, organ in _ORGANS:
        if pattern.match(name):
            return organ
    return name


def _subjects(subject: str) -> list[str]:
    """``heart size, mediastinal contour, and hila`` -> its members; a shared last noun goes to each adjective."""
    pieces = [piece.strip() for piece in re.split(r",? +and +|, +(?:and +)?| */ *", subject) if piece.strip()]
    members: list[str] = []
    for index, piece in enumerate(pieces):
        name = _bare(piece)
        if _ADJECTIVE_ITEM.match(name) and index + 1 < len(pieces):
            nouns = _bare(pieces[-1]).split()
            if len(nouns) > 1 and not _ADJECTIVE_ITEM.match(_bare(pieces[-1])):
                members.append(f"{name} {nouns[-1]}")
            continue
        if _BESIDE_SIZE.match(name):
            if members and name.startswith(("contour", "config")) and members[-1] in ("heart size", "cardiac size"):
                members.append("cardiac contour")
            continue
        members.append(name)
    return members


def _normal(subject: str, state: str) -> list[str]:
    phrases: list[str] = []
    otherwise = "otherwise " if "otherwise" in state else ""
    members = _subjects(subject)
    if {"cardiac", "mediastinal"} <= {member.split()[0] for member in members if member} and all(
        re.search(r"(?:contours?|silhouettes?)$", m) for m in members if m.split()[0] in ("cardiac", "mediastinal")
    ):
        members = ["cardiomediastinal silhouette"] + [m for m in members if m.split()[0] not in ("cardiac", "mediastinal")]
    for member in members:
        if has_finding(member):
            phrases.append(member)
            continue
        if MARK in member or not is_anatomy(member) or _ADJECTIVE_ITEM.match(member):
            continue
        organ = _organ(member)
        sized = re.search(r"\bsize", state) is not None
        shaped = re.search(r"\b(?:contour|config|shape)", state) is not None
        if organ in ("heart", "cardiac silhouette") and sized:
            phrases.append(f"{otherwise}normal heart size")
            if shaped:
                phrases.append(f"{otherwise}normal cardiac contour")
        elif organ in ("heart", "cardiac silhouette") and shaped:
            phrases.append(f"{otherwise}normal cardiac contour")
        elif organ == "mediastinum" and (shaped or sized):
            phrases.append(f"{otherwise}normal mediastinal contour")
        else:
            phrases.append(f"{otherwise}normal {organ}")
    return phrases


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
        organ = _organ(_bare(subject))
        organ = "heart size" if organ in ("heart", "cardiac silhouette") else organ
        return [f"{organ} at the upper limits of normal"] if is_anatomy(subject) and MARK not in subject else []
    if seen := _SEEN.match(plain):
        return _noun_phrases(f"{subject} {seen['rest']}".strip())
    if _NORMAL.match(plain):
        # "normal in size, tortuous": what follows the comma is another state
        head, _, tail = plain.partition(",")
        phrases = _normal(subject, f"{otherwise}{head}")
        tail = re.sub(r"^ *and ", "", tail).strip()
        if tail:
            phrases += _predicated(subject, tail, depth + 1) if _is_state(tail) or tail.split()[0] in ADJECTIVES else _read(tail, depth + 1)
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
        for member in _subjects(subject):
            if has_finding(member) and not is_anatomy(member):
                phrases.append(f"{' '.join(parts)} {member}{side}")
            elif MARK in member or not is_anatomy(member):
                continue
            else:
                phrases += [f"{otherwise if part == 'clear' else ''}{part} {_organ(member)}{side}" for part in parts]
        return phrases
    if parts and all(word in ADJECTIVES for word in parts[0].split()) and len(parts) > 1:
        return _predicated(subject, parts[0], depth + 1) + _read(" and ".join(parts[1:]), depth + 1)
    return _noun_phrases(f"{_bare(subject)} {plain}")


_NORMAL_LIST = re.compile(r"^(?:the |a )?(?P<otherwise>otherwise )?(?P<state>normal|unremarkable|clear|intact) (?P<what>(?:appearance of (?:the )?)?.+)$")


def _noun_phrases(text: str) -> list[str]:
    """Comma lists of findings, one phrase each; "a and b" only where each side stands on its own."""
    if (normal := _NORMAL_LIST.match(text)) and not has_finding(normal["what"]) and is_anatomy(normal["what"]):
        return _predicated(normal["what"], f"{normal['otherwise'] or ''}{normal['state']}", 0)
    phrases: list[str] = []
    for piece in re.split(r", (?:and |as well as )?", text):
        piece = piece.strip(" ,")
        if not piece:
            continue
        if phrases and not has_head(piece):
            # a tail such as "left greater than right" belongs to what it follows
            if re.match(r"(?:left|right|greater|more|most|best|predominantly|in|at|on|within|with|measuring|projecting|involving|over)\b", piece):
                phrases[-1] += f" {piece}"
            continue
        if not has_head(piece) and text.startswith(piece) and "," in text:
            # "small, calcified granuloma": adjectives parted by a comma
            return _noun_phrases(text.replace(", ", " ", 1))
        phrases += _both_sides(piece)
    return phrases


def _both_sides(text: str) -> list[str]:
    parts = re.split(r" and ", text)
    if len(parts) != 2 or " or " in text or re.search(r"\bbetween\b|\b(?:secondary|due|related) to\b", parts[0]):
        return [text]
    left, right = parts
    if text.startswith("normal ") and is_anatomy(left) and is_anatomy(right):
        return [text]
    opens = AFFIRMING.match(right) is not None
    shared_place = re.search(r" (?:in|of|at|within|over|on) ", right) and not re.search(r" (?:in|of|at|within|over|on) ", left)
    if has_head(left) and has_head(right) and opens and not shared_place:
        return [left, right]
    return [text]
