"""Findings text -> lower-case sentences with one spelling, technique and advice left out."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache

from rarrg.denials import plain_denials
from rarrg.extract.spelling import MARK, SPELLING

_PORT = re.compile(r"\b[xX]{3,}-[aA]-[xX]{3,}(?: [xX]{3,})?")
_MARKS = re.compile(r"(?<![\w-])[\w-]*(?:[xX]{3,}|_{2,})[\w-]*")
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
_DROPPED = re.compile(
    # how the images were made and which they are
    r"^(?:(?:the|apical|lordotic|frontal|lateral|upright|portable|single|ap|pa|and|supine|oblique) )*"
    r"(?:views?|projection|radiographs?)$|"
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
    r"|optimally|completely|entirely|fully|included|excluded on|delineated)\b(?! (?:resolved|cleared)) ?(?:seen"
    r"|visualized|"
    r"evaluated|identified|demonstrated|delineated|assessed|characterized)?\b"
    r"|^none of\b"
    r"|\bobscured by (?:the )?(?:patient|arm|overly)"
)
_SCAFFOLD = re.compile(
    r"\b(?:is|are|was|were) (?:made )?(?:of )?$"
    r"|^(?:the |a |an )?(?:¤ )*(?:frontal|lateral|pa|ap|upright|portable|single|two|2|¤|and| |,)*"
    r"(?:views?|radiographs?|images?|projections?|examination|exam|film|chest x-ray)(?: of)?(?: the)?(?: chest)?"
    r"(?: with [^,]*?)?,? (?:shows?|demonstrates?|reveals?|show)(?: that)? "
    r"|^(?:on |in )(?:the )?(?:frontal|lateral|pa|ap)(?: view| projection| radiograph)?,? "
)
_LABEL = re.compile(r"^(?P<label>[a-z/ ,&]{2,40}?): *(?P<text>.*)$")
_PLACES = re.compile(r"\b(?:lungs?|heart|mediastin|pleura|bones?|hila|aorta|diaphragm|trachea|soft tissues)\b")
_STATE = re.compile(
    r"^(?:normal|clear|unremarkable|intact|within normal limits|grossly|stable|(?:not )?enlarged)\b[^,]*$"
)

_LONGEST = 600


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
        found += [part for piece in _bounded(" ".join(raw.lower().split())) for part in _read(piece)]
    return found


# Reports share most of their sentences.
@lru_cache(maxsize=1 << 14)
def _read(sentence: str) -> tuple[str, ...]:
    found: list[str] = []
    if not sentence or (_NUMBERING.match(sentence) and len(sentence) < 4):
        return ()
    sentence = plain_denials(_NUMBERING.sub("", sentence).strip(" .-:"))
    for pattern, replacement in SPELLING:
        sentence = pattern.sub(replacement, sentence)
    sentence = " ".join(sentence.split()).strip(" ,.-:")
    for part in _after_label(sentence):
        part = ", ".join(piece for piece in part.split(", ") if not _DROPPED.search(piece))
        part = _SCAFFOLD.sub("", part).strip(" ,")
        if part:
            found.append(part)
    return tuple(found)


def _bounded(sentence: str) -> list[str]:
    """Cut a text that never ends its sentence at spaces, so that reading stays quick."""
    return textwrap.wrap(sentence, _LONGEST, break_on_hyphens=False) if len(sentence) > _LONGEST else [sentence]


def _after_label(sentence: str) -> list[str]:
    """``lungs: clear`` says that the lungs are clear; ``chest: no effusion`` says no more than its text."""
    labelled = _LABEL.match(sentence)
    if labelled is None:
        return [sentence]
    if _PLACES.search(labelled["label"]) and _STATE.match(labelled["text"]):
        return [f"{labelled['label']} are {labelled['text']}"]
    return _after_label(labelled["text"])
