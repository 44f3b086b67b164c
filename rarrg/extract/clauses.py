"""Findings text -> lower-case clauses, each with one statement, ready to be read as a phrase."""

from __future__ import annotations

import re

MARK = "¤"
"""Stands for one de-identification mark (``XXXX``, ``___``) until the clause is read."""

_MARKS = re.compile(r"[\w-]*(?:[xX]{3,}|_{2,})[\w-]*")
_SENTENCE_END = re.compile(
    r"(?<!\bdr)(?<!\bmr)(?<!\bms)(?<!\bmrs)(?<!\bvs)(?<!\bapprox)(?<!\be\.g)(?<!\bi\.e)(?<!\bno)(?<!\b[a-z])"
    r"[.!?]+(?=[\s\])]|$|[A-Z\[(])|(?<=\bno)\.(?= +[A-Z])|(?<= [a-z])\.(?=\s*$|\s+[A-Z])|[;\n\r]+",
    re.IGNORECASE,
)
_RUN_ON = re.compile(r"(?<=[a-z])[, ]+(?=(?:There (?:is|are)|The (?:heart|lungs|cardi|mediast|aort)|No |Visualized )\b)")
_NUMBERING = re.compile(r"^\W*\d{1,2}[.)]?\s*$|^\s*\d[.)]\s+")

# Words that a mark hides beyond doubt, spelling variants, and shortenings: (pattern, text). The order matters.
_SPELLING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"[\[\]<>{}\"“”]", " "),
        (r"[\u2010-\u2015]", "-"),
        (r"\b¤-a-¤(?: ¤)?|¤-a-¤(?: ¤)?|\bport-? ?a-? ?¤|\bport-a-cath(?:eter)?\b|\bportacath\b", "port-a-cath"),
        (r"\blymph ¤", "lymph nodes"),
        (r"\b(costophrenic|cardiophrenic) (?:¤|sulci|sulcus|angles|angle|recess(?:es)?)(?: ¤)*", r"\1 angle"),
        (r"\baortic (?:¤|arch|knob) ?(?=(?:is|are|appears?|may|with|and)\b|,|$)", "aorta "),
        (r"\bosseus\b", "osseous"),
        (r"\bno ¤ of\b", "no evidence of"),
        (r"\b(chest|port) ¤ tip\b", r"\1 catheter tip"),
        (r"\b(heart|lung|lungs|bony|osseous) ¤(?= (?:are|is|and)\b|,)", r"\1"),
        (r"\bx-¤", "x-ray"),
        (r"\b(which is|that is|there is|these are|this is) ¤ (a|an|the|due|secondary|related)\b", r"\1 likely \2"),
        (r"\bthere is likely\b(?! due| secondary| related)", "there is"),
        (
            r"(?:\b(?:are|is) )?¤ (representing|represents?|representative of|reflecting|reflects?|secondary to|"
            r"related to|relates to|due to|from)\b",
            r"likely \1",
        ),
        (r"(?<=, )¤ (?=(?:\w+ )?(?:atelectasis|scarring|scar|pneumonia|edema|infiltrate|artifact|subsegmental)\b)", "likely "),
        (r"\bwhose appearance ¤ ", "suggesting "),
        (r"\bcould be ¤ ", "could be "),
        (r"\b(?:pa|ap|frontal)(?:,)? and lateral (?:views?|radiographs?|projections?)\b", "frontal and lateral views"),
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
        (r"\bpulmonary vascular(?:ity)? ?(?=is |are |appears?|within |normal|unremarkable)", "pulmonary vascularity "),
        (r"\bvasculaturity\b", "vascularity"),
        (r"\bcardiomediastinum\b", "cardiomediastinal silhouette"),
        (r"\bspecifically,? |\bincidental(?:ly)?(?: note| noted)?(?: is)?(?: made)?(?: of)?,? |\bnote is made of\b|\bnote made of\b", " "),
        (r"\b(?:in addition|additionally|also|overall|otherwise,|however|please note|note that|of note),? ", " "),
    )
)

_DROPPED = re.compile(
    # how the images were made and which they are
    r"^(?:¤ )*(?:chest|kub|exam(?:ination)?|technique|findings|impression|comparison|history|indication|"
    r"(?:\w+ )?(?:images?|views?)(?: submitted| obtained)?|(?:pa|ap|lateral|frontal)(?: chest)?)$"
    r"|\b(?:was|were) (?:obtained|performed|acquired|reviewed|submitted|provided|made|taken|compared|notified|discussed|"
    r"communicated|informed|called|read|interpreted|recommended|given|available)\b"
    r"|\b(?:examination|exam|study) consists of\b|\bimages? (?:submitted|obtained)\b|\bdictat|\btranscri"
    r"|\b(?:limited|limits|limitation|suboptimal|nondiagnostic|inadequate|degraded)\b(?!.*\b(?:reveal|show|demonstrat)\w*)"
    r"|\brotat(?:ed|ion)\b(?!.*\b(?:fracture|opacity|effusion)\b)|\b(?:lordotic|expiratory) (?:in )?(?:projection|position|view)"
    # advice and talk
    r"|\b(?:recommend|suggest (?:clinical|follow|ct|further|correlation)|correlat|follow-?up|advis|clinical (?:concern|history)|"
    r"would be (?:helpful|useful|¤)|consider (?:ct|chest|follow|further|rib|repeat|dedicated)|"
    r"further (?:evaluation|assessment|imaging)|could be (?:further )?(?:obtained|performed|evaluated|considered)|"
    r"if (?:clinically|there is|symptom|indicated|concern|needed)|clinical correlation|should be (?:considered|performed|obtained)|"
    r"can be (?:obtained|performed|considered|evaluated))"
    r"|\b(?:dr|doctor|physician|radiologist|resident)\b\.?|\btelephone\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    r"|\b(?:patient|he|she) (?:is|was|has) (?:a )?\d+|\betiology not|\bcannot be stated|\bdifficult to\b"
    r"|\bnot (?:well|definitely|clearly|optimally|completely|entirely|fully|included|excluded on|delineated) ?(?:seen|visualized|"
    r"evaluated|identified|demonstrated|delineated|assessed|characterized)?\b|\bobscured by (?:the )?(?:patient|arm|overly)"
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
_HARD = re.compile(
    r",? *\b(?:but|although|though|however|while|whereas)\b,? *(?:they are |it is |they |it )?"
    r"|,? *\band (?=(?:there (?:is|are)|no\b|without\b|with no\b|negative for))"
    r"|, (?=(?:there (?:is|are)|no\b|negative for|with no\b))|(?<=\w) (?=there (?:is|are) )"
    r"|,? *\bas (?:are|is|well as) (?:the )?(?=normal)"
    r"|,? *\b(?:which|that) (?=(?:may|might|could|likely|probably|possibly|suggest))"
)
_NO_WITH = re.compile(
    r",? *\b(?:and |but )?(?:with )?(?=without\b|with no\b|negative for|no (?!longer))(?<!is )(?<!are )(?<!with )(?<!show )(?<!shows )(?<!strate )(?<!strates )(?<!reveal )(?<!reveals )(?<!have )(?<!has )(?<!appear )(?<!appears )"
    r"(?<!are grossly )(?<!otherwise )"
)
_BARE_WITH = re.compile(
    r",? *\b(?:along |together )?with (?!(?:the |its |their |a |distal |catheter |lead |intact )*(?:tips?|leads?|distal|side|"
    r"adjacent|a? ?history|normal (?:aging|limits)|respect|contrast|the exception|patient|age|overlying|underlying|"
    r"superimposed|surrounding|intact|predominan|central|air-fluid|at least|¤ lumen|¤ tip|¤))"
    r"(?:(?:some|mild )?(?:associated|resultant|resulting|subsequent|accompanying|secondary|concurrent) )?"
)

NO = r"(?:no|without|negative for|free of|free from|clear of|absence of|with no|devoid of)"


def sentences(findings: str) -> list[str]:
    """Split a report into lower-case sentences with one spelling and ``¤`` for every mark.

    Decimals ("1.5 cm") and abbreviations ("Dr. ", "vs.") do not end a sentence. What says how the images were made,
    whom to ask or what to do next is left out.

    Args:
        findings: The FINDINGS section; any text.
    """
    text = _MARKS.sub(MARK, findings.replace(MARK, " "))
    text = _RUN_ON.sub(". ", text)
    found: list[str] = []
    for raw in _SENTENCE_END.split(text):
        sentence = " ".join(raw.lower().split())
        if not sentence or _NUMBERING.match(sentence) and len(sentence) < 4:
            continue
        sentence = _NUMBERING.sub("", sentence)
        for pattern, replacement in _SPELLING:
            sentence = pattern.sub(replacement, sentence)
        sentence = " ".join(sentence.split()).strip(" ,.-:")
        for part in _after_label(sentence):
            if not _DROPPED.search(part):
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
        if closed and ahead and _VERB.match(piece) is None:
            groups.append(piece)
        else:
            groups[-1] += separator + piece
    return groups
