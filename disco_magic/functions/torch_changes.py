"""What is changed in PyTorch, if it is imported, as long as any session runs."""

from __future__ import annotations

from typing import Final

from disco_magic.functions.imported import Libraries
from disco_magic.functions.torch_storage import fit_flat_parameters, fit_storage
from disco_magic.functions.torch_worlds import HOME, fit_worlds

PYTORCH: Final = Libraries(
    {
        HOME: fit_worlds,
        "torch.storage": fit_storage,
        "torch.distributed.fsdp._flat_param": fit_flat_parameters,
    }
)
