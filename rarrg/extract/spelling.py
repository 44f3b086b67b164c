"""Spelling variants, shortenings and words hidden by marks, brought to one spelling."""

from __future__ import annotations

import re

MARK = "¤"
"""Stands for one de-identification mark (``XXXX``, ``___``) until the clause is read."""

# Words that a mark hides beyond doubt, spelling variants, and shortenings: (pattern, text). The order matters.
# Words that a mark hides beyond doubt, spelling variants, and shortenings: (pattern, text). The order matters.
SPELLING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
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
        (
            r"\b(?:which )?measur(?:es|ed|ing)(?: in size)?(?: up to)?(?: (?:approximately|about"
            r"|roughly))? ",
            "measuring ",
        ),
        (r"\baortic (?:¤|arch|knob) ?(?=(?:is|are|appears?|may|with|and)\b|,|$)", "aorta "),
        (r"\b(\w+) \1\b", r"\1"),
        (r"\b(left|right) chest ¤ with (?:the |its |a )?(?:catheter )?tip\b", r"\1 chest catheter with tip"),
        (
            r"¤ (?:in|on|over) the (left|right) chest,? with (?:the |its |a )?catheter tip\b",
            r"\1 chest catheter with tip",
        ),
        (
            r"^(?:at|in|within|on) ((?:the )?(?:left|right) [\w ]{3,30}), there (?:is|are|has been"
            r"|have been)(?: development of)? (?!.*\b(?:left"
            r"|right|bilateral))(.+)$",
            r"\2 in \1",
        ),
        (r"\bosseus\b", "osseous"),
        (r"\b(?:do|does|did) not (?:clearly )?(?:demonstrate|show|reveal|have|contain|exhibit)\b", "show no"),
        (r"\bfails? to (?:demonstrate|show|reveal)\b", "show no"),
        (r"\b(?:i|we) (?:do|did|can) ?not (?:see|identify|appreciate)(?: any)?\b", "there is no"),
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
        # what was done is a statement of its own: "no pneumothorax status post thoracentesis"
        (r"(?<=[a-z])(?<!\bis)(?<!\bare)(?<!\bpatient),? (?:status post|s/p) ", " but "),
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
        (
            r",? ?\b(?:considering|accounting for"
            r"|allowing for) (?:the )?(?:differences in )?(?:technical factors|technique)(?: ¤)*,? ?",
            ", ",
        ),
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
