"""Disco's functions for sharded parameters, under Disco's names; a controller calls them on its workers.

Where Disco means all workers, these mean the workers of the caller's group, and its first one for worker 0:
each group holds a whole copy of the model. With one group that is the same.

Parameters are counted as Disco counts them: by `ShardLoaderLoad` in the order of the list, by the others in
the order of the numbers in their names, ``param_<number>``. If no parameter has such a name, the order of the
list counts.

Every session registers these functions, few use them: what they need is imported when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.functions.registry import register_func

if TYPE_CHECKING:
    from disco_magic.loader.shards import ShardLoader
    from disco_magic.loader.stored import Array


@register_func("runtime.disco.ShardLoader")
def shard_loader(
    path: str,
    metadata: str = "",
    shard_info: str = "",
    module: Any = None,
    check_md5: bool = True,  # noqa: FBT001, FBT002 - by position, as Disco's other arguments
) -> ShardLoader:
    """Make a loader for a folder of parameters; checks everything but the parameters' bytes.

    Args:
        path: of ``tensor-cache.json``, or of its folder.
        metadata: content of that file; empty: read it.
        shard_info: JSON that says how parameters are cut (`loader.shard_info`); empty: ask `module`.
        module: where shard functions are looked up before the registered ones.
        check_md5: compare MD5 sums, if the list has any, before a file's first parameter is used; takes a
            second per 0.6 GB on the worker that reads it.

    Raises:
        UsageMistake: something about the files or the shard info is wrong; the message says what.
        UnknownName: there is no such shard function.
        MissingDependency: a dtype needs `ml_dtypes`.
    """
    from disco_magic.loader.shards import make_loader

    return make_loader(path, metadata, shard_info, module, check_md5=check_md5)


@register_func("runtime.disco.ShardLoaderLoad")
def shard_loader_load(loader: ShardLoader, index: int) -> Array:
    """Return the caller's part of a parameter, by its place in the list; called by all workers of the group.

    Returns:
        The part, of the last function's output shape without axis 0; the whole if nothing cuts it.

    Raises:
        UsageMistake: there is no such parameter.
        DiscoError: a file is damaged, or was changed since the loader was made; no room for a temporary file.
        What a shard function raises.

    Cost: on worker 0 no more than the largest parameter beyond the parts. If several functions cut a large
    one, or bfloat16 is widened first, the rest goes to a temporary file, in TMPDIR or /var/tmp.
    """
    return _loader(loader).load(index)


@register_func("runtime.disco.ShardLoaderLoadAll")
def shard_loader_load_all(loader: ShardLoader) -> list[Array]:
    """Return the caller's parts of all parameters, by number; otherwise as `ShardLoaderLoad`."""
    return _loader(loader).load_all()


@register_func("runtime.disco.ShardLoaderLoadPresharded")
def shard_loader_load_presharded(loader: ShardLoader, index: int) -> Array:
    """Return a parameter cut beforehand, ``<name>_shard-X-of-Y``: worker X - 1 of a group of Y reads it.

    Args:
        loader: made by `ShardLoader`.
        index: in the order of the list, counting one part of each parameter.

    Raises:
        UsageMistake: there is no such parameter, or they were cut for another number of workers.
        DiscoError: a file is damaged, or was changed since the loader was made.
    """
    return _loader(loader).load_presharded(index)


@register_func("runtime.disco.ShardLoaderLoadAllPresharded")
def shard_loader_load_all_presharded(loader: ShardLoader) -> list[Array]:
    """Return all parameters cut for the caller, by number; otherwise as `ShardLoaderLoadPresharded`."""
    return _loader(loader).load_all_presharded()


@register_func("runtime.disco.ShardLoaderLoadParamOnWorker0")
def shard_loader_load_param_on_worker_0(loader: ShardLoader, index: int) -> Array:
    """Return the whole of parameter number `index`, uncut, on the first worker of the group.

    The others get an uninitialised array of its shape, as the destination of a later command.
    """
    return _loader(loader).load_on_worker_0(index)


def _loader(value: Any) -> ShardLoader:
    from disco_magic.loader.shards import ShardLoader

    if not isinstance(value, ShardLoader):
        raise UsageMistake(
            f"expected a register made by runtime.disco.ShardLoader, got {type(value).__name__}"
        )
    return value
