"""What a worker holds, in a form that can be compared with others': the worker's side of a check.

Types, shapes and dtypes cost microseconds per register. Values cost one pass over the data: BLAKE2b at about
1 GB/s per core, GIL released, without a copy of contiguous data (other data is copied in small blocks, data
on a GPU to the host).

Runs where the registers live, in the worker's ordered lane: `shape` and `dtype` of foreign objects may be the
user's own code; if that raises, the object counts as having none. Nothing is hashed, compared or pickled that
could run the user's ``__hash__``, ``__eq__`` or ``__reduce__``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.device import Device
from disco_magic.core.held import Held
from disco_magic.values.columns import facts_of_labels
from disco_magic.values.content import is_plain, kinds_of, scalar_text, tells_all
from disco_magic.values.definitions import fingerprint_of_definition, is_definition
from disco_magic.values.describe import SHORT, describe, elements_text
from disco_magic.values.digests import digest_of
from disco_magic.values.fields import ExtraState
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.frames import is_table
from disco_magic.values.held_elements import OF_OBJECTS, is_of_objects, look_at_elements
from disco_magic.values.inside import (
    DEPTH,
    PARTS,
    PARTS_BY_VALUE,
    Above,
    Seen,
    constant_text,
    is_atom,
    walk,
)
from disco_magic.values.kinds import (
    is_of_framework,
    is_split_tensor,
    is_uninitialized,
    type_name,
    what_it_is,
)
from disco_magic.values.split_tensors import has_replicas, kind_of_split, local_part, mesh_of, shard_of
from disco_magic.values.tensors import bits_of, numbers_of

if TYPE_CHECKING:
    from disco_magic.values.content import Content

_CPU: Final = Device("cpu")
_OWN_STATE: Final = "the module's own code writes it, and is not called; compare what that returns"
# Keys of one such type have an order that is the same on all workers.
_SORTED: Final[list[list[type]]] = [[int], [str]]


def survey(
    name: str, value: Any, *, values: bool, own: Device = _CPU, replicas: bool = False
) -> tuple[tuple[str, Held], ...]:
    """A register and its parts, at any depth: what is in containers, named tuples, dataclasses, data frames.

    After 1,000 parts, 10,000 with `values`, or in more than 8 containers, the rest is not looked at, and the
    result says so. `own` is the worker's device. With `replicas`, DTensors of which several workers have the
    same part are compared by value in any case.
    """
    parts = []
    most = PARTS_BY_VALUE if values else PARTS
    seen = Seen()
    known: dict[tuple[int, bool], Held] = {}  # by identity: `seen` keeps the parts alive
    for path, part, depth in walk(name, value, seen, most):
        if type(part) is Above:  # nothing keeps it alive: another object may get its identity next
            parts.append((path, Held("itself", text=part.path, digest=fingerprint(part.path))))
            continue
        key = id(part), depth == DEPTH
        if key not in known:
            by_value = values or (replicas and is_split_tensor(type(part)) and has_replicas(part))
            known[key] = look(part, values=by_value, deepest=depth == DEPTH, own=own, seen=seen)
        parts.append((path, known[key]))
    if len(parts) > 1 + most:
        opaque = f"it has more than {most:,} parts" if values else ""
        unseen = f"parts after the first {most:,}"
        parts[0] = (name, replace(parts[0][1], opaque=opaque, unseen=unseen, cut=True))
    return tuple(parts)


def look(
    value: Any, *, values: bool, deepest: bool = False, own: Device = _CPU, seen: Seen | None = None
) -> Held:
    """Describe one value, with its digest if `values`; a container without the parts that `survey` adds.

    `deepest`: parts of a container will not be looked at. `own`: the worker's device. `seen`: contents of
    values that were looked at before.
    """
    kind = type(value)
    found = look_at_elements(value, own, values=values)
    if found is not None:
        return found
    if is_plain(kind) or scalar_text(value):
        return _look_at_scalar(value, own, values=values)
    definition, unseen = fingerprint_of_definition(value) if values and is_definition(kind) else (b"", "")
    if definition:
        return Held(type_name(kind), text=what_it_is(value), digest=definition, opaque=unseen)
    if kind is ExtraState:
        return Held("state", opaque=_OWN_STATE if values else "", unseen="what a module's own code writes")
    content = (seen or Seen()).content(value)
    if content is not None:
        return _look_at_container(value, content, values=values, deepest=deepest)
    part = local_part(value)
    found = _look_at_object(part, own, values=values)
    if part is not value:
        split = f"torch.{kind_of_split(value)}"
        found = replace(found, type=split, shard=shard_of(value), mesh=mesh_of(value))
    return _look_into_tensor(part, found) if values and is_of_framework(type(part)) else found


def _look_at_scalar(value: Any, own: Device, *, values: bool) -> Held:
    name = type_name(type(value))
    if not values:
        return Held(name)
    if name == "torch.device" and str(value) == str(own):  # as in `_look_at_object`
        return Held(name, text=own.kind, digest=fingerprint(own.kind))
    return Held(name, text=describe(value).text, digest=fingerprint(scalar_text(value) or value))


def _look_into_tensor(tensor: Any, found: Held) -> Held:
    """Add the digest of a tensor or JAX array, if it is on the host and its elements can be read."""
    bits = bits_of(tensor)
    if bits is None:
        return replace(found, opaque=f"{found.opaque}: only those on the CPU, neither sparse nor quantized")
    numbers = numbers_of(tensor) if bits.size <= SHORT else None
    text = "" if numbers is None else elements_text(numbers)
    return replace(found, text=text, digest=digest_of(bits), opaque="")


def _look_at_object(value: Any, own: Device, *, values: bool) -> Held:
    name = type_name(type(value))
    if is_uninitialized(type(value)):
        text = "not initialized" if values else ""
        return Held(name, None, str(value.dtype), text=text, digest=fingerprint(text) if values else b"")
    shape, dtype, device = (_attribute(value, name) for name in ("shape", "dtype", "device"))
    why = f"values of type {name} cannot be compared" if values else ""
    if dtype is None or not _is_shape(shape):
        return Held(name, opaque=why, unseen="" if is_atom(value) else f"what is in {name}")
    where = None if device is None else _text(device)
    # A worker's own GPU counts as the same place on all workers; another worker's GPU does not.
    return Held(name, tuple(shape), _text(dtype), own.kind if where == str(own) else where, opaque=why)


def _look_at_container(value: Any, content: Content, *, values: bool, deepest: bool) -> Held:
    kinds = kinds_of(content.items)
    plain = [kind for kind in kinds if is_plain(kind)]
    all_plain = len(plain) == len(kinds)
    unseen = ""
    if not all_plain and content.places is None:
        unseen = f"objects in a {type_name(type(value))}"
    elif not all_plain and deepest:
        unseen = f"parts in more than {DEPTH} containers"
    kind, digest, why, setting = type(value), b"", "", ""
    if values:
        digest, why = _digest(value, content, all_plain=all_plain, deepest=deepest)
        setting, made = _setting(value)
        if setting and not why:
            digest, why = (fingerprint([digest, made]), "") if made else (b"", f"its {setting} is not known")
    constant = constant_text(value)
    elements = "" if constant else ", ".join(sorted(map(type_name, plain)))
    labels = "labels" if is_table(kind) else ""  # what its digest is of
    return Held(
        type_name(kind),
        content.shape,
        elements=elements,
        text=(constant or labels or setting) if digest else "",
        digest=digest,
        opaque=why,
        unseen=unseen,
    )


def _setting(value: Any) -> tuple[str, bytes]:
    """What a container does besides holding its items, and a fingerprint of it; b"" if that is not known."""
    kind = type(value)
    if kind is deque and value.maxlen is not None:
        return f"maxlen={value.maxlen}", fingerprint(value.maxlen)
    if kind is defaultdict and value.default_factory is not None:
        made = value.default_factory
        definition, unseen = fingerprint_of_definition(made)
        return f"default_factory={what_it_is(made)}", b"" if unseen else definition
    return "", b""


def _digest(value: Any, content: Content, *, all_plain: bool, deepest: bool) -> tuple[bytes, str]:
    """Return the digest of the plain values in a container with their places, and why there is none."""
    kind = type(value)
    if is_table(kind):
        facts = facts_of_labels(value)
        return (b"", "its labels are objects") if facts is None else (fingerprint(facts), "")
    if why := _why_opaque(content, all_plain=all_plain, deepest=deepest):
        return b"", why
    if kind is set or kind is frozenset:
        return (fingerprint(value), "") if all_plain else (b"", f"it is a {kind.__name__} of objects")
    if all_plain and (kind is list or kind is tuple):
        return fingerprint(value), ""
    if content.places is None:
        written = issubclass(kind, dict) and all(map(tells_all, kinds_of(list(dict.keys(value)))))
        return b"", "several of its keys are written alike" if written else "its keys are objects"
    if all_plain and not content.in_order and kinds_of(content.places) in _SORTED:
        # All at once: one after the other, a million of them would take seconds.
        order = sorted(range(len(content.items)), key=content.places.__getitem__)
        whole: list[Any] = [content.places[i] for i in order] + [content.items[i] for i in order]
    else:
        whole = list(content.parts(plain=True))
        if not content.in_order:
            whole.sort(key=itemgetter(0))
        elif not all_plain:  # the positions of the others are compared, too
            whole.append(list(content.places))
    return fingerprint(whole), ""


def _why_opaque(content: Content, *, all_plain: bool, deepest: bool) -> str:
    if deepest and not all_plain:
        return f"it is nested in more than {DEPTH} containers"
    has_records = any(issubclass(kind, np.void) for kind in kinds_of(content.items))
    return OF_OBJECTS if has_records and any(map(is_of_objects, content.items)) else ""


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a user's property may raise anything; then it has no shape for us either
        return None


def _is_shape(shape: Any) -> bool:
    # By type: isinstance would ask for __class__, which may be a property.
    return issubclass(type(shape), tuple) and all(type(length) is int for length in shape)


def _text(value: Any) -> str | None:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - as above
        return None
