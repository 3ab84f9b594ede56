"""Which optional parts are there: ``disco.support()``, and what to install for the others.

Each part has a function here that decides; what it looks at is found by `installed`, which imports and loads
nothing. "There" means that all files that a part needs were found, not that a GPU or a network was tried.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import TableLook, head_cells
from disco_magic.core.words import aligned, plural
from disco_magic.errors import UnknownName
from disco_magic.functions.installed import (
    find_library,
    first_of,
    has_package,
    is_file,
    library_version,
    nvidia_driver,
    paths_in,
    version_of,
    visible_gpus,
)
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Iterator

_CUPY_CUDA: Final = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
_CUPY_ROCM: Final = ("cupy-rocm-7-0", "cupy-rocm-5-0", "cupy-rocm-4-3")
_NCCL: Final = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
_MPI: Final = ("mpich", "openmpi", "impi-rt")
# In mpi4py's own order: 12 is MPICH's and Intel's, 40 Open MPI's.
_LIBMPI: Final = ("libmpi.so", "libmpi.so.12", "libmpi.so.40", "libmpi.dylib")
# The first driver that runs programs made for CUDA 13.
_DRIVER_OF_CUDA_13: Final = 580


@dataclass(frozen=True, slots=True)
class Part:
    """One optional part.

    Attributes:
        name: its key in `Support`, ``"tvm"``.
        present: whether everything it needs was found; it has not been tried.
        version: of its main package, or of its library; None if that is not installed or states none.
        purpose: what disco_magic uses it for.
        extra: the extra of disco-magic that brings it; None if none does.
        install: the command that brings it; "" if it needs nothing.
        note: what else was found, ``"2 GPUs visible"``, or what exactly is missing.
    """

    name: str
    present: bool
    version: str | None
    purpose: str
    extra: str | None = None
    install: str = ""
    note: str = ""


class Support(Mapping[str, Part]):
    """The optional parts by name, as they were when `support` was called: ``support()["tvm"].version``.

    Shown as a table: text in a terminal, HTML in a notebook.
    """

    __slots__ = ("_parts",)

    def __init__(self, *parts: Part) -> None:
        self._parts = {part.name: part for part in parts}

    def __getitem__(self, name: str) -> Part:
        """The part of that name.

        Raises:
            UnknownName: there is none; the message has near misses.
        """
        try:
            return self._parts[name]
        except KeyError:
            hint = near_misses(str(name), self._parts) or f"the parts are {', '.join(self._parts)}"
            raise UnknownName(f"support() has no part {name!r}; {hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        rows = [_HEADS, *([part.name, *_cells(part), _hint(part)] for part in self._parts.values())]
        return "\n".join([self._caption(), *aligned(rows, words=len(_HEADS))])

    def _repr_html_(self) -> str:
        body = "".join(map(_row_html, self._parts.values()))
        return _LOOK.html(escape(self._caption()), head_cells(_HEADS), body)

    def _caption(self) -> str:
        there = sum(part.present for part in self._parts.values())
        return f"disco_magic: {there} of {len(self)} optional parts are there"


def support() -> Support:
    """Return which optional parts this Python has, and what installs the others.

    Reads the metadata of packages and looks for shared libraries; imports and loads none of them, so it
    says the same before and after they are used, and never fails on a broken one.

    Returns:
        A mapping from names (``cuda nccl rccl mpi tvm ml_dtypes safetensors tqdm jupyterlab``) to `Part`:
        ``support()["tvm"].present``, ``.version``, ``.extra``.

    Cost: about 10 ms; 50 ms more, once, in a process that has not used `importlib.metadata` yet.

    Example:
        >>> disco.support()["tvm"].extra
        'tvm'
    """
    return Support(
        *_gpu_parts(),
        _mpi(),
        _tvm(),
        _package("ml_dtypes", "bfloat16 and float8 arrays", "loader"),
        Part("safetensors", present=True, version=None, purpose="parameters from files", note="built in"),
        _package("tqdm", "progress bars", "loader"),
        _package("jupyterlab", "JupyterLab, to run notebooks in", "lab"),
    )


# --- the parts -------------------------------------------------------------------------------------


def _package(name: str, purpose: str, extra: str) -> Part:
    """A part that is one package, of the same name for pip and for Python."""
    there = has_package(name)
    version = version_of(name) if there else None
    return Part(name, there, version, purpose, extra, _pip(extra))


def _pip(extra: str) -> str:
    return f'pip install "disco-magic[{extra}]"'


def _gpu_parts() -> tuple[Part, Part, Part]:
    """CUDA, NCCL and RCCL: cupy is built for either CUDA or ROCm, and its wheel's name says which."""
    there = has_package("cupy")
    wheel = first_of(*_CUPY_CUDA, *_CUPY_ROCM) if there else None
    rocm = wheel in _CUPY_ROCM
    extra = _cuda_extra(wheel)
    gpus = visible_gpus()
    cuda = Part(
        "cuda",
        there and not rocm,
        version_of(wheel) if wheel and not rocm else None,
        "workers and arrays on NVIDIA GPUs",
        extra,
        _pip(extra),
        f"{plural(gpus, 'GPU')} visible" if gpus else "no NVIDIA GPU visible",
    )
    return cuda, _nccl(extra, cupy=cuda.present), _rccl(wheel if rocm else None)


def _cuda_extra(wheel: str | None) -> str:
    """The extra that fits the installed cupy, else the running driver; the newest if neither says."""
    if wheel in ("cupy-cuda13x", "cupy-cuda12x"):
        return wheel.removeprefix("cupy-").removesuffix("x")
    return "cuda12" if (nvidia_driver() or _DRIVER_OF_CUDA_13) < _DRIVER_OF_CUDA_13 else "cuda13"


def _nccl(extra: str, *, cupy: bool) -> Part:
    """NCCL version 2, which cupy loads when it is asked for NCCL: from a wheel or from the machine.

    It is not loaded here, not even for its version: the first one loaded stays in the process for good, and
    other frameworks bring their own.
    """
    wheels = [Path(entry, "nvidia", "nccl", "lib") for entry in sys.path]
    library = find_library("libnccl.so.2", also=wheels)
    version, note = None, "no libnccl.so.2 found"
    if library is not None and library.parent in wheels:
        version, note = version_of(*_NCCL), f"from {first_of(*_NCCL) or library}"
    elif library is not None:
        version, note = library_version(library), f"from {library}"
    if not cupy:
        note += ", no cupy for CUDA"
    purpose = "collectives between NVIDIA GPUs, one worker on each"
    return Part("nccl", cupy and library is not None, version, purpose, extra, _pip(extra), note)


def _rccl(wheel: str | None) -> Part:
    """RCCL, which cupy's wheels for ROCm load; there is no wheel of RCCL itself."""
    roots = [*paths_in("ROCM_PATH"), Path("/opt/rocm")]
    library = find_library("librccl.so.1", "librccl.so", also=[root / "lib" for root in roots])
    needed = {"cupy for ROCm": wheel, "librccl, which is part of ROCm": library}
    missing = [what for what, found in needed.items() if not found]
    note = f"from {library}" if not missing else f"no {', no '.join(missing)}"
    version = library_version(library) if library else None
    purpose = "collectives between AMD GPUs; untried"
    return Part("rccl", not missing, version, purpose, "rocm", _pip("rocm"), note)


def _mpi() -> Part:
    """MPI: mpi4py's wheel contains none and works with any, so that the wheel alone does not suffice."""
    chosen = paths_in("MPI4PY_LIBMPI")  # libraries, or folders with one; mpi4py's own variable
    library = next(filter(is_file, chosen), None) or find_library(*_LIBMPI, also=chosen)
    there = has_package("mpi4py")
    brand = first_of(*_MPI)
    if library is None:
        note = "no MPI library found"
    elif brand is not None and str(library).startswith(sys.prefix):
        note = f"with {brand} {version_of(brand) or ''}".rstrip()
    else:
        note = f"with {library}"
    return Part(
        "mpi",
        there and library is not None,
        version_of("mpi4py") if there else None,
        "collectives through MPI; nothing here uses it yet",
        "mpi",
        _pip("mpi"),
        note if there else f"no mpi4py, {note}",
    )


def _tvm() -> Part:
    """TVM's compiler and runtime; its object system is a package of its own, which others use alone."""
    there = has_package("tvm")
    ffi = version_of("apache-tvm-ffi") if has_package("tvm_ffi") else None
    note = f"{'with' if there else 'only'} apache-tvm-ffi {ffi}" if ffi else ""
    version = version_of("apache-tvm") if there else None
    return Part("tvm", there, version, "modules compiled by TVM", "tvm", _pip("tvm"), note)


# --- the table -------------------------------------------------------------------------------------

_HEADS: Final = ("part", "there", "version", "what for", "")
_LOOK: Final = TableLook("disco-support", "{} .missing{color:var(--jp-ui-font-color2,inherit)}")


def _cells(part: Part) -> tuple[str, str, str]:
    return "yes" if part.present else "no", part.version or "", part.purpose


def _hint(part: Part) -> str:
    """How to get what is missing, and the note."""
    return " · ".join(filter(None, ["" if part.present else part.install, part.note]))


def _row_html(part: Part) -> str:
    there, version, purpose = map(escape, _cells(part))
    mark = "\u2713 " if part.present else ""  # not by colour alone
    command = "" if part.present or not part.install else f"<code>{escape(part.install)}</code>"
    note = f'<span class="dim">{escape(part.note)}</span>' if part.note else ""
    return (
        f'<tr class="{"there" if part.present else "missing"}">'
        f'<th scope="row"><code>{escape(part.name)}</code></th>'
        f"<td>{mark}{there}</td><td>{version}</td><td>{purpose}</td>"
        f"<td>{'<br>'.join(filter(None, [command, note]))}</td></tr>"
    )
