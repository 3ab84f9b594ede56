"""A stand-in for ``torch._library.custom_ops``: operators by name, one table of them, as PyTorch keeps it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from weakref import WeakValueDictionary

NAME = "torch._library.custom_ops"


class Library:
    """What is registered for one operator; a second registration is an error, as in earlier versions."""

    def __init__(self, ns):
        self.ns, self.kernels, self.rules, self.m = ns, {}, {}, "a module in C++"
        self._op_impls = set()

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False):
        assert self.m is not None, "Library object has been destroyed"
        name = op_name if isinstance(op_name, str) else op_name._schema.name
        key = f"{self.ns}/{name.split('::')[-1]}/{dispatch_key}"
        if key in self._op_impls:
            raise RuntimeError(f"there's already a kernel registered for {key}")
        self._op_impls.add(key)
        self.kernels[dispatch_key] = fn

    def _register_torch_dispatch_rule(self, op_name, kind, fn):
        if kind in self.rules:
            raise RuntimeError(f"already registered: {op_name} {kind}")
        self.rules[kind] = fn


class Overload:
    """What the dispatcher calls below a cast."""

    def __init__(self, name):
        self._schema = SimpleNamespace(name=name)

    def __call__(self, x):
        return "as it is", x


class Definition:
    """PyTorch's `CustomOpDef`: what is called is found among its attributes at every call."""

    OPDEFS, OPDEF_TO_LIB, held = WeakValueDictionary(), {}, []

    def __init__(self, namespace, name, schema, fn, tags=None):
        self._namespace, self._name, self._schema = namespace, name, schema
        self._tags = [] if tags is None else list(tags)
        self._init_fn, self._abstract_fn = fn, None
        self._backend_fns, self._torch_dispatch_fns = {}, {}
        if former := self.OPDEF_TO_LIB.pop(self._qualname, None):
            former.m = None
        self._lib = self.OPDEF_TO_LIB[self._qualname] = Library(namespace)
        self._setup_context_fn = self._backward_fn = None
        self._autocast_dtype = {}
        self._opoverload = Overload(self._qualname)

        def fake(*args):
            return self._abstract_fn(*args)

        self._lib.impl(self._opoverload, fake, "Meta")
        self.OPDEFS[self._qualname] = self
        self.held.append(self)  # by the dispatcher

    @property
    def _qualname(self):
        return f"{self._namespace}::{self._name}"

    def register_kernel(self, device):
        def kernel(*args):
            return self._backend_fns[device](*args)

        def register(fn):
            if device not in self._backend_fns:
                self._lib.impl(self._name, kernel, device or "")
            self._backend_fns[device] = fn
            return fn

        return register

    def register_autograd(self, backward, setup_context=None):
        self._backward_fn, self._setup_context_fn = backward, setup_context

    def forward(self, ctx, inputs):
        if self._setup_context_fn:
            self._setup_context_fn(ctx=ctx, inputs=inputs)

    def backward(self, ctx, gradient):
        if self._backward_fn:
            return self._backward_fn(ctx, gradient)
        raise RuntimeError("no autograd formula")

    def register_autocast(self, device, dtype):
        if self._autocast_dtype.get(device) is None:
            self._autocast_dtype[device] = dtype
            self._lib.impl(self._name, lambda _, x: (dtype, x), f"Autocast{device}", with_keyset=True)

    def register_fake(self, fn):
        self._abstract_fn = fn

    def register_torch_dispatch(self, kind, fn):
        def rule(*args):
            return self._torch_dispatch_fns[kind](*args)

        if kind not in self._torch_dispatch_fns:
            self._lib._register_torch_dispatch_rule(self._name, kind, rule)
        self._torch_dispatch_fns[kind] = fn

    def __call__(self, *args, device=None):
        kernels = self.OPDEF_TO_LIB[self._qualname].kernels
        return kernels[device if device in kernels else ""](*args)


def install(monkeypatch):
    """Put it into `sys.modules` until the test is over; the module that is changed."""
    module = ModuleType(NAME)

    class CustomOpDef(Definition):
        OPDEFS, OPDEF_TO_LIB, held = WeakValueDictionary(), {}, []

        def __init__(self, *args):
            super().__init__(*args)

    def custom_op(name, schema="(Tensor x) -> Tensor", tags=None):
        def define(fn):
            made = CustomOpDef(*name.split("::"), schema, fn, tags)
            made.register_kernel(None)(fn)
            return made

        return define

    vars(module).update(CustomOpDef=CustomOpDef, custom_op=custom_op)
    vars(module).update(OPDEFS=CustomOpDef.OPDEFS, OPDEF_TO_LIB=CustomOpDef.OPDEF_TO_LIB)
    monkeypatch.setitem(sys.modules, NAME, module)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # which has no operators of these names
    return module
