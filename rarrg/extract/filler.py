"""Words of a report that claim nothing by themselves: those of seeing, lying, joining and telling.

A word that is neither here nor has a name (:mod:`rarrg.extract.terms`) counts as something that a text adds.
"""

from __future__ import annotations

from collections.abc import Iterator

from rarrg.extract.lexicon import words

_VERBS = words(
    """
    note identify evidence visualize visualise demonstrate reveal observe detect appreciate exhibit display recognize
    discern perceive depict view describe mention feature characterize delineate image obtain acquire evaluate assess
    examine project locate position situate place seat terminate end originate begin course traverse cross pass extend
    reach reside span track travel run enter exit overlap surround abut adjoin border outline center distribute
    localize concentrate occupy rest stand represent reflect indicate constitute denote signify correspond relate
    attribute result cause create produce give render make contribute account compose combine coexist couple pair
    accompany associate involve affect contain include comprise consist measure appear seem follow arise summarize
    """
)
"""Verbs of seeing, of lying somewhere, and of joining one thing to another."""
_IRREGULAR = """
    am is are was were be been being has have had having do does did done can will see sees seen seeing show shows
    showing shown found lie lies lying overlie overlies overlying overlay overlain present remain leading ran begun
    given made
"""
_SMALL = """
    a an the either of in on at to by from for as into onto within along over throughout during via through across
    about around near amid among amongst toward towards upon against beyond past off it its itself themselves they them
    their these those this that which who whose what where there here then also both each every all any some other
    others another latter former same one together so very quite well most
"""
_ADVERBS = """
    additionally furthermore moreover however meanwhile likewise similarly thus therefore hence thereby accordingly
    consequently nonetheless nevertheless overall otherwise collectively simultaneously concurrently concomitantly
    jointly respectively namely specifically particularly especially notably remarkably incidentally grossly
    essentially basically virtually practically nearly almost approximately roughly broadly relatively rather fairly
    reasonably somewhat generally typically characteristically mainly mostly largely predominantly primarily chiefly
    principally partly partially fully only merely just immediately directly closely readily easily best better visibly
    noticeably conspicuously discernibly evidently apparently seemingly radiographically definitely obviously
    convincingly adjacently correspondingly
"""
_NOUNS = """
    presence predominance appearance appearances existence indication manifestation finding findings sign signs area
    areas focus foci region regions zone zones field fields site sites aspect aspects part parts portion portions
    section sections component components element elements side sides sided level levels location locations placement
    termination extension trajectory tip tips silhouette silhouettes contour contours size sizes sized shape margin
    margins edge edges caliber structure structures configuration orientation surface surfaces space spaces system type
    types change changes pattern nature character extent origin etiology degree amount quantity severity distribution
    combination sequela sequelae association background addition remainder chest thorax thoraces hemithorax
    hemithoraces patient patient's radiograph radiographs radiography film films projection projections frontal lateral
    exam examination study x ray xray impression report summary evaluation assessment visualization
"""
_ADJECTIVES = """
    evident apparent visible discernible recognizable identifiable demonstrable noticeable perceptible appreciable
    detectable definite obvious convincing radiographic consistent compatible keeping due secondary representative
    indicative attributable adjacent nearby neighboring corresponding respective concurrent concomitant coexistent
    additional underlying predominant typical incidental resultant consequent notable noteworthy situ
"""


def _forms(verb: str) -> Iterator[str]:
    """A regular verb in all its forms."""
    stem = verb.removesuffix("e")
    yield verb
    if verb.endswith("y") and verb[-2] not in "aeou":
        yield from (f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing")
        return
    if verb in ("abut", "run"):
        stem += verb[-1]
    yield f"{verb}es" if verb.endswith(("s", "ch")) else f"{verb}s"
    yield from (f"{stem}ed", f"{stem}ing")


FILLER = words(_IRREGULAR + _SMALL + _ADVERBS + _NOUNS + _ADJECTIVES).union(*map(_forms, _VERBS))
"""All of them."""
