"""Findings text -> lower-case clauses, each with one statement, ready to be read as a phrase."""

from __future__ import annotations

import re

MARK = "¤"
"""Stands for one de-identification mark (``XXXX``, ``___``) until the clause is read."""

_PORT = re.compile(r"\b[xX]{3,}-[aA]-[xX]{3,}(?: [xX]{3,})?")
_MARKS = re.compile(r"[\w-]*(?:[xX]{3,}|_{2,})[\w-]*")
_SENTENCE_END = re.compile(
    r"(?<!\bdr)(?<!\bmr)(?<!\bms)(?<!\bmrs)(?<!\bvs)(?<!\bapprox)(?<!\be\.g)(?<!\bi\.e)(?<!\bno)(?<!\b[a-z])"
    r"[.!?]+(?=[\s\])]|$|[A-Z\[(])|(?<=\bno)\.(?= +[A-Z])|(?<= [a-z])\.(?=\s*$|\s+[A-Z])|[;\n\r]+",
    re.IGNORECASE,
)
_RUN_ON = re.compile(
    r"(?<=[a-z])[, ]+(?=(?:There (?:is|are)|The (?:heart|lungs|cardi|mediast|aort)|No |Visualized )\b)"
    r"|(?<=[a-z])(?<!And)(?<!and)(?<!Of) (?=(?:Lungs? |Heart |Pulmonary v|Cardiom|Mediastin|Osseous |Bony )[a-z])"
)
_NUMBERING = re.compile(r"^\W*\d{1,2}[.)]?\s*$|^\s*\d[.)]\s+")

# Words that a mark hides beyond doubt, spelling variants, and shortenings: (pattern, text). The order matters.
_SPELLING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"[\[\]<>{}\"“”]", " "),
        (r"[\u2010-\u2015]", "-"),
        (r"\bport-? ?a-? ?¤|\bport-a-cath(?:eter)?\b|\bportacath\b", "port-a-cath"),
        (r"\blymph ¤", "lymph nodes"),
        (r"\b(costophrenic|cardiophrenic) (?:¤|sulci|sulcus|angles|angle|recess(?:es)?)(?= |,|$)", r"\1 angle"),
        (
            r",? \bbut (?=(?:(?:otherwise|grossly|overall|essentially|still) )*(?:clear|normal|intact"
            r"|unremarkable|stable|unchanged)\b)",
            " and ",
        ),
        (r"\b\d+(?:\.\d+)? ¤(?= \w)", "¤"),
        (
            r"\b(osseous|bony|skeletal|bones?)\b((?:(?!\b(?:osseous|bony|bone)\b)[^.])*?\b(?:with|without"
            r"|no)\b(?: (?:evidence|definite|signs?|of|any|an|convincing))*) acute (?=abnormalit|finding)",
            r"\1\2 acute bony ",
        ),
        (
            r",? (?:please |clinically )?(?:correlate|correlation|recommend|consider (?:ct|follow|further)"
            r"|follow-?up)\b.*$",
            "",
        ),
        (r"\bmeasur(?:es|ed|ing)(?: in size)?(?: up to)?(?: (?:approximately|about|roughly))? ", "measuring "),
        (r"\baortic (?:¤|arch|knob) ?(?=(?:is|are|appears?|may|with|and)\b|,|$)", "aorta "),
        (r"\b(\w+) \1\b", r"\1"),
        (r"\bosseus\b", "osseous"),
        (r"\bneither (.+?),? nor ", r"no \1 or "),
        (r"^given (?:the )?([^,]+), ", r"\1 but "),
        (
            r",? \b(?:which |that )?accentuat(?:es?|ing) (?:the )?(?:size of "
            r"|appearance of )?(?:the )?(?:cardi|heart|bronch|pulm|mediast)\w*.*$",
            "",
        ),
        (r"\b(is|are) (?:believed|felt|noted|seen) to be\b", r"\1"),
        (r"\b(?:is|are) thought to be\b", "is likely"),
        (r"\bclear (?=(?:focal )?(?:airspace disease|consolidation|infiltrate))", "clear of "),
        (r"\bnormal[ -](size|contour)d? (heart|cardiac silhouette|mediastinum)\b", r"\2 normal in \1"),
        (r"\bstatus post |\bs/p ", ""),
        (
            r"\bpossibility of (.+?) (?:should|cannot|must|needs to|is) (?:be )?(?:excluded|considered|raised)\b",
            r"possible \1",
        ),
        (r"\b(?:has|have|with) (?:its |the |their |a )?(distal )?(tips?)\b", r"with \1\2"),
        (r",? \bgiven (?:the )?(?:patient's )?(?:clinical )?history.*$", ""),
        (r"\b(both|bilateral) lung(?= ¤|$|,)", r"\1 lungs"),
        (r",? \band (?:patient )?rotation\b.*$", ""),
        (r"\b(?:and|but) (?:stable|unchanged) (?=[a-z])", ""),
        (r"\b(?:stable|unchanged),? (?:and|but) (?=[a-z])", ""),
        (r"\b(heart size|cardiac silhouette) (?=mediastin|pulmonary vas)", r"\1, "),
        (r"^considering (?:the )?(?:differences in )?(?:technical factors|technique)(?: ¤)*,? ", ""),
        (r"^(?:aside from|except for|apart from|other than) ([^,]+), ", r"\1 but "),
        (r"\b(?:remainder|rest) of (?:the |both )?lungs? (is|are|appears?) (?:otherwise )?", r"lungs \1 otherwise "),
        (
            r"^otherwise,? (?:the )?([^,]+?) (is|are|appears?) (?:otherwise )?(?=clear|normal|unremarkable"
            r"|within|intact|well)",
            r"\1 \2 otherwise ",
        ),
        (r"\b(clear|unremarkable|normal) otherwise\b", r"otherwise \1"),
        (r"^otherwise,? (?!clear|normal|unremark|intact)", ""),
        (r"(?:\b(?:are|is) )?¤ to (?:represent|be|reflect)\b", "likely represents"),
        (
            r",? \bin the (?:correct|appropriate|proper) clinical (?:setting|context)\b|,? \bas a result\b"
            r"|,? \bin the interim\b|\binterim\b",
            "",
        ),
        (r"\bno ¤ of\b", "no evidence of"),
        (r"\b(chest|port) ¤ tip\b", r"\1 catheter tip"),
        (r"\b(left|right) (?:cardiac|heart) ¤", r"\1 heart border"),
        (r"\b(heart|lung|lungs|bony|osseous) ¤(?= (?:are|is|and|bilaterally)\b|,|$)", r"\1"),
        (r"\b(heart size|silhouette) ¤ (?=within|normal|is )", r"\1 "),
        (r"\bhas become (?=normal|clear)", "is "),
        (r"\bx-¤", "x-ray"),
        (r"\b(which is|that is|there is|these are|this is) ¤ (a|an|the|due|secondary|related)\b", r"\1 likely \2"),
        (r"\bthere is likely\b(?! due| secondary| related)", "there is"),
        (
            r"(?:\b(?:are|is) )?¤ (representing|represents?|representative of|reflecting|reflects?|secondary to|"
            r"related to|relates to|due to|from)\b",
            r"likely \1",
        ),
        (
            r"(?<=, )¤ (?=(?:\w+ )?(?:atelectasis|scarring|scar|pneumonia|edema|infiltrate|artifact"
            r"|subsegmental|injury|fracture|granuloma|sequela)\b)",
            "likely ",
        ),
        (r"\bwhose appearance ¤ ", "suggesting "),
        (r"\bcould be ¤ ", "could be "),
        (
            r"\b(?:pa|ap|frontal)(?:,)? and lateral (?:views?|radiographs?"
            r"|projections?)\b",
            "frontal and lateral views",
        ),
        (r"\bair-?[ -]space\b", "airspace"),
        (r"\bcardio[ -]mediastinal\b", "cardiomediastinal"),
        (r"\bhemi[ -]diaphragm", "hemidiaphragm"),
        (r"\bmid[ -]lung\b", "midlung"),
        (r"\bbi[ -](basilar|apical)\b", r"bi\1"),
        (r"\b(?:hyper)[ -](expan|inflat|lucen|aerat)", r"hyper\1"),
        (r"\bhypo[ -]?(inflat|aerat|ventilat|expan)", r"hypo\1"),
        (r"\b(dextro|levo)[ -]?(?:curvature|curved)\b", r"\1curvature"),
        (r"\b(dextro|levo)[ -](scoliosis)\b", r"\1\2"),
        (r"\b(plate|band|mass)[ -]like\b", r"\1like"),
        (r"\b(well|normally)[ -](expanded|inflated|aerated)\b", r"\1 \2"),
        (r"\b(right|left)[ -]sided\b", r"\1"),
        (r"\b(right|left) (?:side|hand) of the\b", r"\1"),
        (r"\bpost[ -](surgical|operative|traumatic)\b", r"post\1"),
        (r"\bnon[ -](calcified|displaced|specific|obstructi)", r"non\1"),
        (r"\bnon-?\s(?=calcified)", "non"),
        (r"\bt-?[ -]?spine\b", "thoracic spine"),
        (r"\bl-?[ -]spine\b", "lumbar spine"),
        (r"\bc-?[ -]spine\b", "cervical spine"),
        (r"\bs/p\b", "status post"),
        (r"\bw/o\b", "without"),
        (r"\bw/ ?(?=\w)", "with "),
        (r"\b(?:versus|vs\.?)(?= )", "or"),
        (r"\bthere's\b", "there is"),
        (r"\bhas not been\b", "is not"),
        (r"\bisn't\b", "is not"),
        (r"\baren't\b", "are not"),
        (r"\bosteophytosis\b", "osteophytes"),
        (r"\bultra ?sound\b", "ultrasound"),
        (r"\bpneumothoracies|pneumothorax(?:es|ces)\b", "pneumothoraces"),
        (
            r"\bpulmonary vascular(?:ity)? ?(?=is |are |appears?|within |normal"
            r"|unremarkable)",
            "pulmonary vascularity ",
        ),
        (r"\bvasculaturity\b", "vascularity"),
        (r"\bcardiomediastinum\b", "cardiomediastinal silhouette"),
        (
            r"\bspecifically,? |\bincidental(?:ly)?(?: note| noted)?(?: is)?(?: made)?(?: of)?,? "
            r"|\bnote is made of\b|\bnote made of\b",
            " ",
        ),
        (r"\b(?:in addition|additionally|also|overall|otherwise,|please note|note that|of note),? ", " "),
    )
)

_DROPPED = re.compile(
    # how the images were made and which they are
    r"^(?:¤ )*(?:chest|kub|exam(?:ination)?|technique|findings|impression|comparison|history|indication|"
    r"(?:\w+ )?(?:images?|views?)(?: submitted| obtained)?|(?:pa|ap|lateral|frontal)(?: chest)?)$"
    r"|\b(?:was|were) (?:obtained|performed|acquired|reviewed|submitted|provided|made|taken|compared|notified"
    r"|discussed|"
    r"communicated|informed|called|read|interpreted|recommended|given|available)\b"
    r"|\b(?:examination|exam|study) consists of\b|\bimages? (?:submitted|obtained)\b|\bdictat|\btranscri"
    r"|\b(?:limited|(?<!normal )limits (?:the |evaluation|assessment)|limitation|suboptimal|nondiagnostic"
    r"|inadequate|degraded)\b(?!.*\b(?:reveal|show|demonstrat)\w*)"
    r"|\brotat(?:ed|ion)\b(?!.*\b(?:fracture|opacity|effusion)\b)|\b(?:lordotic"
    r"|expiratory) (?:in )?(?:projection|position|view)"
    # advice and talk
    r"|\b(?:recommend|suggest (?:clinical|follow|ct|further|correlation)|correlat|follow-?up|advis"
    r"|clinical (?:concern|history)|"
    r"would be (?:helpful|useful|¤)|consider (?:ct|chest|follow|further|rib|repeat|dedicated)|"
    r"further (?:evaluation|assessment|imaging)|could be (?:further )?(?:obtained|performed|evaluated|considered)|"
    r"if (?:clinically|there is|symptom|indicated|concern|needed)|clinical correlation"
    r"|should be (?:considered|performed|obtained)|"
    r"can be (?:obtained|performed|considered|evaluated))"
    r"|\b(?:dr|doctor|physician|radiologist|resident)\b\.?|\btelephone\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    r"|\b(?:patient|he|she) (?:is|was|has) (?:a )?\d+|\betiology not|\bcannot be stated|\bdifficult to (?!exclude)"
    r"|\bcannot be (?:well |clearly )?(?:identified|seen|evaluated)|\bnot (?:well|definitely|clearly"
    r"|optimally|completely|entirely|fully|included|excluded on|delineated) ?(?:seen|visualized|"
    r"evaluated|identified|demonstrated|delineated|assessed|characterized)?\b"
    r"|\bobscured by (?:the )?(?:patient|arm|overly)"
)

_SCAFFOLD = re.compile(
    r"\b(?:is|are|was|were) (?:made )?(?:of )?$"
    r"|^(?:the |a |an )?(?:¤ )*(?:frontal|lateral|pa|ap|upright|portable|single|two|2|¤|and| |,)*"
    r"(?:views?|radiographs?|images?|projections?|examination|exam|film|chest x-ray)(?: of)?(?: the)?(?: chest)?"
    r"(?: with [^,]*?)?,? (?:shows?|demonstrates?|reveals?|show)(?: that)? "
    r"|^(?:on |in )(?:the )?(?:frontal|lateral|pa|ap)(?: view| projection| radiograph)?,? "
)

_COPULA = r"(?:is|are|was|were|appears?|appear to be|appears to be|looks?)"
_CLAUSE_START = (
    r"(?:there (?:is|are|was|were|has been|have been)|no\b|without\b|negative for|"
    rf"(?:the |a |an )?[\w /-]{{2,50}}? {_COPULA}\b)"
)
_OTHER = (
    r"(?:the |both |visualized )?(?:\w+ ){1,4}?(?:is|are|has|have|appears?|normal|within|unremarkable|intact|clear)\b"
)
_HARD = re.compile(
    r",? *\b(?:but|although|though|however|while|whereas|aside from|except for|apart from|other than"
    r"|with the exception of|causing|resulting in|"
    r"producing|leading to)\b,? *(?:they are |it is |they |it )?"
    r"|,? *\band associated (?=\w)"
    r"|,? *\band (?=(?:there (?:is|are)|no\b|without\b|with no\b|negative for))"
    r"|, (?=(?:there (?:is|are)|no\b|negative for|with no\b))|(?<=\w) (?=there (?:is|are) )"
    r"|(?<=\w) (?=the (?:lungs|heart|cardio\w+|mediastinum) (?:is|are) )"
    rf"|(?<=\bnormal limits)(?:, | and )(?={_OTHER})|(?<=\bnormal)(?:, | and )(?={_OTHER})"
    rf"|(?<=\bunremarkable)(?:, | and )(?={_OTHER})"
    r"|,? *\bas (?:are|is|well as) (?:the )?(?=normal)"
    r"|,? *\b(?:which|that) (?=(?:may|might|could|likely|probably|possibly|suggest))"
)
_NO_WITH = re.compile(
    r",? *\b(?:and |but )?(?:with )?(?=without\b|with no\b|negative for"
    r"|no (?!longer))(?<!is )(?<!are )(?<!with )(?<!show )(?<!shows )(?<!strate )(?<!strates )"
    r"(?<!reveal )(?<!reveals )(?<!have )(?<!has )(?<!appear )(?<!appears )(?<!are grossly )(?<!otherwise )"
)
_BARE_WITH = re.compile(
    r",? *\b(?:along |together )?"
    r"(?<!compared )(?<!comparison )(?<!compatible )(?<!consistent )(?<!comparing )(?<!continuous )"
    r"with (?!(?:the |its |their |a |distal |catheter |lead |intact )*(?:tips?|leads?|distal|side|"
    r"adjacent|a? ?history|normal (?:aging|limits)|respect|contrast|the exception|patient|age|underlying|"
    r"superimposed|surrounding|predominan|air-fluid|at least|¤ lumen|¤ tip|¤))"
    r"(?:(?:some |mild )?(?:(?:overlying|associated|resultant|resulting|subsequent|accompanying|secondary"
    r"|concurrent) )?)?"
)

NO = r"(?:no|without|negative for|free of|free from|clear of|absence of|with no|devoid of)"


def sentences(findings: str) -> list[str]:
    """Split a report into lower-case sentences with one spelling and ``¤`` for every mark.

    Decimals ("1.5 cm") and abbreviations ("Dr. ", "vs.") do not end a sentence. What says how the images were made,
    whom to ask or what to do next is left out.

    Args:
        findings: The FINDINGS section; any text.
    """
    text = _MARKS.sub(MARK, _PORT.sub("port-a-cath", findings.replace(MARK, " ")))
    text = _RUN_ON.sub(". ", text)
    found: list[str] = []
    for raw in _SENTENCE_END.split(text):
        sentence = " ".join(raw.lower().split())
        if not sentence or (_NUMBERING.match(sentence) and len(sentence) < 4):
            continue
        sentence = _NUMBERING.sub("", sentence)
        for pattern, replacement in _SPELLING:
            sentence = pattern.sub(replacement, sentence)
        sentence = " ".join(sentence.split()).strip(" ,.-:")
        for part in _after_label(sentence):
            part = ", ".join(piece for piece in part.split(", ") if not _DROPPED.search(piece))
            part = _SCAFFOLD.sub("", part).strip(" ,")
            if part:
                found.append(part)
    return found


_LABEL = re.compile(r"^(?P<label>[a-z/ ,&]{2,40}?): *(?P<text>.*)$")
_PLACES = re.compile(r"\b(?:lungs?|heart|mediastin|pleura|bones?|hila|aorta|diaphragm|trachea|soft tissues)\b")
_STATE = re.compile(r"^(?:normal|clear|unremarkable|intact|within normal limits|grossly|stable|enlarged)\b[^,]*$")


def _after_label(sentence: str) -> list[str]:
    """``lungs: clear`` says that the lungs are clear; ``chest: no effusion`` says no more than its text."""
    labelled = _LABEL.match(sentence)
    if labelled is None:
        return [sentence]
    if _PLACES.search(labelled["label"]) and _STATE.match(labelled["text"]):
        return [f"{labelled['label']} are {labelled['text']}"]
    return _after_label(labelled["text"])


def split_clauses(sentence: str) -> list[str]:
    """Split one sentence where another statement begins; lists under one negation or one predicate stay together.

    Args:
        sentence: A sentence of :func:`sentences`.
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
_VERB = re.compile(rf"\b{_COPULA}\b")


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
        if closed and ahead and _VERB.match(piece) is None and not _MORE_STATE.match(piece):
            groups.append(piece)
        else:
            groups[-1] += separator + piece
    return groups
