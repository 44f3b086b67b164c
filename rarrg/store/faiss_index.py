"""What the store asks of FAISS: an index of a kind, with its search parameters, mapped from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rarrg.errors import RarrgError

PROBES = 8  # cells an IVF index looks into; with FAISS' own 1, neighbours across a cell's border are missed
# With FAISS' own 40 and 16 a graph of 40,000 clustered vectors found 0.87 of the nearest, with 200 and 64 all of them.
EF_CONSTRUCTION = 128
EF_SEARCH = 64


def import_faiss() -> ModuleType:
    """Import FAISS, which comes with an extra of the package.

    Raises:
        RarrgError: Neither extra is installed, or what is installed does not load.
    """
    try:
        import faiss
    except ImportError as error:
        install = "install exactly one of the extras cpu or gpu (`pip install -e '.[cpu]'`)"
        if isinstance(error, ModuleNotFoundError) and error.name == "faiss":
            raise RarrgError(f"FAISS is not installed: {install}") from error
        reason = " ".join(str(error).split())
        raise RarrgError(f"FAISS is installed but does not load ({reason}): {install}") from error
    return faiss


def empty_index(dim: int, kind: str) -> Any:
    """An index for inner products of unit vectors, without vectors and not yet trained.

    On unit vectors FAISS builds the same graph and finds the same for inner products as for L2 distances.

    Args:
        dim: Dimension of the vectors.
        kind: FAISS factory string and, after a semicolon, its parameters, as ``IVF1024,Flat; nprobe=16`` or
            ``HNSW32; efConstruction=200,efSearch=128``. By default IVF looks into 8 cells, and a graph is built with
            efConstruction 128 and searched with efSearch 64.

    Raises:
        RarrgError: FAISS refuses the factory string or a parameter.
    """
    faiss = import_faiss()
    factory, _, parameters = kind.partition(";")
    try:
        index = faiss.index_factory(dim, factory.strip(), faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise RarrgError(f"store.index: FAISS refuses {kind!r} ({reason(error)})") from error
    cells = faiss.try_extract_index_ivf(index)
    if cells is not None:
        cells.nprobe = min(PROBES, cells.nlist)
    if isinstance(index, faiss.IndexHNSW):
        index.hnsw.efConstruction, index.hnsw.efSearch = EF_CONSTRUCTION, EF_SEARCH
    if parameters.strip():
        set_parameters(index, parameters)
    return index


def set_parameters(index: Any, parameters: str) -> None:
    """Set what an index is built and searched with; FAISS keeps it in the index file.

    Args:
        index: The index.
        parameters: As ``nprobe=16`` or ``efConstruction=200,efSearch=64``; whole numbers from 1.

    Raises:
        RarrgError: Not of that form, or the index has no such parameter.
    """
    space = import_faiss().ParameterSpace()
    for part in map(str.strip, parameters.split(",")):
        name, _, value = part.partition("=")
        if not value.isdecimal() or int(value) < 1:
            raise RarrgError(f"store.index: parameters are as nprobe=16,efSearch=64 with numbers from 1, got {part!r}")
        try:
            space.set_index_parameter(index, name, int(value))
        except RuntimeError as error:
            raise RarrgError(f"store.index: FAISS knows no parameter {name!r} of such an index") from error


def fill(index: Any, chunks: Callable[[], Iterable[np.ndarray]]) -> None:
    """Add vectors to a trained index that has none.

    The cells of an IVF index grow by doubling, which takes half as much memory again as they need in the end; so what
    goes into each is counted first, and room made for it.

    Args:
        index: The index.
        chunks: Gives unit vectors, float32 ``[n, dim]`` each, from the first; the same each time it is called.
    """
    faiss = import_faiss()
    if not isinstance(index, faiss.IndexIVF):
        for chunk in chunks():
            index.add(chunk)
        return
    cells = [index.quantizer.search(chunk, 1)[1].ravel() for chunk in chunks()]
    lists = faiss.downcast_InvertedLists(index.invlists)
    for cell, size in enumerate(np.bincount(np.concatenate(cells), minlength=index.nlist)):
        lists.resize(cell, int(size))
        lists.resize(cell, 0)  # it keeps its room
    for chunk, found in zip(chunks(), cells, strict=True):
        index.add_core(len(chunk), faiss.swig_ptr(chunk), None, faiss.swig_ptr(found))


def map_index(path: Path) -> Any:
    """An index whose vectors stay in the file and are read as they are searched; FAISS cannot add to it.

    Raises:
        RarrgError: The file is no FAISS index.
    """
    faiss = import_faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise RarrgError(f"{path}: is no FAISS index ({reason(error)})") from error


def in_memory(index: Any) -> Any:
    """A copy of an index with its vectors in memory, to which FAISS can add."""
    faiss = import_faiss()
    return faiss.deserialize_index(faiss.serialize_index(index))


def keeps_vectors(index: Any) -> bool:
    """Whether an index gives back the very vectors that were added."""
    faiss = import_faiss()
    return isinstance(index, (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat))


def reason(error: RuntimeError) -> str:
    """The part of a FAISS message after the C++ signature and place, on one line."""
    return " ".join(str(error).rsplit(".cpp:", 1)[-1].split(": ", 1)[-1].split())
