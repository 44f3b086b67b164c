"""Words of chest radiography: what makes a phrase a finding, what is only a place, what may stand in front."""

from __future__ import annotations

import re
from itertools import takewhile

from rarrg.extract.spelling import MARK


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


_FINDING = re.compile(
    r"\b(?:opaci|opaque|effusion|pneumo(?!coccal)|hydropneumo|hemothora|consolidat|atelecta|scar|granulom|calcif"
    r"|nodul|mass(?:es|like)?\b|"
    r"infiltrat|edema|congest|cardiomegal|enlarge|prominen|promin|tortuo|ectasi|ectatic|unfold|uncoil"
    r"|atheroscl|arterioscl|aneurysm|dilat|"
    r"hyperinfl|hyperexp|hyperluc|hyperaer|hyperventil|hypoinfl|hypoaer|hypoventil|hypoexp|emphysem|copd"
    r"|fibro|bronchi[aeot](?!l\b)|bulla|bullous|bleb|"
    r"cavit|cyst|abscess|tubercul|histoplasm|sarcoid|infect|inflam|aspirat|contus|hemorrh|fractur|disloc"
    r"|sublux|deform|"
    r"degenerat|spondyl|osteophy|scolio|kypho|lordo|curvature|dextro|levo|osteop|demineral|sclero|lytic"
    r"|lesion|metasta|neoplas|malig|tumor|"
    r"carcinom|lymphaden|adenopath|thicken|blunt|elevat|eventrat|hernia|flatten|shift|deviat|widen|narrow"
    r"|loss|collaps|compress|wedg|"
    r"air(?:space)? disease|disease|free (?:\w+ )?(?:air|gas)|air[- ]?fluid|lucen|densit|attenuat|markings?"
    r"|crowd|volume|streak|stranding|"
    r"change|arthrit|arthropath|arthros|abnorm|patholog|process(?!ing)|finding|injur|trauma|surg|postop"
    r"|resect|lobectom|"
    r"pneumonectom|mastectom|cholecyst|sternotom|cabg|bypass|valve|prosthe|replace|stent|graft|clip|wire"
    r"|sutur|staple|hardware|"
    r"fixation|fusion|rod|screw|plate\b|pacemaker|pacer|pacing|icd|aicd|defibrill|lead|catheter|picc|line\b"
    r"|lines\b|tube|port\b|port-a-cath|cannula|"
    r"tip\b|implant|device|generator|electrode|monitor|foreign body|bullet|shrapnel|pellet|fragment|tracheost"
    r"|endotrach|nasogast|"
    r"feeding|drain|ivc filter|balloon|pump|fluid|fissur|septal|kerley|interstitial (?:disease|pattern"
    r"|prominence)|reticul|"
    r"honeycomb|cephaliz|engorge|plethora|hypertens|failure|obscur|silhouett(?:ing)|indistinct|ill-defined"
    r"|haz|asymmetr|"
    r"irregular|rotator|anchor|distend|distension|distention|dilated|ileus|obstruct|stool|gas|air bronch"
    r"|\bair\b|capping|fullness|myeloma|phlebolith|listhesis|syndesmo|intramedullary|orif\b|stimulator|destruct"
    r"|bronchiec|peribronch|cuff|plaque|empyem|loculat|"
    r"azygos lobe|cervical rib|pectus|ankylos|dish\b|callus|ossif|spur|bone island|fat pad|"
    r"granular|coin|tent|scallop|tram|bunch|splay|retract|entrapment|anomal|variant|situs|dextrocard"
    r"|accessory|lipoma|"
    r"nipple shadow|shadow|artifact|skin fold|accentuat|exaggerat|straighten|nonunion|malunion|vertebroplast"
    r"|kyphoplast|augmentation|"
    r"pericardial|splint|avn|necrosis|erosi|amputat|absen|agenesis|hypoplas|bifid|height"
    r"|cardiac decompensation|chf|ards|tb|hemosider|pleurodes|"
    r"overdisten|underinfl|underexpan|low lung|expan|inflat|aerat|ventilat|adhes|anastom|stenosis|effus"
    r"|convexity|contour (?:abn|def)|goiter|thyromeg|splenomeg|hepatomeg|"
    r"hemidiaphragm elevation|replacement|arthroplasty|ballistic|gynecomastia|subcutaneous"
    r"|soft tissue swelling|swelling|cholelith|"
    r"nephro|gallstone|stones?|infarct|embol|penetr|gunshot|aortic knob|lymphoma|cancer|silicosis|asbest"
    r"|pneumoconi|cardiomyopathy|tenting)"
)
_STATE = re.compile(
    r"\b(?:normal|clear|intact|midline|unremarkable|sharp|upper limits of normal|expanded|aerated|inflated|patent|"
    r"symmetric|increased|decreased|low|enlarged|prominent|elevated|flattened|small|large|ectatic|tortuous"
    r"|calcified|osteopenic"
    r"|wide|borderline|aligned|full)\b"
)
_ANATOMY = re.compile(
    r"\b(?:heart|cardia|cardio|mediast|lungs?|pulmonary|pleura|hil(?:a|ar|um)|aort|trachea|airways?|bronch"
    r"|diaphragm|hemidiaphragm|bon(?:e|y|es)\b|osseous|"
    r"skelet|ribs?|spine|vertebra|disc|clavic|humer|should|scapul|sternu|thora(?:x|cic)|soft tissue|abdom"
    r"|stomach|bowel|liver|"
    r"vascul|vessel|arter|vein|atri|ventric|costophrenic|cardiophrenic|fissure|apex|apices|base|bases|lobe"
    r"|silhouette|contour|"
    r"azygos|esophag|alignment|interspace|retrosternal|chest wall|bodies|volumes?|structures|sulci|joint|knee"
    r"|hip|pelvi|sacr|ankle|"
    r"parenchyma|interstitium|paratracheal|stripe|knob|arch|great vessels)\w*"
)
# a head noun completes a noun phrase; adjectives such as "focal" or "hilar" do not
_HEAD = re.compile(
    r"\b(?:opacit(?:y|ies)|opacifications?|effusions?|pneumo[a-z]+|hydropneumo\w+|hemothora\w+"
    r"|consolidations?|atelectas[ie]s|scars?|scarring|granulomas?|"
    r"calcifications?|nodules?|nodularity|mass(?:es)?|infiltrates?|infiltration|edema|congestion|cardiomegaly"
    r"|enlargement|prominence|tortuosity|ectasia|"
    r"atherosclerosis|aneurysms?|dilatation|dilation|hyper(?:inflation|expansion)|emphysema|copd|fibrosis"
    r"|fractures?|dislocations?|subluxations?|deformit(?:y|ies)|"
    r"spondylosis|osteophytes?|scoliosis|kyphosis|dextroscoliosis|levoscoliosis|curvature|osteopenia"
    r"|osteoporosis|sclerosis|lesions?|metastas[ie]s|disease|neoplasm|"
    r"malignancy|tumors?|carcinoma|lymphadenopathy|adenopathy|thickening|blunting|elevation|eventration"
    r"|hernia|flattening|shift|deviation|widening|"
    r"narrowing|loss|collapse|compression|wedging|air|gas|lucenc(?:y|ies)|densit(?:y|ies)|markings|crowding"
    r"|volumes?|changes?|arthritis|arthropathy|abnormalit(?:y|ies)|"
    r"patholog(?:y|ies)|process(?:es)?|findings?|injur(?:y|ies)|trauma|surgery|lobectomy|sternotomy|cabg"
    r"|valves?|stents?|grafts?|clips?|wires?|sutures?|"
    r"hardware|fusion|rods?|screws?|pacemaker|icd|aicd|leads?|catheters?|piccs?|lines?|tubes?|port"
    r"|port-a-cath|tips?|implants?|devices?|bod(?:y|ies)|bullet|fragments?|"
    r"tracheostomy|fluid|cavit(?:y|ies)|cavitation|cysts?|abscess|infections?|aspiration|contusions?"
    r"|hemorrhage|bulla|bullae|blebs?|bronchiectasis|bronchitis|plaques?|"
    r"lungs?|heart|aorta|mediastinum|silhouette|contours?|hilum|hila|hemidiaphragms?|diaphragms?|vascularity"
    r"|vasculature|size|structures|angles?|trachea|spine|"
    r"spaces?|retrosternal airspace|prosthes[ie]s|lymph nodes?|nodes?|irregularit(?:y|ies)|failure"
    r"|hypertension|obstruction|calculi|stones?|swelling|emphysematous|degeneration|"
    r"tissues?|abdomen|vessels?|arter(?:y|ies)|interstitium|fissures?|shadows?|artifacts?|dimensions?"
    r"|diameters?|lordosis|retraction|fat pads?|foreign body|dilatation|stool|ileus|generator|"
    r"anchors?|bronchograms?|cuffing|plate|replacement|resection|obscuration|height|engorgement|tuberculosis"
    r"|sarcoidosis|histoplasmosis|organomegaly|masses|ribs?)\b"
)
# heads that are places or parts, not findings
_PART = re.compile(
    r"^(?:lungs?|heart|aorta|mediastinum|silhouette|contours?|hilum|hila|(?:hemi)?diaphragms?|vascularity|vasculature"
    r"|size|structures|angles?|trachea|spine|spaces?|retrosternal airspace|nodes?|lymph nodes?|tissues?|abdomen"
    r"|vessels?|arter(?:y|ies)|interstitium|fissures?|dimensions?|diameters?|bod(?:y|ies)|height|ribs?|valves?|tips?|plate"
    r"|fat pads?)$"
)
ADVERBS = (
    r"\b(?:grossly|essentially|relatively|generally|radiographically|again|also|overall|otherwise|clearly"
    r"|entirely|all|both|currently|now|"
    r"well within|at least|once|somewhat|approximately|probably|predominantly|otherwise grossly|unchanged and"
    r"|stable and)\b *(?!sided)"
)
ADJECTIVES = words(
    """
    accentuated adequately aerated aligned asymmetric atherosclerotic bilaterally blunted borderline bulky calcified
    chronic chronically clear coarse coarsened congested crowded decreased deformed degenerated demineralized
    deviated diffusely dilated diminished distended ectatic elevated engorged enlarged expanded extensively
    extremely flattened fractured full fully hazy hyperaerated hyperexpanded hyperinflated hyperlucent hypoaerated
    hypoinflated hypoventilated ill-defined increased indistinct inflated intact kyphotic large low low-lying
    maintained markedly midline mild mild-to-moderately mildly minimally moderate moderately narrowed normal
    normally osteopenic osteoporotic patchy patent poorly preserved prominent quite reduced satisfactory sclerotic
    scoliotic severe severely shallow sharp shifted significantly slightly small somewhat symmetric thickened
    tortuous uncoiled underinflated unfolded unremarkable very well wide widened
    """
)
AFFIRMING = re.compile(
    r"^(?:a |an |the )?(?:mild|mildly|moderate|small|minimal|tiny|low|tortuous|irregular|interstitial|normal"
    r"|calcified|scattered|chronic|old|multiple|several|degenerative|left|right|bilateral|"
    r"bibasilar|elevated|possible|slight|prominent|healed|surgical|increased|decreased|large|patchy|streaky"
    r"|cardiomegaly|flattening|flattened|hyper|thoracic|aortic|atheroscler|"
    r"pulmonary|bronchovascular|postsurgical|median|clear|no|intact|pleural|lower|upper|expansion|osteo"
    r"|mediastinal|cabg|emphysem|kypho|scolio)"
)
_EDGE_START = re.compile(
    rf"^(?:(?:and|or|but|with|of|in|on|at|to|by|from|for|the|a|an|as|is|are|was|were|also|there|this|these"
    rf"|that|which|noted|seen|{MARK}|then|its|it|be|"
    r"being|some|both|noted to be|within|specifically|including|any|evidence of|appearance of|note of|via"
    r"|again|visualized|visible|grossly|has|have|had|"
    r"patient|patient's|interval|significant for|position of|identified|incidental|presence of|been|developed"
    r"|onset|known|definite|causing|thought to(?: account for| represent)?|suggestion of|"
    r"developing|received|placement of|there|once|relatively|suffered|sustained) )+"
)
_EDGE_END = re.compile(
    rf"(?: (?:and|or|but|with|of|in|on|at|to|by|from|for|the|a|an|as|is|are|was|were|be|also|there|this"
    rf"|these|that|which|noted|seen|{MARK}|its|within|over|"
    r"present|identified|visualized|visible|demonstrated|evident|appreciated|found|has|have|again|due"
    r"|secondary|projecting|overlying|than|however|"
    r"may|not|both|near|along|only|through|into|who|when|if|it|because|bilaterally and|without|no|upon|about"
    r"|best|well|better|measuring|consistent|compatible|"
    r"likely|since|compared|today|placed|inserted|performed|resulting|who|suspected|(?:in|of) (?:place"
    r"|position|appearance)|as well|per se|incidentally))+$"
)
_LOST_PLACE = re.compile(
    rf"\b(?:in|of|at|within|over|overlying|on|to|from|near|along|by|involving|into|through|below|above"
    rf"|between|for)(?: (?:the|a|an|his|her))?"
    rf"(?P<side> (?:left|right))?(?: {MARK})+(?= *$|,| (?:and|or|in|of|at|with|on|to|from|may|is|are"
    rf"|measuring|projecting)\b)"
)
_VIEWS = re.compile(
    r",? *\b(?:best |better |only |well )*(?:seen |visualized |noted |demonstrated |appreciated "
    r"|identified )*(?:only )?(?:on|in) (?:the |this )*(?:frontal|lateral|pa|ap)"
    r"(?: and (?:frontal|lateral))?"
    r"(?: (?:views?|projections?|images?|radiographs?|exam|film|¤)(?: only)?(?![\w-])|(?: only)?(?= *(?:$|,| and\b)))"
    r"|,? *\b(?:on|in) (?:this|today's|the current|the present) (?:exam|examination|study|image|radiograph"
    r"|film|view)\b"
)


def has_finding(text: str) -> bool:
    """Say whether a text names anything that can be found, a normal state aside."""
    return _FINDING.search(text) is not None


def has_head(text: str) -> bool:
    """Say whether a text holds a noun that a phrase can rest on."""
    return _HEAD.search(text) is not None


def names_finding(text: str) -> bool:
    """Say whether a text holds a noun that is a finding itself, not only a part of the body."""
    return any(_PART.match(head[0]) is None for head in _HEAD.finditer(text))


def is_anatomy(text: str) -> bool:
    """Say whether a text names a part of the body."""
    return _ANATOMY.search(text) is not None


def tidy(phrase: str) -> str:
    """Take marks and loose ends off a phrase; empty where what is left states nothing.

    Args:
        phrase: A lower-case phrase, perhaps with "no" or "possible" in front.
    """
    leads = list(takewhile(_LEADS.__contains__, phrase.split()))
    body = " ".join(phrase.split()[len(leads) :])
    prefix = f"{leads[0]} " if leads else ""
    body = _VIEWS.sub("", body)
    body = re.sub(r",? \b(?:which|that|who)\b.*$", "", body)
    body = _LOST_PLACE.sub(lambda lost: f" on the{lost['side']}" if lost["side"] else "", body)
    body = body.replace(MARK, " ")
    body = re.sub(r" (?:in|of) the bilateral *$", " bilaterally", body)
    body = _CUT_PLACE.sub("", body)
    body = re.sub(r"[()\"*:;?!|~^=+\\]+|\.(?!\d)|(?<!\d)\.", " ", body)
    body = " ".join(body.split()).strip(" ,.-/'")
    while True:
        cut = _EDGE_END.sub("", _EDGE_START.sub("", body)).strip(" ,.-/'")
        if cut == body:
            break
        body = cut
    if body.split(" ", 1)[0] in _LEADS:
        return tidy(f"{prefix}{body}")
    if leads[:1] == ["possible"] and "no" in leads:
        return ""
    if not body or _MOVED.match(body) or _UNFINISHED.search(body) or not _states_something(body, bool(prefix)):
        return ""
    return f"{prefix}{body}"


_LEADS = ("no", "possible")
_CUT_PLACE = re.compile(
    r" (?:in|of|at|within) the (?:superior|inferior|anterior|posterior|medial|lateral|distal|proximal) *$"
)
_MOVED = re.compile(
    r"(?:(?:overall|the|left|right|slight|bibasilar|lung) )*(?:aeration|appearance|position|comparison"
    r"|differences?)\b"
)
# a participle without its noun, or an adjective whose noun a mark took
_UNFINISHED = re.compile(
    r"^(?:left|right) (?:chest with|neck base and)\b|"
    r"^(?:attached|obscures?|mask|simulate|mimic|exaggerated by|accentuated by|artifactual|positional"
    r"|technical|extending|measuring|projecting|overlying|outlining|"
    r"characterized|caused|related|secondary|due|obscuring|not)\b"
    r"|\b(?:hilar|mediastinal|pulmonary|bony|osseous|aortic|vertebral|costodiaphragmatic|humeral|cardiac"
    r"|vascular|femoral|posterior|anterior|"
    r"lateral|medial|thoracic|distal|proximal)$"
)
_STATES_NOTHING = re.compile(
    r"^(?:acute |focal |chronic |abnormal |other |the |small |large |old |mild |new |size |visualized )*"
    r"(?:changes?|abnormalit(?:y|ies)|findings?|process|disease|volumes?|tips?|shadows?|lines?|loss|height"
    r"|contours?|structures?|air|leads?|area|abnormal|"
    r"markings|expansion|lungs?|(?:generalized |overall )*lung (?:volumes?|lines)(?: bilaterally)?|lungs?"
    r"|silhouette|elevated|enlarged|surgical|absence|shift|limits?|densit(?:y|ies)? of|obscured|deformed"
    r"|artifacts?|prominent|increased|low|narrowing)$"
)


def _states_something(body: str, led: bool) -> bool:
    if len(body) < 2 or not re.search(r"[a-z]{2}", body):
        return False
    if _STATES_NOTHING.match(body):
        # "no acute abnormality" says something of the whole image; "changes" alone does not
        return (
            led
            and re.match(
                r"(?:acute|focal) (?:abnormalit(?:y|ies)|findings?|process"
                r"|disease)$",
                body,
            )
            is not None
        )
    if _FINDING.search(body):
        return True
    return _STATE.search(body) is not None and _ANATOMY.search(body) is not None


_TRAILING_VERB = re.compile(
    r",? *\b(?:(?:is|are|was|were|can be|has been|have been|being) )?(?:also |again |once |clearly "
    r"|definitely |best |better |readily |well )*"
    r"(?:seen|identified|visualized|present|evident|noted|demonstrated|appreciated|detected|apparent|observed"
    r"|found|visible|shown|there)\b(?! (?:only|better))"
    r"|,? *\b(?:is|are|was|were|has been|have been) (?:placed|inserted|performed)(?= *$)"
    r"|,? *\bon (?:this|the (?:present|current)|today's) (?:[a-z]+ ){0,2}"
    r"(?:exam(?:ination)?|study|radiograph|film|image)s?(?= *$)"
)


def drop_seen(text: str) -> str:
    """Take off what says no more than that something was seen, or put there, and on which image."""
    return _TRAILING_VERB.sub("", text).strip(" ,")
