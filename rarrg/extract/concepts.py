"""Words of a statement -> what they stand for: one name for each finding, place and size, whatever it is called.

A word without a name of its own stands for itself, so that nothing which a text adds goes unnoticed.
"""

from __future__ import annotations

import re

from rarrg.extract.terms import IMPLIED, NAMES, ORGANS, PLACES, PREFIXES, QUALITIES

# Spellings and names of several words: (pattern, one name). The order matters.
_LIMIT = (
    r"(?:upper (?:limits?|range|end)(?: of)?(?: the)? normal(?: range)?|(?:high|top)(?: of)?(?: the)? normal)"
    r"(?: limits)?"
)
_POOR = r"(?:low|poor|shallow|suboptimal|reduced)"
_GREATER = r"(?:greate(?:r|st)|larger|(?:more|most)(?: (?!likely)\w+)?|wors(?:e|t))"
_SIDE = r"(?:on |at |in )?(?:the )?(?:left|right)(?: side| lung)?"
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"\b(?:{pattern})\b"), name)
    for pattern, name in (
        (r"(?<=\w)-(?=\w)", " "),
        (r"non (?=[a-z])", "non"),
        (r"(?<=\d)\.0+(?= ?[cm]m)", ""),
        # what denies a quality alone names another one
        (r"not (?=(?:displaced|calcified|obstructive|obstructed|specific)\b)", "non"),
        (r"(\d+(?:\.\d+)?) ?([cm])(?:enti|illi)?m(?:eters?)?", r"\1_\2m"),
        (r"(lef|righ)tward", r"\1t"),
        (r"(?:a |an )?(?:normal|anatomic(?:al)?|incidental) (?:anatomic(?:al)? )?(?:variant|variation)", ""),
        (
            r"(?:evaluation|assessment|visualization|study|examination)(?: of the [\w ]+?)? (?:is |are )?(?:\w+ly )?"
            r"(?:limited|compromised|degraded) (?:by|due to|because of|secondary to|given)",
            "",
        ),
        (r"lul", "left upper lobe"),
        (r"lll", "left lower lobe"),
        (r"rul", "right upper lobe"),
        (r"rml", "right middle lobe"),
        (r"rll", "right lower lobe"),
        (r"(is|are) both", r"\1"),
        (r"(?:(?:the )?patient (?:is|has had|has undergone|underwent) )?(?:status post|s/p)", "prior"),
        (r"in line with", "with"),
        (r"well (?:positioned|placed|seated)", "standard"),
        (r"superior vena cava", "svc"),
        (r"inferior vena cava", "ivc"),
        (r"cavo atrial", "cavoatrial"),
        (r"low(?:er)? (?=svc|ivc|right atri)", "lower "),
        (r"internal jugular", "ij"),
        (r"et tube|ett", "endotracheal tube"),
        (r"ge junction", "gastroesophageal junction"),
        (r"port ?a ?cath(?:eter)?|medi ?port", "port"),
        (r"chest (tubes?|drains?)", r"chest_\1"),
        (r"side ?(?:ports?|holes?)", "sidehole"),
        (r"pulmonary arter(?:y|ial) catheter|swan ?ganz(?: catheter)?", "swanganz catheter"),
        (r"central (?:venous )?(?=catheter|line)", ""),
        (r"(?:implantable )?cardioverter defibrillator", "icd"),
        (r"(left|right) atri(?:um|al)", r"\1_atrium"),
        (r"(left|right) ventric(?:le|ular)", r"\1_ventricle"),
        (r"(left|right) heart", r"\1_heart"),
        (r"support (?:devices?|apparatus|hardware)", ""),
        (r"chronic obstructive (?:pulmonary|lung) disease", "copd"),
        (r"congestive heart failure", "chf"),
        (r"coronary(?: artery)? bypass(?: graft(?:ing)?)?(?: surgery)?", "cabg"),
        (r"pleural fluid", "effusion"),
        (r"(pericardial|joint) effusions?", r"\1_effusion"),
        (r"soft tissues?", "softtissue"),
        (r"subcutaneous (?:air|gas)", "subcutaneous emphysema"),
        (r"air space", "airspace"),
        (r"airspace (?:diseases?|process(?:es)?)", "airspace opacity"),
        (r"(?<=retrosternal )clear ?space", "space"),
        (r"mid(?:dle)? ?lungs?", "mid lung"),
        (r"mid ?thoracic", "mid thoracic"),
        (r"inspiratory (?=(?:lung )?volumes?)", ""),
        (
            rf"{_POOR} (?:inspirat\w+(?: effort)?|(?:lung )?inflation)"
            rf"|inspirat\w+(?: effort)? (?:is |was |appears )?{_POOR}",
            "hypoinflation",
        ),
        (
            r"free (?:(?:intra ?peritoneal|intra ?abdominal|sub ?diaphragmatic) )?(?:air|gas)"
            r"(?: (?:is|seen|noted|present|identified|visible))*"
            r"(?: (?:under|below|beneath)(?: the| either| both)*( left| right)? (?:hemi)?diaphragms?)?",
            r"pneumoperitoneum\1",
        ),
        (
            r"(?:cours|pass|extend|travel|travers)(?:es|s|ing) (?:below|beneath) the (?:left )?(?:hemi)?diaphragm"
            r"(?= .*(?:stomach|gastric|duoden))",
            "",
        ),
        (r"(?<=\d_[cm]m) (?:from|superior to|proximal to) (?=(?:the )?carina)", " above "),
        (r"(?:behind|posterior to) the (?:heart|cardiac silhouette)", "retrocardiac"),
        (r"(?:compressive|relaxation|passive) (?=(?:\w+ ){0,3}atelecta)", ""),
        (r"thoracic (?=aort)", ""),
        (r"degenerative diseases?", "degenerative change"),
        (r"(acute|active|focal|significant|abnormal) ((?:\w+ ){0,2})findings?", r"\1 \2abnormality"),
        (r"quadrants? of the abdomen", "quadrant"),
        (r"vertebral bod(?:y|ies)", "vertebra"),
        (r"([clt]\d{1,2}) (?:vertebra|body|level)", r"\1"),
        (r"(minor|major|horizontal|oblique) fissures?", r"\1_fissure"),
        (r"relative to (?:that (?:of|on) )?(?:the )?(?:left|right)(?: side)?", ""),
        (r"costo ?phrenic(?: (?:sulc(?:us|i)|recess(?:es)?))?", "costophrenic"),
        (r"t spine", "thoracic spine"),
        (r"l spine", "lumbar spine"),
        (r"c spine", "cervical spine"),
        (r"cardio ?mediastin(?:al|um)", "cardiac mediastinal"),
        (r"ap (?=(?:chest )?(?:diameter|dimension))", "anteroposterior "),
        (r"thoraco ?lumbar", "thoracic lumbar"),
        (rf"(?:(?:at|near|of|in|towards?|the) )*{_LIMIT}|borderline(?: enlarged| large)?", "borderline"),
        (r"(?:with)?in (?:the )?(?:normal (?:size )?limits|limits of normal|normal range)", "normal"),
        (rf"(left|right) (?:side |effusion |one )?(?:is |being |appearing )?{_GREATER} than {_SIDE}", r"\1_greater"),
        (r"(left|right) (?:side )?predominan\w+", r"\1_greater"),
        (rf"{_GREATER} (?:on|at|in) (?:the )?(left|right)(?: side| lung\b)?(?: than {_SIDE})?", r"\1_greater"),
        (
            r"tips? (?:is |are )?(?:out of view|not (?:seen|visualized|imaged|included)"
            r"|(?:out of|beyond|off|not included in) the (?:inferior |lower )?"
            r"(?:field of view|view|image|film|radiograph|margin))",
            "tip_out",
        ),
        (r"bi ?(basilar|basal|apical|hilar)", r"bilateral \1"),
    )
)
_ENDING = re.compile(r"(?<=\w{4})(?:(?:at)?(?:ings?|ed|ions?|es|e)|ments?|(?<![isu])s)$")


def one_spelling(text: str) -> str:
    """A lower-case text with one spelling for each name of several words."""
    for pattern, name in _SPELLINGS:
        text = pattern.sub(name, text)
    return text


def concept(word: str) -> str:
    """What a lower-case word stands for; its stem, if it has no name.

    Args:
        word: One word of :func:`one_spelling`.
    """
    if word in NAMES:
        return NAMES[word]
    for length in range(len(word), 3, -1):
        if word[:length] in PREFIXES:
            return PREFIXES[word[:length]]
    if word in ORGANS or word in PLACES or word in QUALITIES:
        return word
    if word.endswith("ly") and word[:-2] in QUALITIES:
        return word[:-2]
    return _ENDING.sub("", re.sub(r"(?<=\w{3})ies$", "y", word))


_IMPLIED = {concept(word): frozenset(map(concept, also)) for word, also in IMPLIED.items()}


def implied(concepts: frozenset[str]) -> frozenset[str]:
    """Concepts with all that they say beside themselves."""
    return concepts.union(*(_IMPLIED.get(name, frozenset()) for name in concepts))
