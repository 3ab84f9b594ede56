"""What is changed in PyTorch, if it is imported, as long as any session runs."""

from __future__ import annotations

from typing import Final

from disco_magic.functions.imported import Libraries
from disco_magic.functions.torch_compiler import fit_compiler
from disco_magic.functions.torch_messages import HOME
from disco_magic.functions.torch_storage import fit_flat_parameters, fit_profiler, fit_storage
from disco_magic.functions.torch_worlds import fit_worlds

PYTORCH: Final = Libraries(
    {
        HOME: fit_worlds,
        "torch.storage": fit_storage,
        "torch.distributed.fsdp._flat_param": fit_flat_parameters,
        "torch.distributed.fsdp._debug_utils": fit_profiler,
        "torch._dynamo.trace_rules": fit_compiler,
    }
)
