"""PyTorch's DTensors, which are split over a mesh: the part that a worker has, and which one that is."""

from __future__ import annotations

from typing import Any

from disco_magic.core.words import shape_text
from disco_magic.values.kinds import is_split_tensor, name_of


def local_part(value: Any) -> Any:
    """The part of a PyTorch DTensor that the worker has, a tensor; any other value itself."""
    return value._local_tensor if is_split_tensor(type(value)) else value  # noqa: SLF001 - `to_local` makes a graph


def kind_of_split(tensor: Any) -> str:
    """``DTensor(8x4, S(0), R)``: the global shape, and how it is split along each axis of the mesh."""
    along = [shape_text(tuple(tensor.shape)), *map(str, tensor.placements)]
    return f"{name_of(type(tensor))}({', '.join(along)})"


def as_one_of_several(value: Any) -> str:
    """`kind_of_split` of a DTensor of which other workers have other parts; "" for any other value."""
    if not is_split_tensor(type(value)):
        return ""
    try:
        return kind_of_split(value) if shard_of(value) else ""
    except Exception:  # noqa: BLE001 - of PyTorch, for a tensor whose mesh is gone
        return ""


def shard_of(tensor: Any) -> str:
    """Which part of a DTensor the worker has, ``"dp=0, tp=1"``; only axes that it is split along."""
    mesh = tensor.device_mesh
    at = mesh.get_coordinate()
    if at is None:
        return "outside of the mesh"
    names = mesh.mesh_dim_names or [f"axis {axis}" for axis in range(mesh.ndim)]
    split = zip(names, at, tensor.placements, strict=True)
    return ", ".join(f"{name}={place}" for name, place, placement in split if not placement.is_replicate())


def mesh_of(tensor: Any) -> tuple[int, ...]:
    """The ranks of a DTensor's mesh, in order."""
    return tuple(map(int, tensor.device_mesh.mesh.flatten().tolist()))


def has_replicas(tensor: Any) -> bool:
    """Whether several workers have the same part of a DTensor."""
    mesh = tensor.device_mesh
    return any(
        placement.is_replicate() and mesh.size(axis) > 1 for axis, placement in enumerate(tensor.placements)
    )
