"""Loading parameters from files into registers: every worker reads its own part of every tensor.

    headers, plan -> [Sync] -> a call per tensor, in batches, each followed by a Sync
    nothing is sent            workers read and count in a tally; the waiting thread looks at it

A load that fails or is interrupted leaves nothing behind: the tally is marked as stopped, workers skip what
is still to come, and all its registers are released.

Modules that read files are imported by the first load: they would add 10 ms to the start of every session.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.numbers import truth
from disco_magic.errors import DiscoError, SyncTimeout, is_told
from disco_magic.functions.participants import who
from disco_magic.loader import disco_functions as _registered  # noqa: F401 - by being imported
from disco_magic.session.calls import Calls

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from disco_magic.core.topology import Axes
    from disco_magic.loader.loaded import LoadedParameters
    from disco_magic.loader.parts import CheckFiles, LoadPart
    from disco_magic.loader.plan import Placement
    from disco_magic.loader.progress import Watch
    from disco_magic.loader.stored import Catalogue, StoredFile, StoredTensor
    from disco_magic.session.arguments import Limit
    from disco_magic.session.dref import DRef

__tracebackhide__ = is_told

# Tensors sent before the next wait. Below `max_outstanding`, at which a call would wait by itself and ignore
# the load's timeout.
_BATCH: Final = 1000


class Parameters(Calls):
    """Mixin of `Session` that loads parameters from files, a part on every worker."""

    def load_safetensors(
        self,
        path: str | os.PathLike[str],
        plan: Mapping[str, Placement] | None = None,
        *,
        in_group: bool = True,
        over: Axes | None = None,
        names: Iterable[str] | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> LoadedParameters[DRef]:
        """Load tensors of safetensors files, each worker its own part; wait for all of them.

        A load that raises leaves nothing on the workers.

        Args:
            path: a file, a ``*.index.json`` with its files next to it, or the folder of either.
            plan: maps patterns of names (``"*.weight"``, as in `fnmatch`; ``*`` also spans dots) to
                ``Shard(axis)`` or ``REPLICATE``. The first pattern that matches a name decides; names that
                match none are replicated. None: everything is.
            in_group: tensors are split among the workers of each group, so that every group holds all of
                them; False: among all workers of the session.
            over: split only among the workers that differ along these axes of the mesh. Workers with the same
                coordinates on them get the same parts, marked as such (`WorkerContext.replicated`).
            names: names or patterns of what to load; None: everything.
            timeout: seconds; a load that takes longer is stopped. None: `self.timeout`.
            progress: whether to show progress, with tqdm where it is installed; None: if it takes more than a
                second.

        Returns:
            Name -> register. A tensor of shape `(..., n * k, ...)`, split along that axis among `n` workers,
            is `(..., k, ...)` on each: a writable array of the worker's own, in the file's dtype (`ml_dtypes`
            for bfloat16 and float8).

        Raises:
            UsageMistake: a file is missing or damaged, the plan does not fit it, a tensor cannot be split
                evenly. Nothing was sent.
            MissingDependency: a dtype needs `ml_dtypes`. Nothing was sent.
            WorkerError: a worker could not read its part, or something failed before.
            SyncTimeout: `timeout` ran out.
            KeyboardInterrupt: Ctrl-C or the stop button.

        Cost: every worker reads its parts from a memory map of the file, at memory speed once the file is
        cached, and holds nothing else. 0.1 ms more per tensor.
        """
        from disco_magic.loader.safetensors import open_safetensors

        return self._load(
            "load_safetensors",
            lambda: open_safetensors(path),
            plan,
            names,
            in_group=in_group,
            over=over,
            timeout=timeout,
            progress=progress,
        )

    def load_tensor_cache(
        self,
        path: str | os.PathLike[str],
        plan: Mapping[str, Placement] | None = None,
        *,
        in_group: bool = True,
        over: Axes | None = None,
        names: Iterable[str] | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
        check_md5: bool = True,
    ) -> LoadedParameters[DRef]:
        """Load parameters from a TVM folder, ``tensor-cache.json`` and its files, as `load_safetensors`.

        Args:
            path: the folder, or the json file in it (also the older ``ndarray-cache.json``).
            plan: as `load_safetensors`, like everything not explained here.
            in_group: as there.
            over: as there.
            names: as there.
            timeout: as there.
            progress: as there.
            check_md5: compare the MD5 sums in the list before any worker allocates memory; the workers share
                the files among them. Takes a second per 0.6 GB and core.

        Returns:
            As `load_safetensors`. Parameters stored as ``f32-to-bf16`` are float32 again.

        Raises:
            As `load_safetensors`.
        """
        from disco_magic.loader.tensor_cache import open_tensor_cache

        return self._load(
            "load_tensor_cache",
            lambda: open_tensor_cache(path),
            plan,
            names,
            in_group=in_group,
            over=over,
            timeout=timeout,
            progress=progress,
            check_md5=check_md5,
        )

    def _load(
        self,
        verb: str,
        read: Callable[[], Catalogue],
        plan: Mapping[str, Placement] | None,
        names: Iterable[str] | None,
        *,
        in_group: bool,
        over: Axes | None,
        timeout: float | None,
        progress: bool | None,
        check_md5: bool = False,
    ) -> LoadedParameters[DRef]:
        from disco_magic.loader.loaded import Line, LoadedParameters
        from disco_magic.loader.parts import CheckFiles, LoadPart
        from disco_magic.loader.plan import axes, select
        from disco_magic.loader.progress import Tally, Watch

        members = self.taking_part(verb, over, in_group=in_group)
        refuse_in_worker(self.id, verb)
        shown = None if progress is None else truth(verb, "progress", progress)
        check_md5 = truth(verb, "check_md5", check_md5)
        limit = self.patience(timeout)
        if self.closed:
            self._refuse()
        self.keep_pace(limit, verb)
        count = self.topology.part_size(**who(members))
        with _explained(verb):
            catalogue = read()  # only now: everything else that may be wrong was checked
            chosen = select(catalogue.tensors, names)
            split = axes(plan, catalogue.tensors, count, chosen)
            lines = [Line.of(tensor, split[name], count) for name, tensor in chosen.items()]
            files = _with_sums(chosen.values()) if check_md5 else ()
        tally = Tally(self.num_workers)
        check = CheckFiles(files, tally) if files else None
        calls = {name: LoadPart(tensor, split[name], members, tally) for name, tensor in chosen.items()}
        total = sum(line.nbytes for line in lines) * self.num_workers + sum(file.nbytes for file in files)
        watch = Watch(verb, tally, total, shown=shown)
        return LoadedParameters(catalogue, self._loaded(check, calls, watch, limit), lines)

    def _loaded(
        self, check: CheckFiles | None, calls: Mapping[str, LoadPart], watch: Watch, limit: Limit
    ) -> dict[str, DRef]:
        """Send the calls, `check` first, and wait for them; the registers that they have filled, by name."""
        drefs: dict[str, DRef] = {}
        try:
            self._attend(watch, limit)  # so that failures after this are the load's own
            if check is not None:
                self.call_packed(check)
                self._attend(watch, limit)  # no worker allocates before all sums are checked
            self._send_parts(calls, drefs, watch, limit)
        except BaseException as error:
            watch.tally.stop()
            drefs.clear()  # the traceback keeps this frame, and so would keep the references
            self.flush()
            if type(error) is KeyboardInterrupt:  # else this thread is a worker of another session
                raise KeyboardInterrupt(watch.end("was interrupted")) from None
            raise
        finally:
            watch.close()
        return drefs

    def _send_parts(
        self, calls: Mapping[str, LoadPart], drefs: dict[str, DRef], watch: Watch, limit: Limit
    ) -> None:
        names = list(calls)
        batch = max(1, min(_BATCH, self.max_outstanding // 2))
        for start in range(0, len(names) or 1, batch):
            for name in names[start : start + batch]:
                drefs[name] = self.call_packed(calls[name])
            self._attend(watch, limit)
        if not watch.complete:  # a wait in another thread has raised the failure
            raise DiscoError(watch.end("failed on a worker, as another wait of this session has said,"))

    def _attend(self, watch: Watch, limit: Limit) -> None:
        """Wait for everything sent so far, showing progress; raise what failed or ended the wait."""
        try:
            self.await_all(watch.look, timeout=limit, verb=watch.verb)
        except SyncTimeout as late:
            raise self.too_late(watch.end("ran out of time"), late.diagnosis) from None
        watch.look()


@contextmanager
def _explained(verb: str) -> Iterator[None]:
    """Say in a Ctrl-C that strikes in the block what it has ended: that of a folder of many files is long."""
    try:
        yield
    except KeyboardInterrupt as struck:
        if struck.args:
            raise
        raise KeyboardInterrupt(
            f"{verb} was interrupted while it read which tensors the files have; nothing was sent"
        ) from None


def _with_sums(tensors: Iterable[StoredTensor]) -> tuple[StoredFile, ...]:
    return tuple(dict.fromkeys(tensor.file for tensor in tensors if tensor.file.md5))
