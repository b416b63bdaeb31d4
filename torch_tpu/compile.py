# SPDX-License-Identifier: Apache-2.0
"""The backend "tpu" of torch.compile: one FX graph becomes one program.

AOTAutograd makes graphs of ATen operators, forward and backward; the extension runs each once on placeholders, through
the same dispatcher as eager code, and what that records is the program. There is no second set of lowerings.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import (
    DeviceInterface,
    get_registered_device_interfaces,
    register_interface_for_device,
)
from torch._functorch.partitioners import min_cut_rematerialization_partition

from torch_tpu import _C, _stages, decompositions
from torch_tpu import tpu as device_module


def _program(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """Compiles one graph; the result takes its inputs as a list, which it may empty, so that they die early."""
    if _stages.uses_the_cpu(graph):
        whole = _stages.staged(graph, _C.CompiledFunction)
        run: Callable[[list[Any]], Any] = lambda inputs: whole(*inputs)  # noqa: E731
    else:
        run = _C.CompiledFunction(graph)

    def call(inputs: list[Any]) -> Any:
        return run(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def tpu(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles `graph` for the tpu; what `torch.compile(model, backend="tpu")` calls.

    Raises TypeError for options: there are none. The inputs that the graph changes are written in place.
    """
    if (mode := options.pop("mode", None)) and mode != "default":
        raise TypeError(f'torch.compile: backend "tpu" has no mode {mode!r}. Leave `mode` out.')
    options = {**(options.pop("options", None) or {}), **options}
    if options:
        raise TypeError(f'torch.compile: backend "tpu" has no options, got {", ".join(sorted(options))}.')
    compiler = aot_autograd(
        fw_compiler=_program,
        bw_compiler=_program,
        inference_compiler=_program,
        decompositions=decompositions.table(),
        # Writes to inputs are part of the graph: a cache or a running mean is updated in place, its buffer donated.
        keep_inference_input_mutations=True,
        # Saves what the backward needs and computes cheap operators again; never random ones, whose values are saved.
        partition_fn=min_cut_rematerialization_partition,
    )
    return compiler(graph, example_inputs)


class _Interface(DeviceInterface):
    """What Dynamo asks of a device while it traces."""

    device = device_module.device
    Event = device_module.Event
    Stream = device_module.Stream

    class Worker:
        """The same questions, from a worker process."""

        set_device = staticmethod(device_module.set_device)
        current_device = staticmethod(device_module.current_device)
        get_device_properties = staticmethod(device_module.get_device_properties)

    current_device = staticmethod(device_module.current_device)
    set_device = staticmethod(device_module.set_device)
    exchange_device = staticmethod(device_module._exchange_device)
    maybe_exchange_device = staticmethod(device_module._maybe_exchange_device)
    device_count = staticmethod(device_module.device_count)
    is_available = staticmethod(device_module.is_available)
    stream = staticmethod(device_module.stream)
    current_stream = staticmethod(device_module.current_stream)
    set_stream = staticmethod(device_module.set_stream)
    synchronize = staticmethod(device_module.synchronize)
    get_compute_capability = staticmethod(device_module.get_device_capability)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Whether bfloat16 can be computed with."""
        return True


# Torch registers an interface of its own for the name "tpu" when the list is first asked for; ours comes after.
get_registered_device_interfaces()
register_interface_for_device("tpu", _Interface)
