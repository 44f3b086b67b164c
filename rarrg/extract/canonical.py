"""One surface form for the many that say the same: word order, articles, plurals and spelling of a phrase.

Only forms that state the same fact are merged. Side, size, location, count, negation and degree are never touched:
"granuloma" and "granulomas" stay apart, as do "normal heart" and "normal heart size".
"""

from __future__ import annotations

import re

from rarrg.extract.word_order import front_region, order_adjectives

_Rewrite = tuple[re.Pattern[str], str]


def _rewrites(*pairs: tuple[str, str]) -> tuple[_Rewrite, ...]:
    return tuple((re.compile(pattern), text) for pattern, text in pairs)


_DEGREE = (
    r"(?P<d>(?:(?:mild|mildly|minimal|minimally|moderate|moderately|severe|severely|slight|slightly"
    r"|marked|markedly|stable|borderline|significant|significantly|mild to moderate|moderate to severe) )?)"
)
_NOUN_DEGREE = {
    "mildly ": "mild ",
    "minimally ": "minimal ",
    "moderately ": "moderate ",
    "severely ": "severe ",
    "slightly ": "slight ",
    "markedly ": "marked ",
    "significantly ": "significant ",
}
_ADVERB_DEGREE = {noun: adverb for adverb, noun in _NOUN_DEGREE.items() if noun != "significant "}

_WORDS = _rewrites(
    (r"\b(?:a|an|some) (?=\w)", ""),
    (r"^(?P<neg>no |possible )?(?:the|this|these|that|those|its|any) ", r"\g<neg>"),
    (r"^(?P<neg>no |possible )?both (?=lungs)", r"\g<neg>"),
    (r"\bboth costophrenic", "bilateral costophrenic"),
    (r"\b(?:visualized|visualised|visible|identifiable|discernible|discernable|demonstrable) (?=\w)", ""),
    (
        r"\b(?:osseous|skeletal) (?:structures?|thorax)\b|\bbony (?:structures?|thorax|skeleton)\b"
        r"|\bbone structures?\b",
        "bony structures",
    ),
    (r"\b(?:osseous|skeletal|bone) (?=abnormalit|finding|lesion|process|injur|disease|fracture|patholog)", "bony "),
    (r"\b(?:pulmonary|lung) vasculatures?\b", "pulmonary vascularity"),
    (r"\b(?:areas?|foci|focus) of (?=\w)", ""),
    (r"\bcostophrenic angles?\b", "costophrenic angle"),
    (r"(?<!pleural )(?<!pericardial )(?<!joint )(?<!knee )(?<!subpulmonic )\beffusion(s?)\b", r"pleural effusion\1"),
    (r"\b(?:mildly|slightly) (?:enlarged )?borderline\b", "borderline"),
    (r"\bdegenerative change\b", "degenerative changes"),
    (
        r"\b(arthritic|postsurgical|postoperative|atherosclerotic|emphysematous|fibrotic|sclerotic) change\b",
        r"\1 changes",
    ),
    (r"\bend ?plate\b", "endplate"),
    (r"\b(?:disk)\b", "disc"),
    (r"\b(?:cardiac|heart) shadow\b", "cardiac silhouette"),
    (r"\bheart silhouette\b", "cardiac silhouette"),
    (r"\b(?:air ?space) opacification\b", "airspace opacity"),
    (r"\bpleural air collections?\b", "pneumothorax"),
    (r"\bconsolidative (?:opacity|process)\b", "consolidation"),
    (r"\bmidlung zone\b", "midlung"),
    (r"\bmid(?:dle)? lung(?: zone| field)?\b", "midlung"),
    (r"\b(upper|lower) lung (?:zone|field)(s?)\b", r"\1 lung\2"),
    (r"\blung fields\b", "lungs"),
    (r"\b(upper|lower|middle) lobes? of the (left|right) lung\b", r"\2 \1 lobe"),
    (r"\b(left|right) lung,? (upper|lower|middle) lobe\b", r"\1 \2 lobe"),
    (r"\bbilaterally symmetric\b", "symmetric"),
    (
        r"\b(in|of|at|within|over) (?=(?:left|right|mid|upper|lower|thoracic|lumbar|cervical|descending"
        r"|ascending|aortic|lung|"
        r"lingula|spine|bilateral (?:lung|hil|apic)|bony|medial|lateral|anterior|posterior)\b)",
        r"\1 the ",
    ),
    (r"\b(of|in|throughout|within|involving|along) the the\b", r"\1 the"),
)

_FORMS = _rewrites(
    # heart
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:enlarged heart(?: size)?|enlargement of the heart(?: size)?"
        rf"|cardiac enlargement|heart(?: size)? enlargement|enlarged cardiac size|large heart"
        rf"|prominent heart size|heart(?: size)? enlarged|cardiomegaly)(?: size| in size)?(?P<t> .*)?$",
        "{n}{d:noun}cardiomegaly{t}",
    ),
    (rf"^(?P<n>no |possible )?(?:heart|heart size) {_DEGREE}enlarged(?: in size)?$", "{n}{d:noun}cardiomegaly"),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:enlargement of the cardiac silhouette|cardiac silhouette enlargement)$",
        "{n}{d:adverb}enlarged cardiac silhouette",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:mediastinal widening|widening of the mediastinum|widened mediastinum)$",
        "{n}{d:noun}mediastinal widening",
    ),
    # lungs
    (
        r"^(?:decreased|diminished|reduced|shallow) lung volumes?$|^low(?:er)? (?:lung"
        r"|inspiratory) volumes?(?: bilaterally)?$|^lung volumes? (?:are )?low$",
        "low lung volumes",
    ),
    (rf"^(?P<n>no |possible )?{_DEGREE}(?:low|decreased) lung volumes?$", "{n}{d:adverb}low lung volumes"),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}hyper(?P<k>inflat|expan|aerat)(?:ion|sion|ed"
        rf"|ded)(?: of)?(?: both)?(?: the)? lungs?(?: bilaterally)?$",
        "{n}{d:adverb}hyper{k:ed} lungs",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:pulmonary |lung |bilateral )?hyper(?P<k>inflat|expan"
        rf"|aerat)(?:ion|sion)$",
        "{n}{d:adverb}hyper{k:ed} lungs",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}hypo(?P<k>inflat|aerat|ventilat)(?:ion"
        rf"|ed)(?: of)?(?: the)?(?: lungs?)?(?: bilaterally)?$",
        "{n}{d:adverb}hypo{k:ed} lungs",
    ),
    # diaphragm
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<a>chronic |asymmetric |relative "
        rf"|chronic asymmetric )?(?:elevation(?: of)?(?: the)?|elevated) (?P<s>left"
        rf"|right) (?:hemi)?diaphragm(?P<t> .*)?$",
        "{n}{d:adverb}{a}elevated {s} hemidiaphragm{t}",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<s>left|right) hemidiaphragm(?:atic)? elevation$",
        "{n}{d:adverb}elevated {s} hemidiaphragm",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:(?:flattening|flattened) (?:of )?(?:the |both "
        rf"|bilateral )*(?:hemi)?diaphragms?|(?:hemi)?diaphragm(?:atic)? flattening)$",
        "{n}{d:adverb}flattened diaphragms",
    ),
    (
        r"^(?P<n>no |possible )?(?P<d>)(?P<s>left|right) (?:hemi)?diaphragm(?:atic)? eventration$",
        "{n}eventration of the {s} hemidiaphragm",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<a>chronic )?(?:(?P<s1>left|right"
        rf"|bilateral) costophrenic angle blunting|(?:blunted|blunting(?: of)?)(?: the)? (?P<s2>left|right"
        rf"|bilateral) costophrenic angle)$",
        "{n}{d:noun}{a}blunting of the {s1}{s2} costophrenic angle",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?:costophrenic angle blunting|(?:blunted"
        rf"|blunting(?: of)?)(?: the)? costophrenic angle)$",
        "{n}{d:noun}blunting of the costophrenic angle",
    ),
    # aorta
    (
        rf"^(?P<n>no |possible )?{_DEGREE}tortuosity of(?: the)? (?P<a>(?:descending |ascending |thoracic )*)aorta$",
        "{n}{d:adverb}tortuous {a}aorta",
    ),
    (rf"^(?P<n>no |possible )?{_DEGREE}aortic tortuosity$", "{n}{d:adverb}tortuous aorta"),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<k>atherosclerotic )?(?:calcifications?|calcific changes) (?:of"
        rf"|in|within|involving)(?: the)? (?P<a>thoracic )?aorta$",
        "{n}{d:noun}{k}calcifications of the {a}aorta",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<k>atherosclerotic )?aortic (?P<k2>atherosclerotic )?calcifications?$",
        "{n}{d:noun}{k}{k2}calcifications of the aorta",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}atherosclerotic (?:changes|disease) (?:of|in"
        rf"|involving)(?: the)? (?P<a>(?:thoracic )?)aorta$",
        "{n}{d:noun}atherosclerotic changes of the {a}aorta",
    ),
    # spine
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<m>multilevel |diffuse |endplate |chronic )?(?P<p>(?:mid "
        rf"|lower |upper |mid to lower )?(?:thoracic |lumbar |thoracolumbar |cervical "
        rf"|midthoracic )*spin(?:e|al)) degenerative (?P<k>endplate |disc )?(?P<h>changes|disease)$",
        "{n}{d:noun}{m}degenerative {k}{h} of the {p:spine}",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<m>multilevel |diffuse |chronic "
        rf"|early )?degenerative (?P<k>endplate |disc |bony )?(?P<h>changes|disease)(?: (?:of|in|within"
        rf"|throughout|involving|along|about|at))?(?: the)? (?P<p>(?:mid |lower |upper |mid to lower "
        rf"|visualized )?(?:thoracic |lumbar |thoracolumbar |cervical |midthoracic )*(?:spine"
        rf"|bony structures|shoulders?|vertebrae))$",
        "{n}{d:noun}{m}degenerative {k}{h} of the {p}",
    ),
    (
        rf"^(?P<n>no |possible )?{_DEGREE}(?P<w>dextroscoliosis|levoscoliosis|scoliosis|kyphosis|spondylosis"
        rf"|dextrocurvature|levocurvature|osteophytes|curvature)(?: (?:of|in|involving|within"
        rf"|throughout))?(?: the)? (?P<p>(?:mid |lower |upper |midthoracic )?(?:thoracic |lumbar "
        rf"|thoracolumbar |cervical )*spine)$",
        "{n}{d:noun}{w} of the {p}",
    ),
    (
        r"^(?P<n>no |possible )?(?P<d>)thoracic spine (?P<w>spondylosis|scoliosis|kyphosis|osteophytes)$",
        "{n}{w} of the thoracic spine",
    ),
    # old granulomatous disease
    (
        r"^(?:sequelae? (?:of|from) )?(?:old|remote|chronic) granulomatous (?:disease|infection|process)$",
        "old granulomatous disease",
    ),
)
_PAST = {"inflat": "inflated", "expan": "expanded", "aerat": "aerated", "ventilat": "ventilated"}


def _fill(template: str, match: re.Match[str]) -> str:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    degree = groups.get("d", "")
    return (
        template.replace("{d:noun}", _NOUN_DEGREE.get(degree, degree))
        .replace("{d:adverb}", _ADVERB_DEGREE.get(degree, degree))
        .replace("{k:ed}", _PAST.get(groups.get("k", ""), ""))
        .replace("{p:spine}", groups.get("p", "").replace("spinal", "spine"))
        .format(**groups)
    )


_SINGULAR = _rewrites(
    (r"\bpneumothoraces\b", "pneumothorax"),
    (
        r"\b(effusion|consolidation|infiltrate|nodule|fracture|granuloma|dislocation|lesion|fluid collection|line|"
        r"calcification|infection|contusion|process|shift)s\b(?<!process)",
        r"\1",
    ),
    (r"\bprocesses\b", "process"),
    (r"\bmasses\b", "mass"),
    (r"\b(opacit|abnormalit|densit|adenopath|deformit|lymphadenopath|cavit)ies\b", r"\1y"),
    (r"\bacute bony (?:findings?|abnormality|changes?|patholog(?:y|ies)|process)\b", "acute bony abnormality"),
    (r"\bfindings\b", "finding"),
    (r"\bpleural fluid\b", "pleural effusion"),
    (r"^(?P<n>no (?:large |significant )?)effusion$", r"\g<n>pleural effusion"),
    (
        r"^no (?:focal )?(?:areas? of )?(focal )?(?:lung|pulmonary|airspace|alveolar) consolidation$",
        "no focal airspace consolidation",
    ),
    (
        r"^no free (?:intraperitoneal |intra-abdominal |subdiaphragmatic |peritoneal )?(?:air"
        r"|gas)(?: (?:under|beneath|below) the (?:hemi)?diaphragms?| in the abdomen)?$",
        "no free subdiaphragmatic air",
    ),
)


def canonical(phrase: str) -> str:
    """Bring one lower-case phrase into its one surface form.

    Args:
        phrase: A phrase with its negation or uncertainty in front ("no", "possible"), free of marks.
    """
    text = " ".join(phrase.split())
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    if text.startswith("no "):
        for pattern, replacement in _SINGULAR:
            text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    for pattern, template in _FORMS:
        if match := pattern.match(text):
            text = _fill(template, match)
            break
    return " ".join(order_adjectives(front_region(text)).split())
