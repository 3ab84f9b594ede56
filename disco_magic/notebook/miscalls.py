"""Hints below errors about the names that every cell has: their signature, or the attributes they have."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.tracebacks import frames_of, traceback_of
from disco_magic.notebook.elsewhere import ELSEWHERE, KEYWORDS, OF_VERBS
from disco_magic.notebook.pitfalls import failed_expression, name_of_called
from disco_magic.phrases import near_misses, words

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping

    from disco_magic.callers.failed_expression import FailedExpression
    from disco_magic.notebook.shell import Shell


# DDP, and the parameters that it has wrapped, count the gradients of a backward pass.
_UNENDED: Final = (
    "a backward pass of this DDP has not ended on all workers, and it begins no other one: wrap a copy, "
    "`net = DDP(copy.deepcopy(net.module))`, and give a new optimizer its parameters and the state of the "
    "old one; `worker.check(net.module)` says whether workers were stopped in different steps"
)
_PIPELINE: Final = (
    "a schedule whose step has failed or was stopped keeps parts of it: on all workers, make a new schedule "
    "of the same stages before the next step"
)
_LEFT: Final = "if an earlier run of a program has left it in a module: %disco run --reload imports them anew"
# Text in an error of PyTorch, of a library on top of it, or of JAX, about who takes part -> what helps.
_GROUPS: Final = {
    "make sure to call init_process_group": "dist.init_process_group() makes one of all workers; without any "
    "there are allreduce(x), allgather(x), ..., and allreduce_tree(grads, 'avg') for gradients",
    "initialize the default process group twice": "an earlier cell or program has made it: "
    "if not dist.is_initialized(): dist.init_process_group()",
    "unmarked_param_indices.empty() INTERNAL ASSERT": _UNENDED,
    "Expected to mark a variable ready only once": _UNENDED,
    "Expected to have finished reduction in the prior iteration": f"if the step before failed: {_UNENDED}",
    "Failed to run stage backward": _PIPELINE,
    "failed to run forward": _PIPELINE,
    "without executing forward": _PIPELINE,
    # JAX's psum and the like, outside of what it maps itself
    "unbound axis name": "JAX's own collectives work inside shard_map only; those between workers are "
    "functions here, outside of what JAX traces: allreduce(x, over='tp'), allgather(x, over='tp'), ...",
    "already initialized": _LEFT,
    "already been initialized": _LEFT,
}


# Attribute that `worker` might have -> what there is; as a name in a cell it could be anything.
_OF_WORKER: Final = {"size": "the number of workers is num_workers here"}
# Variable that torchrun sets for each process -> what a cell has instead.
_RANKS: Final = {
    "RANK": "worker_id",
    "LOCAL_RANK": "worker_id, and worker.device says which GPU",
    "WORLD_SIZE": "num_workers",
    "LOCAL_WORLD_SIZE": "num_workers",
}


def advice_on_miscalls(shell: Shell, error: BaseException) -> str:
    """A hint if a worker's `error` comes from wrong arguments or from a missing attribute of `worker`.

    Also if it comes from the collectives of PyTorch or JAX, which expect something else; else "".
    """
    if type(error) in (ValueError, RuntimeError, AssertionError, NameError):
        told = words(error)
        return next((helps for said, helps in _GROUPS.items() if said in told), "")
    if type(error) is KeyError and (of_ranks := _of_ranks(error)):
        return of_ranks
    if type(error) not in (TypeError, AttributeError, KeyError):
        return ""
    failed = failed_expression(shell, error)
    worker = None if failed is None else failed.frame.f_builtins.get("worker")
    if failed is None or worker is None:
        return ""
    if type(error) is TypeError:
        return _how_called(failed, worker, str(error))
    return _what_it_has(failed, worker) if type(error) is AttributeError else _axes(failed, worker)


def _of_ranks(error: KeyError) -> str:
    *_, frame = [None, *frames_of(traceback_of(error))]
    name = error.args[0] if len(error.args) == 1 else None
    if frame is None or frame.f_globals.get("__name__") != "os" or type(name) is not str:
        return ""
    if name not in _RANKS:
        return ""
    return f"it is {_RANKS[name]}; programs that %disco run executes find {name} in os.environ"


def _axes(failed: FailedExpression, worker: Any) -> str:
    """The axes that there are, if a worker was asked for its place on another one."""
    node = failed.node
    if not isinstance(node, ast.Subscript) or name_of_called(node.value, failed.frame) != "coordinates":
        return ""
    if not worker.mesh:
        return "this session has no mesh: %disco start --mesh dp=2,tp=2 starts one that has"
    return f"the axes of this session's mesh are {', '.join(worker.mesh)}"


def _how_called(failed: FailedExpression, worker: Any, message: str) -> str:
    node, frame = failed.node, failed.frame
    if not isinstance(node, ast.Call):
        return ""
    method = getattr(type(worker), _name_at(node.func, frame, worker) or "-", None)
    if method is None or not message.startswith(f"{getattr(method, '__qualname__', '-')}() "):
        return ""
    signature = inspect.signature(method)
    shown = ", ".join(_parameters(signature, worker.mesh))
    given = [*node.args, *(each.value for each in node.keywords if each.arg != "over")]
    texts = {each.value for each in given if isinstance(each, ast.Constant)}
    axis = next((axis for axis in worker.mesh if axis in texts), None)
    over = f"; over={axis!r} for the axis" if axis and "over" in signature.parameters else ""
    unknown = (each.arg for each in node.keywords if each.arg and each.arg not in signature.parameters)
    known = KEYWORDS | OF_VERBS.get(method.__name__.removesuffix("_object").removeprefix("i"), {})
    theirs = [f"; {known[name]}" for name in unknown if name in known]
    return f"it is {ast.unparse(node.func)}({shown}){over}{''.join(theirs)}"


def _name_at(called: ast.expr, frame: types.FrameType, worker: Any) -> str:
    """As `name_of_called`, also for ``comm.rank`` if `comm` holds the worker."""
    if name := name_of_called(called, frame):
        return name
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return ""
    of = called.value.id
    held = frame.f_locals[of] if of in frame.f_locals else frame.f_globals.get(of)
    return called.attr if type(held) is type(worker) else ""


def _parameters(signature: inspect.Signature, mesh: Mapping[str, int]) -> list[str]:
    """The parameters as written in a call, without types; for ``**coordinates`` the axes of the mesh."""
    _, *given = signature.parameters.values()
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given]
    if mesh and bare and bare[-1].kind is inspect.Parameter.VAR_KEYWORD:
        return [*map(str, bare[:-1]), *(f"{axis}=..." for axis in mesh)]
    return str(inspect.Signature(bare))[1:-1].split(", ")


def _what_it_has(failed: FailedExpression, worker: Any) -> str:
    node, frame = failed.node, failed.frame
    if not isinstance(node, ast.Attribute):
        return ""
    if _name_at(node, frame, worker):  # `worker` has no such attribute
        names = [name for name in dir(worker) if not name.startswith("_")]
        return _OF_WORKER.get(node.attr) or ELSEWHERE.get(node.attr) or near_misses(node.attr, names)
    if name_of_called(node.value, frame) == "coordinates" and node.attr in worker.mesh:
        return f"it is worker.coordinates[{node.attr!r}]"
    return ""
