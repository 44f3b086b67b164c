"""The vocabulary of claims: names of sizes, places and organs, and what is called by one name."""

from __future__ import annotations

from rarrg.extract.lexicon import words

SIZES: dict[str, int] = {
    **dict.fromkeys(words("trace tiny minimal minimally minute minuscule"), 1),
    **dict.fromkeys(words("small mild mildly slight slightly minor subtle faint faintly"), 2),
    **dict.fromkeys(words("moderate moderately"), 3),
    **dict.fromkeys(words("large severe severely marked markedly massive extensive huge substantial"), 4),
}
"""How much, on a scale of four."""

NORMAL = words("normal normally unremarkable clear clearly intact sharp preserved maintained")
"""Words that say that something is as it should be."""

ORGANS = words(
    """
    heart mediastinum hilum aorta trachea diaphragm vasculature bone spine vertebra rib clavicle sternum costophrenic
    softtissue shoulder airway airways fissure minor_fissure major_fissure knob arch angle angles chamber lung
    pleura stomach abdomen
    """
)
PAIRED = words("lung pleura hilum diaphragm rib clavicle costophrenic shoulder angle angles fissure")
"""Organs that have a left and a right."""
PLACES = words(
    """
    base apex upper lower mid retrocardiac perihilar infrahilar suprahilar paratracheal axilla svc ivc ij subclavian
    jugular femoral brachiocephalic azygos carina cavoatrial junction gastroesophageal esophagus quadrant below above
    right_atrium left_atrium right_ventricle left_ventricle
    right_heart left_heart posterior anterior medial laterally peripheral peripherally central
    centrally proximal distal proximally distally thoracic lumbar cervical wall neck lingula artery
    left_greater right_greater outside inside between behind
    first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
    """
)
SIDES = words("left right bilateral bilaterally both")
QUALITIES = words(
    """
    focal diffuse acute chronic old calcify patchy linear streaky hazy dense multiple enlarge elevate prominent low
    increased tortuous lobar segmental subsegmental discrete active overt frank gross large displaced healed healing
    suspicious significant confluent widen thicken dilated airspace interstitial superimposed
    """
)
"""Words that say how a finding is, but of no finding by themselves."""
STATES = words("enlarge elevate prominent low increased tortuous widen thicken dilated calcify displaced")
"""Those of them that, with an organ, are a finding."""

# One name for the words that say the same; ``*`` stands for any ending.
_SAME = """
    opacity: opaci* opaq* densit*
    atelectasis: atelecta*
    consolidation: consolidat*
    effusion: effusion*
    pneumothorax: pneumothora*
    pneumonia: pneumonia*
    edema: edema*
    congestion: congest*
    nodule: nodul*
    mass: mass masses
    lobe: lobe lobes parenchyma*
    fracture: fractur*
    cardiomegaly: cardiomegal*
    emphysema: emphysem*
    enlarge: enlarg*
    widen: widen* wide
    elevate: elevat*
    blunt: blunt*
    flatten: flatten*
    thicken: thicken*
    crowd: crowd*
    tortuous: tortu*
    calcify: calcif*
    atherosclerosis: atheroscl*
    hyperinflation: hyperinflat* hyperexpan* hyperaerat* overinflat* overexpan*
    degenerative: degenerat*
    scar: scar scars scarring scarred
    prominent: prominen*
    exaggerated: exaggerat* accentuat*
    osteopenia: osteopen* osteopor* demineral*
    osteophyte: osteophyt* spur spurs spurring
    spondylosis: spondyl*
    scoliosis: scoliosis scoliotic
    kyphosis: kyphosis kyphotic
    granuloma: granuloma*
    adenopathy: adenopath* lymphadenopath*
    infiltrate: infiltrat*
    interstitial: interstiti*
    abnormality: abnormal* process processes disease diseases
    collapse: collaps*
    shift: shift* deviat* displacement
    dilated: dilat* distend* distension distention
    catheter: catheter* line lines
    pacemaker: pacemaker* pacer* pacing
    icd: icd aicd defibrillator*
    nasogastric: nasogastric ng
    orogastric: orogastric og
    tracheostomy: tracheostom*
    endotracheal: endotracheal
    prosthesis: prosthe*
    low: low decreased reduced diminished shallow
    increased: increased increase
    multiple: multiple several numerous scattered
    old: old prior previous remote post
    borderline: borderline
    volume: volume*
    midline: midline
    aneurysm: aneurysm*
    lesion: lesion*
    below: below beneath under
    heart: heart hearts cardiac
    mediastinum: mediastin*
    hilum: hilum hila hilar
    aorta: aort*
    trachea: trachea tracheal
    diaphragm: diaphragm* hemidiaphragm*
    vasculature: vascul* vessels vessel venous
    fissure: fissur*
    minor_fissure: minor_fissure horizontal_fissure
    major_fissure: major_fissure oblique_fissure
    bone: bone bones bony osseous skeletal skeleton
    spine: spine spinal
    vertebra: vertebra*
    rib: rib ribs
    clavicle: clavic*
    sternum: sternum sternal
    costophrenic: costophrenic
    lung: lung lungs pulmonary
    pleura: pleural pleura
    base: base bases basilar basal
    apex: apex apices apical
    axilla: axilla*
    abdomen: abdom*
    stomach: stomach gastric
    quadrant: quadrant*
    mid: mid middle
    lingula: lingula*
    lower: lower inferior inferiorly
    upper: upper superior superiorly
    posterior: posterior*
    anterior: anterior*
    diffuse: diffus*
    marking: marking*
    surgical: surg* postsurg* postop*
    standard: standard appropriate appropriately satisfactory proper properly adequate adequately good
    airspace: airspace alveolar
    hiatal: hiat*
    node: node nodes nodal
    ectasia: ectas* ectat*
    fibrosis: fibros* fibrot*
    bronchiectasis: bronchiectas* bronchiectat*
    sclerosis: scleros* sclerot*
    arthritis: arthrit* arthropath* arthros*
    cavity: cavit*
    cyst: cyst cysts cystic
    bulla: bulla* bullous bleb*
    hernia: herni*
    infection: infect*
    malignancy: malignan*
    trauma: traum*
    hemorrhage: hemorrh*
    reticulation: reticul*
    lucency: lucen* hyperlucen*
    asymmetry: asymmetr*
    wedge: wedg*
    retraction: retract*
    unfolded: unfold* uncoil*
    obscured: obscur*
    rotation: rotat*
    underpenetrated: underpenetrat*
    two: two dual double
    three: three triple
    calculus: calculi calculus stone stones
    compression: compress*
    engorged: engorg*
    air: air gas
    hazy: haz*
    patchy: patch*
    streaky: streak*
    confluent: confluen*
    narrow: narrow*
    stenosis: stenos* stenot*
    obstruction: obstruct*
    hypertension: hypertens*
    symmetric: symmetr*
    humerus: humer*
    scapula: scapul*
    artery: artery arteries arterial
    bronchus: bronchus bronchi bronchial
    esophagus: esophag*
    carina: carina carinal
    thyroid: thyroid*
    valve: valv*
    liver: liver hepatic
    spleen: spleen splenic
    bowel: bowel intestin*
    disc: disc discs disk disks
    breast: breast breasts mammary
    pericardium: pericardium pericardial
    atrium: atrium atria atrial
    ventricle: ventric*
    pneumoperitoneum: pneumoperiton*
    expanded: expand* expansion inflat* aerat*
    hypoinflation: hypoinflat* hypoaerat* hypoventilat* hypoexpan* underinflat* underexpan* underaerat*
"""
NAMES: dict[str, str] = {}
"""Word to its name, for whole words."""
PREFIXES: dict[str, str] = {}
"""Beginning of a word to its name."""
for _line in _SAME.strip().splitlines():
    _name, _, _forms = _line.strip().partition(": ")
    for _form in _forms.split():
        (PREFIXES if _form.endswith("*") else NAMES)[_form.rstrip("*")] = _name

_ALSO = """
    collapse: atelectasis
    consolidation infiltrate: opacity
    hydropneumothorax: effusion pneumothorax pleura
    effusion pneumothorax hemothorax empyema: pleura
    arch knob: aorta
    endplate disc intervertebral: spine
    minor_fissure major_fissure: fissure
    cardiomegaly: heart enlarge
    bronchovascular: marking
    levoscoliosis dextroscoliosis: scoliosis spine
    kyphoscoliosis: scoliosis kyphosis spine
    scoliosis kyphosis vertebra: spine
    spondylosis: spine degenerative
    osteopenia fracture: bone
    nasogastric orogastric: enteric tube
    dobhoff: enteric feeding tube
    enteric endotracheal tracheostomy: tube
    picc port: catheter
    pacemaker icd: device heart
    healed: old
    sternotomy: sternum median surgical old
    cabg mastectomy lobectomy pneumonectomy cholecystectomy: surgical old
    replacement fusion resection repair arthroplasty: surgical old
"""
IMPLIED: dict[str, frozenset[str]] = {}
"""What a word says beside itself."""
for _line in _ALSO.strip().splitlines():
    _said, _, _also = _line.strip().partition(": ")
    IMPLIED |= dict.fromkeys(_said.split(), words(_also))
