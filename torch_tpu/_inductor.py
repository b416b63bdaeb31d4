# SPDX-License-Identifier: Apache-2.0
"""What a plain torch.compile() says on tensors of the tpu: Inductor does not generate code for it, backend="tpu" does.

torch 2.13 would send the device "tpu" to its Pallas code generator, which fails late and obscurely. Inductor's public
registration comes first where there is one; it is made when Inductor is imported, so that `import torch` does not pay
for Inductor.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn

_COMMON = "torch._inductor.codegen.common"


class _Refuse:
    """Stands for each of Inductor's code generators."""

    supports_caching = False

    def __init__(self, *args: Any) -> None:
        self.create()

    @staticmethod
    def create(*args: Any) -> NoReturn:
        raise RuntimeError('torch.compile: Inductor generates no code for the device tpu. Pass backend="tpu".')


def _register(common: types.ModuleType) -> None:
    common.register_backend_for_device("tpu", _Refuse, _Refuse, _Refuse, _Refuse)


class _WhenImported(importlib.abc.MetaPathFinder):
    """Waits for one module, registers once that is loaded, and is gone."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _COMMON:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                _register(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Registers with Inductor, now if it is loaded, else as soon as it is."""
    if _COMMON in sys.modules:
        _register(sys.modules[_COMMON])
    else:
        sys.meta_path.insert(0, _WhenImported())
