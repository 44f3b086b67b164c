"""What each observation is called in a report: the words that mention it, and the states of the heart."""

from __future__ import annotations

import re

# The 14 observations of CheXpert (Irvin et al., 2019) in CheXbert's order.
OBSERVATIONS: tuple[str, ...] = (
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
    "No Finding",
)
# Findings outside the other 13; they say only that a report is not one of no finding.
OTHER = "Other"

_CARDIOMEGALY = r"cardiomegaly|(?:cardiac|heart) (?:\w+ )?enlargement|enlargement of (?:the )?(?:heart|cardiac|cardio)"
_MEDIASTINUM = (
    r"mediastinal (?:\w+ )?(?:widening|enlargement|prominence)"
    r"|(?:widening|enlargement|prominence) of (?:the )?(?:superior |upper )?mediastin"
)
_OPACITY = (
    r"opacit(?:y|ies)\b|opacifi\w+|infiltrat\w+|air[- ]?space (?:\w+ )?(?:disease|process)|increased densit(?:y|ies)"
    r"|haziness"
)
_LESION = (
    r"(?<!\bcalcified )(?<!\bcalcified lung )(?<!\bcalcified pulmonary )"
    r"nodul(?:es?\b|ar (?:\w+ ){0,3}(?:densit|opaci)\w+)"
    r"|mass(?:es|-?like)?\b(?! effect)|cavitary lesions?|(?:lung|pulmonary) lesions?|carcinoma|neoplasm\w*"
    r"|tumou?rs?\b|malignan(?:cy|t)|(?:lung|bronchogenic) cancer"
)
_EDEMA = (
    r"(?<!soft tissue )(?<!soft-tissue )edema|(?:heart|cardiac) failure|chf\b|congestive"
    r"|(?:vascular|pulmonary|venous) congesti(?:on|ve)"
)
_PNEUMONIA = r"(?:broncho)?pneumonias?\b|pneumonitis|(?<!granulomatous )(?<!histoplasmosis )infections?\b|infectious"
_ATELECTASIS = (
    r"atelecta\w+|(?:lobe|lung|lobar|lobular|basilar) collapse\b|collapsed (?:\w+ )?(?:lung|lobe)"
    r"|collapse of (?:the )?(?:\w+ ){0,5}(?:lungs?|lobes?)\b"
)
_PNEUMOTHORAX = r"(?:hydro|ha?emo)?pneumothora\w+|ptx\b|pleural (?:or )?air\b"
_EFFUSION = r"(?<!pericardial )(?<!joint )effusions?\b|pleural fluid|(?:hydro|ha?emo)(?:pneumo)?thora(?:x|ces)\b"
_PLEURAL = (
    r"pleural[- ](?:\w+[- ])?(?:thickening|scar\w*|plaques?|plaquing|fibrosis|calcifications?|capping|cap\b)"
    r"|fissural thickening|fibrothorax|pleuro-?parenchymal (?:scar\w*|thickening)"
    r"|thickening of (?:the )?(?:\w+ )?(?:pleura|fissure)"
)
_FRACTURE = (
    # of a bone, not of a wire
    r"(?<!catheter )(?<!lead )(?<!wire )(?<!wires )(?<!hardware )(?<!screw )(?<!screw is )(?<!lead is )"
    r"fractur(?:es?|ed)\b(?! (?:of (?:the )?)?(?:\w+ ){0,4}(?:catheter|wires?|leads?|screws?|hardware)\b)"
    r"|broken (?:\w+ ){0,3}ribs?"
)
_ENDS_IN = r"(?:[a-z]?svc|ivc|vena|cava\w*|cavo\w*|atri\w+|azygos|brachiocephalic|carina|stomach|ventric\w+|jugular)"
_DEVICES = (
    # lines and tubes
    r"catheters?\b|picc\b|port-?a-?cath\w*|xxxx-a-xxxx|medi-?port|infusion port|(?:chest|subclavian|jugular) port\b"
    r"|(?:central|venous|arterial|jugular|subclavian|ij|iv|picc|hickman|dialysis|support|swan\W+ganz) lines?\b"
    r"|lines? (?:and|or) tubes?|line (?:tip|with)|tubes?\b|tubing|drains?\b|cannula\w*"
    r"|(?:vp|ventriculoperitoneal) shunt"
    rf"|tracheostomy|tip (?:\w+ ){{0,7}}{_ENDS_IN}"
    # electronics
    r"|pacers?\b|pace-?makers?|pacing|defibrillators?|a?icd\b|leads?\b(?! to\b)|(?:neuro)?stimulators?|electrodes?"
    r"|pulse generator|generator|(?:loop|event|implantable) recorder|monitors?\b|devices?\b|(?<!medical )equipment"
    # valves, stents and what closes a vessel
    r"|(?:prosthetic|artificial|mechanical|bioprosthetic|metallic) (?:\w+ )?valves?"
    r"|valve (?:replacement|prosthes[ie]s|ring)|valvuloplasty|annuloplasty|stents?\b|stent-?grafts?"
    r"|endografts?|occluder|(?:ivc|caval|greenfield) filter|coils?\b|tips (?:shunt|stent|noted)"
    # what surgery leaves behind
    r"|clips?\b|wires?\b|sutures?\b|staples?\b|staple line|surgical (?:material|markers?)|markers?\b|hardware"
    r"|screws?\b|(?:bone|suture|metallic|metal|rotator cuff) anchors?|(?:spinal|fixation|harrington|metal\w*) rods?"
    r"|(?:fixation|metal\w*|fusion|sternal|side) plates?\b|plates? and screws?|internal fixation|orif\b"
    r"|(?:spinal|cervical|thoracic|lumbar|anterior|posterior|vertebral|spine) fusion"
    r"|fusion of (?:the )?(?:\w+ ){0,3}spine|arthroplast\w+|(?<!breast )prosthe(?:s[ie]s|tic)"
    r"|(?:joint|hip|shoulder) replacement|(?<!breast )implants?\b|implant(?:ed|able) (?!breast)"
    r"|lap-?band|gastric band"
)
_OTHER = (
    r"granulom|calcif|scar(?:s|ring|red)?\b|cicatri|fibro(?:sis|tic)|emphysem|copd|obstructive|bulla|bleb|cyst|cavit"
    r"|bronchiect|bronchitis|bronchial|cuffing|hyper(?:infl|expan|aer|lucen|disten)|hypo(?:infl|aer|ventil|expan)"
    r"|(?:low|decreased|diminished|reduced|small) (?:lung )?volumes?|volume loss|lucenc"
    r"|interstitial|reticul|(?:bronchovascular|lung|prominent|increased|coarse\w*) markings|densit(?:y|ies)\b"
    r"|thicken|blunt|plaque|elevat(?:ed|ion)|eventrat|hernia|flatten|(?:levo|dextro)?(?:scolio|curv)|curvature"
    r"|kypho|degenera|osteophyt|spondyl|spurr"
    r"|arthr(?:itis|itic|opathy|osis)|osteop(?:e|o)|demineral|deform|sclero(?:sis|tic)|compression|wedg"
    r"|tortu|ectas|ectat|atheroscl|aneurysm|unfold|dilat|prominen|adenopathy"
    r"|enlarged (?:\w+ )?(?:nodes?|atri|ventric)|metasta|tubercul|sarcoid|contusion|aspiration|hemorrhage|hematoma"
    r"|pneumomediast|pneumoperit|free air|foreign bod|bullet|shrapnel|cephaliz|hypertens|bronchovascular crowding"
    r"|pericardial effusion|dislocation|subluxation|pectus|azygos (?:lobe|fissure)|shift\b|deviat"
)

# Words that mention an observation by themselves; what stands around them says whether it is there.
MENTIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (observation, re.compile(rf"\b(?:{pattern})"))
    for observation, pattern in (
        ("Cardiomegaly", _CARDIOMEGALY),
        ("Enlarged Cardiomediastinum", _MEDIASTINUM),
        ("Lung Opacity", _OPACITY),
        ("Lung Lesion", _LESION),
        ("Edema", _EDEMA),
        ("Consolidation", r"consolidat\w+"),
        ("Pneumonia", _PNEUMONIA),
        ("Atelectasis", _ATELECTASIS),
        ("Pneumothorax", _PNEUMOTHORAX),
        ("Pleural Effusion", _EFFUSION),
        ("Pleural Other", _PLEURAL),
        ("Fracture", _FRACTURE),
        ("Support Devices", _DEVICES),
        (OTHER, _OTHER),
    )
)
# CheXpert: congestion is edema that is not certain.
HEDGED = re.compile(r"(?:vascular|pulmonary|venous) congesti")

_HEART = (
    r"heart(?:'s)?(?! failure| disease| valve| rate| border| surgery)(?: size| silhouette| shadow| contours?)?"
    r"|cardiac (?:and mediastinal )?(?:size|silhouettes?|shadow|contours?|outline)"
    r"|cardio-? ?(?:pericardial|mediastinal)(?: and hilar| and pulmonary)?(?: silhouettes?| contours?| structures?"
    r"| shadow| size)?|cardiomediastinum"
)
_MEDIASTINAL = (
    r"mediastinum|mediastinal (?:and (?:\w+ ){1,2})?(?:contours?|silhouettes?|structures?|shadow|configuration|width"
    r"|size)|cardio-?(?:mediastinum|mediastinal(?: and hilar)?(?: silhouettes?| contours?| structures?| shadow| size)?)"
)
# Organs whose state decides an observation.
ORGANS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Cardiomegaly", re.compile(rf"\b(?:{_HEART})\b")),
    ("Enlarged Cardiomediastinum", re.compile(rf"\b(?:{_MEDIASTINAL})\b")),
)
STATE = re.compile(
    r"\b(?:(?P<uncertain>upper(?: \w+)? limits?(?: of)? (?:the )?normal|upper(?: limits?)? (?:of )?normal"
    r"|(?:near )?top[- ]normal|high normal|borderline\w*|(?:at|near) the upper limits?)"
    r"|(?P<negative>(?:not|nor|isn't) (?:\w+ ){0,2}(?:enlarged|widened|large|dilated)|nonenlarged|normal|unremarkable"
    r"|(?:within|with in) (?:\w+ ){0,2}limits|without (?:\w+ )?enlargement)"
    r"|(?P<positive>enlarged(?! (?:and tortuous|tortuous|aort|lymph|node|hil|pulm|central))|widened|wide|large"
    r"|prominent|increased|generous|enlargement))\b"
)
