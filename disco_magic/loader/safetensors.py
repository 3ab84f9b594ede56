r"""Reads safetensors files, single or as the parts of a sharded checkpoint.

    8 bytes    length n of the header, little-endian
    n bytes    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
                      "__metadata__": {"any": "text"}}
    the rest   the tensors, in C order, end to end, without gaps

A checkpoint in parts also has an index, ``*.index.json``: {"weight_map": {"name": "file", ...}}.

Only headers are read here. Everything that can be wrong with them is found before any worker allocates.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.functions.paths import path_text
from disco_magic.functions.shapes import check_shape
from disco_magic.loader import dtypes, fields
from disco_magic.loader.stored import Catalogue, StoredFile, StoredTensor, sibling, stored_nbytes

# The limit of the format's own library: real headers are far smaller, and a bad one must not use up memory.
MAX_HEADER_NBYTES: Final = 100_000_000
INDEX_NAME: Final = "model.safetensors.index.json"
SUFFIX: Final = ".safetensors"
_METADATA: Final = "__metadata__"


def open_safetensors(path: str | os.PathLike[str]) -> Catalogue:
    """Return the checked contents of what `path` names.

    Args:
        path: a safetensors file; an index, ``*.json``; or a folder that has ``model.safetensors.index.json``
            or else exactly one safetensors file.
    """
    found = _chosen(Path(path_text("a file of parameters is loaded", path)))
    return read_index(found) if found.suffix == ".json" else read_file(found)


def _chosen(path: Path) -> Path:
    if not os.path.isdir(path):  # false also for what cannot be the name of a file
        return path
    index = path / INDEX_NAME
    if index.exists():
        return index
    files = sorted(path.glob(f"*{SUFFIX}"))
    if len(files) != 1:
        what = f"{len(files)} {SUFFIX} files ({', '.join(file.name for file in files)})" if files else "none"
        raise UsageMistake(
            f"the folder {path} has no {INDEX_NAME}, and of {SUFFIX} files {what}; "
            "expected the index or exactly one file: give the path of the one you mean"
        )
    return files[0]


def read_file(path: Path) -> Catalogue:
    """Return the checked contents of one file's header."""
    file = StoredFile.at(path, f"safetensors file {path.name}")
    text, begin = _header_text(file, path)
    header = fields.parse(text, f"{path.name}: the header")
    metadata = fields.optional_object(header, _METADATA, f"{path.name}: the header")
    for key in metadata:
        fields.string(metadata, key, f"{path.name}: {_METADATA}")
    header.pop(_METADATA, None)
    spans = [
        _entry(name, fields.object_in(header, name, path.name), file, begin, f"{path.name}: tensor {name!r}")
        for name in header
    ]
    spans.sort(key=lambda span: (span[1], span[2]))  # an empty tensor comes before one at the same place
    _check_cover(spans, begin, file, path.name)
    return Catalogue(str(path), {tensor.name: tensor for tensor, _, _ in spans}, metadata)


def _header_text(file: StoredFile, path: Path) -> tuple[str, int]:
    """Return the header, and where the tensors begin."""
    with file.open() as opened:
        prefix = opened.read(8)
        if len(prefix) < 8:
            raise UsageMistake(f"{path.name} has {file.nbytes} bytes, too few for a safetensors file")
        (nbytes,) = struct.unpack("<Q", prefix)
        if nbytes > min(MAX_HEADER_NBYTES, file.nbytes - 8):
            raise UsageMistake(
                f"{path.name} is not a safetensors file, or was cut short: by its first bytes the header has "
                f"{nbytes:,} bytes; the file has {file.nbytes:,}, and {MAX_HEADER_NBYTES:,} are the limit"
            )
        try:
            return opened.read(nbytes).decode("utf-8"), 8 + nbytes
        except UnicodeDecodeError as reason:
            raise UsageMistake(f"{path.name}: the header is no UTF-8 text: {reason}") from None


def _entry(
    name: str, entry: dict[str, Any], file: StoredFile, begin: int, where: str
) -> tuple[StoredTensor, int, int]:
    shape = fields.counts(entry, "shape", where)
    dtype = dtypes.of_safetensors(fields.string(entry, "dtype", where), where)
    offsets = fields.counts(entry, "data_offsets", where)
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise UsageMistake(f"{where}: 'data_offsets' is {list(offsets)}, expected [begin, end]")
    start, end = offsets
    check_shape(where, shape, dtype)
    expected = stored_nbytes(shape, dtype)
    if end - start != expected:
        raise UsageMistake(
            f"{where}: it has {end - start} bytes, but {dtype} of shape {list(shape)} takes {expected}"
        )
    return StoredTensor(name, shape, dtype, file, begin + start), begin + start, begin + end


def _check_cover(spans: list[tuple[StoredTensor, int, int]], begin: int, file: StoredFile, name: str) -> None:
    """Check that the tensors fill the file: a gap could hide data, an overlap would use bytes twice."""
    at, before = begin, "the header"
    for tensor, start, end in spans:
        if start != at:
            kind = "overlaps" if start < at else "leaves a gap after"
            raise UsageMistake(
                f"{name}: tensor {tensor.name!r} {kind} {before}: its 'data_offsets' begin at "
                f"{start - begin}, expected {at - begin}"
            )
        at, before = end, f"tensor {tensor.name!r}"
    if at != file.nbytes:
        what = "was cut short, or is still being written" if at > file.nbytes else "has bytes of no tensor"
        raise UsageMistake(
            f"{name} {what}: by its header it has {at:,} bytes, the file has {file.nbytes:,}; "
            "fetch the file again"
        )


def read_index(path: Path) -> Catalogue:
    """Return the checked headers of all parts that an index names."""
    where = f"index {path.name}"
    index = fields.parse(StoredFile.at(path, where).text(where), where)
    metadata = fields.optional_object(index, "metadata", where)
    weight_map = fields.object_in(index, "weight_map", where)
    places = {name: fields.string(weight_map, name, f"{where}: 'weight_map'") for name in weight_map}
    paths = {part: sibling(path.parent, part, where) for part in dict.fromkeys(places.values())}
    _check_present(paths, where)
    parts = {part: read_file(paths[part]).tensors for part in paths}
    _check_names(places, parts, where)
    return Catalogue(
        str(path), {name: t for tensors in parts.values() for name, t in tensors.items()}, metadata
    )


def _check_present(paths: dict[str, Path], where: str) -> None:
    missing = [part for part, path in paths.items() if not os.path.exists(path)]
    if missing:
        folder = next(iter(paths.values())).parent
        raise UsageMistake(
            f"{where}: {len(missing)} of {len(paths)} parts are missing in {folder}: {', '.join(missing)}; "
            "fetch them"
        )


def _check_names(places: dict[str, str], parts: dict[str, dict[str, StoredTensor]], where: str) -> None:
    """Check that index and parts agree in both directions: else a tensor could be lost silently."""
    wrong = [f"{name!r} is not in {part}" for name, part in places.items() if name not in parts[part]]
    wrong += [
        f"{name!r} is in {part}, but " + (f"the index says {places[name]}" if name in places else "not in it")
        for part, tensors in parts.items()
        for name in tensors
        if places.get(name) != part
    ]
    if wrong:
        shown = "; ".join(wrong[:8]) + (f"; and {len(wrong) - 8} more" if len(wrong) > 8 else "")
        raise UsageMistake(
            f"{where} and its parts do not fit together: {shown}; index and parts of one release do, and a "
            "single part can be loaded by its own path"
        )
