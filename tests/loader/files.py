"""Writes parameter files, right ones and wrong ones, with nothing but NumPy."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np

CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}


def header_of(arrays):
    """The header and the body of a safetensors file that holds `arrays`."""
    header, body = {}, bytearray()
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    return header, bytes(body)


def write_raw(path, header, body=b"", *, nbytes=None):
    """A file of a header, JSON or bytes, and a body; `nbytes` lies about the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if nbytes is None else nbytes) + text + body)
    return path


def write_safetensors(path, arrays, metadata=None):
    """A good safetensors file."""
    header, body = header_of(arrays)
    return write_raw(path, ({"__metadata__": metadata} if metadata is not None else {}) | header, body)


def write_index(folder, parts, weight_map=None, metadata=None):
    """``model.safetensors.index.json`` and its parts, file name -> arrays."""
    for name, arrays in parts.items():
        write_safetensors(folder / name, arrays)
    places = {tensor: name for name, arrays in parts.items() for tensor in arrays}
    index = {"metadata": metadata or {}, "weight_map": places if weight_map is None else weight_map}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


def cache_of(files, *, halved=(), md5=True):
    """A parameter list of TVM and its files' contents: file -> arrays; `halved` are stored as bfloat16."""
    records, contents = [], {}
    for file, arrays in files.items():
        body, entries = b"", []
        for name, array in arrays.items():
            data = (array.view("u4") >> 16).astype("u2").tobytes() if name in halved else array.tobytes()
            entries.append(
                {
                    "name": name,
                    "shape": list(array.shape),
                    "dtype": array.dtype.name,
                    "format": "f32-to-bf16" if name in halved else "raw",
                    "nbytes": len(data),
                    "byteOffset": len(body),
                }
            )
            body += data
        record = {"dataPath": file, "format": "raw-shard", "nbytes": len(body), "records": entries}
        if md5:
            record["md5sum"] = hashlib.md5(body, usedforsecurity=False).hexdigest()
        records.append(record)
        contents[file] = body
    return {"metadata": {"model": "test"}, "records": records}, contents


def write_cache(folder, files, *, name="tensor-cache.json", halved=(), md5=True):
    """A good parameter folder of TVM; the path of its list."""
    manifest, contents = cache_of(files, halved=halved, md5=md5)
    for file, body in contents.items():
        (folder / file).write_bytes(body)
    path = folder / name
    path.write_text(json.dumps(manifest))
    return path
