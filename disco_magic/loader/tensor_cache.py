"""Reads TVM's parameter folders: ``tensor-cache.json`` and the binary files that it lists.

    {"metadata": {...},
     "records": [{"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": 24, "md5sum": "...",
                  "records": [{"name": "param_0", "shape": [2, 3], "dtype": "float32", "format": "raw",
                               "nbytes": 24, "byteOffset": 0}, ...]}, ...]}

A record's format ``f32-to-bf16`` means that only the upper halves of float32 numbers were written. TVM also
writes it for other dtypes, where it means nothing. Until 2025 the file was called ``ndarray-cache.json``.

Only the list is read here, and the sizes of the files: everything that can be wrong with them is found
before any worker allocates. MD5 sums require reading everything; whoever reads a file checks its sum.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Final

from disco_magic.errors import UsageMistake
from disco_magic.functions.paths import path_text
from disco_magic.functions.shapes import check_shape
from disco_magic.loader import dtypes, fields
from disco_magic.loader.stored import Catalogue, StoredFile, StoredTensor, sibling, stored_nbytes

# The current name first.
NAMES: Final = ("tensor-cache.json", "ndarray-cache.json")
RAW: Final = "raw"
HALVED: Final = "f32-to-bf16"


def open_tensor_cache(path: str | os.PathLike[str], text: str = "") -> Catalogue:
    """Return the checked contents of a parameter folder, in the order of its list.

    Args:
        path: the folder, or the json file in it. The binary files are in the same folder.
        text: the json file's content, if it has been read already.
    """
    listing = _listing(Path(path_text("a file of parameters is loaded", path)))
    if not text:
        where = f"parameter list {listing.name}"
        text = StoredFile.at(listing, where).text(where)
    manifest = fields.parse(text, listing.name)
    metadata = fields.optional_object(manifest, "metadata", listing.name)
    tensors: dict[str, StoredTensor] = {}
    for record in fields.objects(manifest, "records", listing.name):
        for tensor in _shard(record, listing):
            if tensor.name in tensors:
                raise UsageMistake(
                    f"{listing.name}: the parameter {tensor.name!r} is there twice, in "
                    f"{Path(tensors[tensor.name].file.path).name} and {Path(tensor.file.path).name}"
                )
            tensors[tensor.name] = tensor
    return Catalogue(str(listing), tensors, metadata)


def _listing(path: Path) -> Path:
    if not os.path.isdir(path):  # as in `safetensors`
        return path
    for name in NAMES:
        if (path / name).exists():
            return path / name
    raise UsageMistake(
        f"the folder {path} has neither {' nor '.join(NAMES)}: it is not a parameter folder of TVM"
    )


def _shard(record: fields.Object, listing: Path) -> list[StoredTensor]:
    """Return the parameters in one binary file."""
    name = fields.string(record, "dataPath", f"{listing.name}: a file's record")
    where = f"{listing.name}: file {name}"
    path = sibling(listing.parent, name, where)
    _known_format(record, ("raw-shard",), where)
    md5 = fields.optional_string(record, "md5sum", where)
    file = StoredFile.at(path, where, md5 and md5.lower())
    nbytes = fields.count(record, "nbytes", where)
    if nbytes != file.nbytes:
        raise UsageMistake(
            f"{where} has {file.nbytes:,} bytes, expected {nbytes:,}; it is truncated or from another "
            "release: fetch it again"
        )
    tensors = [_tensor(entry, file, where) for entry in fields.objects(record, "records", where)]
    _check_apart(tensors, where)
    return tensors


def _known_format(record: fields.Object, known: tuple[str, ...], where: str) -> str:
    found = fields.string(record, "format", where)
    if found not in known:
        raise UsageMistake(f"{where}: the format is {found!r}, expected {' or '.join(map(repr, known))}")
    return found


def _tensor(entry: fields.Object, file: StoredFile, where: str) -> StoredTensor:
    name = fields.string(entry, "name", f"{where}: a parameter's record")
    where = f"{where}: parameter {name!r}"
    shape = fields.counts(entry, "shape", where)
    dtype = dtypes.named(fields.string(entry, "dtype", where), where)
    halved = _known_format(entry, (RAW, HALVED), where) == HALVED and dtype == "<f4"
    nbytes, offset = fields.count(entry, "nbytes", where), fields.count(entry, "byteOffset", where)
    expected = stored_nbytes(shape, dtype, halved=halved)
    if nbytes != expected:
        stored = "bfloat16" if halved else dtype
        raise UsageMistake(
            f"{where}: it has {nbytes} bytes, but {stored} of shape {list(shape)} takes {expected}"
        )
    check_shape(where, shape, dtype)
    if offset + nbytes > file.nbytes:
        raise UsageMistake(
            f"{where}: it ends at byte {offset + nbytes:,}, beyond the end of the file at {file.nbytes:,}"
        )
    return StoredTensor(name, shape, dtype, file, offset, halved)


def _check_apart(tensors: list[StoredTensor], where: str) -> None:
    """Check that no byte belongs to two parameters; unused bytes do no harm."""
    filled = sorted((tensor for tensor in tensors if tensor.size), key=lambda tensor: tensor.offset)
    for first, second in pairwise(filled):
        end = first.offset + first.stored_nbytes
        if second.offset < end:
            raise UsageMistake(
                f"{where}: parameter {second.name!r} overlaps {first.name!r}: it begins at byte "
                f"{second.offset}, and that one ends at {end}"
            )
