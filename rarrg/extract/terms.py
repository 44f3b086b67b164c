"""The vocabulary of claims: words that say nothing, names of places and organs, and what is called by one name."""

from __future__ import annotations

from rarrg.extract.lexicon import words

FILLER = words(
    """
    a an the either of in on at to by from for as into within along over throughout during via through across about
    around near it its itself themselves remainder they them their these those this that which who whose what where
    there here then also both each all any some other one together so very quite well most is are was were be been
    being am has have had do does did can will see seen note noted identified identify present presence visualized
    visualised visible visualize visualizes demonstrate demonstrated demonstrates demonstrating show shows showing
    shown reveal reveals revealed revealing observed observe evident evidence detected apparent appreciated found
    exhibit exhibits exhibited display displays displayed discernible recognized depicted depict depicts contain
    contains containing include includes including involve involves involving appear appears appearing appearance
    remain demonstrable definite definitely obvious radiographic radiographically grossly overall otherwise
    additionally furthermore moreover however meanwhile finding findings sign signs feature features area areas focus
    foci region regions zone zones field fields site sites aspect aspects portion portions side sides sided level
    levels location located position positioned positioning placement placed place situated lie lies lying project
    projects projecting projected overlie overlies overlying overlay tip tips end ends ending terminate terminates
    terminating terminated termination course courses coursing coursed extend extends extending extended extension pass
    passes passing reach reaches reaching reside resides residing seated traverses traversing enter entering enters
    approximately roughly represent represents representing represented representative reflect reflects reflecting
    reflected indicate indicates indicating indicative consistent compatible keeping relate related relating
    attributable attributed due secondary result results resulting cause causes causing caused account accounts
    combination component accompanied accompany accompanies accompanying associated association adjacent adjacently
    corresponding concurrent concomitant coexisting coexistent nearby additional respectively following background
    underlying convincing typical sequela sequelae specifically incidental incidentally notable notably somewhat
    silhouette silhouettes contour contours size sizes sized shape outline outlines border borders margin margins
    caliber structure structures configuration surface surfaces space spaces system type change changes pattern nature
    extent degree amount chest thorax thoraces hemithorax hemithoraces image images imaging radiograph radiographs
    radiography film films view views projection projections frontal lateral exam examination study x ray xray obtained
    impression report summary follows evaluation assessment evaluated assessed patient's measure measures measuring
    measured essentially relatively generally characterized visualization viewed made make makes noting situ rest
    element elements leading arising collectively simultaneously
    """
)
"""Words that claim nothing by themselves: articles, verbs of seeing and lying, names of images."""

SIZES: dict[str, int] = {
    **dict.fromkeys(words("trace tiny minimal minimally minute minuscule"), 1),
    **dict.fromkeys(words("small mild mildly slight slightly minor subtle"), 2),
    **dict.fromkeys(words("moderate moderately"), 3),
    **dict.fromkeys(words("large severe severely marked markedly massive extensive huge substantial"), 4),
}
"""How much, on a scale of four."""

NORMAL = words("normal normally unremarkable clear clearly intact sharp preserved maintained")
"""Words that say that something is as it should be."""

ORGANS = words(
    """
    heart mediastinum hilum aorta trachea diaphragm vasculature bone spine vertebra rib clavicle sternum costophrenic
    softtissue shoulder airway airways fissure fissures knob arch angle angles chamber lung pleura stomach abdomen
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
    centrally proximal distal proximally distally thoracic lumbar cervical wall neck lingula lingular artery
    left_greater right_greater outside inside between behind
    first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
    """
)
SIDES = words("left right bilateral bilaterally both")
QUALITIES = words(
    """
    focal diffuse acute chronic old calcify patchy linear streaky hazy dense multiple enlarge elevate prominent low
    increased tortuous lobar segmental subsegmental discrete active overt frank gross large displaced healed healing
    suspicious significant confluent widen thicken dilated airspace interstitial
    """
)
"""Words that say how a finding is, but of no finding by themselves."""
STATES = words("enlarge elevate prominent low increased tortuous widen thicken dilated calcify displaced")
"""Those of them that, with an organ, are a finding."""

# One name for the words that say the same; ``*`` stands for any ending.
_SAME = """
    opacity: opaci* densit*
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
    osteopenia: osteopen*
    osteophyte: osteophyt*
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
    compression: compress*
    engorged: engorg*
    air: air gas
    expanded: expand* expansion inflat* aerat*
    hypoinflation: hypoinflat* hypoaerat* hypoventilat*
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
