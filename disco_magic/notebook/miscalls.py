"""How what every cell is given is called, and what it has: a line below Python's own words."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.expressions import failed_expression, name_of_called
from disco_magic.notebook.strays import ELSEWHERE
from disco_magic.phrases import near_misses, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.notebook.expressions import FailedExpression
    from disco_magic.notebook.shell import Shell


_GROUP: Final = "init_process_group"
_NO_GROUP: Final = (
    "workers are threads of this process and need no process group: allreduce(x), allgather(x), ... are "
    "there, allreduce_tree(grads, 'avg') for gradients"
)


def advice_on_miscalls(shell: Shell, error: BaseException) -> list[str]:
    """A line if `error`, of a worker, comes from arguments that do not fit, or from what `worker` lacks.

    Or if PyTorch's own collectives look for processes.
    """
    if type(error) in (ValueError, RuntimeError) and _GROUP in words(error):
        return [_NO_GROUP]
    if type(error) not in (TypeError, AttributeError):
        return []
    failed = failed_expression(shell, error)
    worker = None if failed is None else failed.frame.f_builtins.get("worker")
    if failed is None or worker is None:
        return []
    said = (
        _how_called(failed, worker, str(error)) if type(error) is TypeError else _what_it_has(failed, worker)
    )
    return [said] if said else []


def _how_called(failed: FailedExpression, worker: Any, message: str) -> str:
    node, frame = failed
    if not isinstance(node, ast.Call):
        return ""
    method = getattr(type(worker), name_of_called(node.func, frame) or "-", None)
    if method is None or not message.startswith(f"{getattr(method, '__qualname__', '-')}() "):
        return ""
    signature = inspect.signature(method)
    shown = ", ".join(_parameters(signature, worker.mesh))
    given = [*node.args, *(each.value for each in node.keywords if each.arg != "over")]
    texts = {each.value for each in given if isinstance(each, ast.Constant)}
    axis = next((axis for axis in worker.mesh if axis in texts), None)
    over = f"; over={axis!r} for the axis" if axis and "over" in signature.parameters else ""
    return f"it is {ast.unparse(node.func)}({shown}){over}"


def _parameters(signature: inspect.Signature, mesh: Mapping[str, int]) -> list[str]:
    """As they are written in a call, without types; for ``**coordinates`` the axes of the mesh."""
    _, *given = signature.parameters.values()
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given]
    if mesh and bare and bare[-1].kind is inspect.Parameter.VAR_KEYWORD:
        return [*map(str, bare[:-1]), *(f"{axis}=..." for axis in mesh)]
    return str(inspect.Signature(bare))[1:-1].split(", ")


def _what_it_has(failed: FailedExpression, worker: Any) -> str:
    node, frame = failed
    if not isinstance(node, ast.Attribute):
        return ""
    if name_of_called(node, frame):  # `worker` without it
        names = [name for name in dir(worker) if not name.startswith("_")]
        return ELSEWHERE.get(node.attr) or near_misses(node.attr, names)
    if name_of_called(node.value, frame) == "coordinates" and node.attr in worker.mesh:
        return f"it is worker.coordinates[{node.attr!r}]"
    return ""
