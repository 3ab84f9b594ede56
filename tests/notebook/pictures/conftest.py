"""PNGs and markup taken apart, and plain data to draw."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from disco_magic.values.pictures import Picture

SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Image:
    """A PNG as a reader sees it."""

    indices: np.ndarray
    palette: np.ndarray

    @property
    def colours(self):
        return self.palette[self.indices]


def decode(data):
    """The pixels of an indexed PNG of 2 or 8 bits; checks signature, checksums and sizes."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert next(iter(chunks)) == b"IHDR"
    assert list(chunks)[-2:] == [b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (colour, rest) == (3, [0, 0, 0])
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    if b"tRNS" in chunks:
        palette = np.column_stack([palette, np.frombuffer(chunks[b"tRNS"], np.uint8)])
    return Image(_unfiltered(zlib.decompress(chunks[b"IDAT"]), width, height, depth), palette)


def _unfiltered(raw, width, height, depth):
    line_bytes = -(-width * depth // 8)
    raw = np.frombuffer(raw, np.uint8).reshape(height, 1 + line_bytes)
    before, lines = np.zeros(line_bytes, np.uint8), []
    for kind, line in zip(raw[:, 0], raw[:, 1:], strict=True):
        if kind == 0:
            before = line
        elif kind == 1:
            before = np.cumsum(line, dtype=np.uint8)
        else:
            assert kind == 2
            before = before + line
        lines.append(before)
    pixels = np.array(lines)
    if depth == 2:
        pixels = np.stack([pixels >> shift & 3 for shift in (6, 4, 2, 0)], axis=2).reshape(height, -1)
    return pixels[:, :width]


class Markup:
    """A piece of HTML of ours, which is well-formed XML as well; without its style."""

    def __init__(self, html):
        self.root = ET.fromstring(f"<div>{html}</div>")  # noqa: S314 - made by us, just now
        for parent in list(self.root.iter()):
            for style in parent.findall("style"):
                parent.remove(style)

    def all(self, tag):
        return [*self.root.iter(tag), *self.root.iter(SVG + tag)]

    def texts(self, tag):
        return ["".join(each.itertext()) for each in self.all(tag)]

    def classed(self, name):
        return [each for each in self.root.iter() if name in each.get("class", "").split()]

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.root.itertext())).strip()

    def images(self):
        found = []
        for img in self.all("img"):
            head, _, data = img.get("src").partition(",")
            assert head == "data:image/png;base64"
            found.append(decode(base64.b64decode(data)))
        return found


@pytest.fixture(name="decode")
def _decode():
    return decode


@pytest.fixture(name="parse")
def _parse():
    return Markup


@pytest.fixture
def picture():
    def make(array, *, every=(1, 1), start=(0, 0), shape=None, what=None):
        array = np.asarray(array)
        plane = np.atleast_2d(array)[start[0] :: every[0], start[1] :: every[1]]
        rows = np.arange(plane.shape[0]) * every[0] + start[0]
        columns = np.arange(plane.shape[1]) * every[1] + start[1]
        return Picture(
            plane.astype(np.float64),
            rows,
            columns,
            shape or array.shape,
            np.atleast_2d(array).shape if shape is None else ((1, 1, *shape)[-2:]),
            what or str(array.dtype),
            every != (1, 1),
        )

    return make
