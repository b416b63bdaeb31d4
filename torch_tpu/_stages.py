# SPDX-License-Identifier: Apache-2.0
"""Graphs of torch.compile that compute on both the CPU and the tpu: stages, each on one of them.

An optimizer's step is such a graph: its count of steps and what follows from it are tensors on the CPU. Those are
computed there, operator by operator; all the rest is programs.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.passes.split_module import split_module


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return [value for value in values if isinstance(value, torch.Tensor)]


def _on_cpu(node: torch.fx.Node) -> bool:
    return any(value.device.type == "cpu" for value in _tensors(node)) or _is_item(node)


def _is_item(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.aten._local_scalar_dense.default


def _draws(node: torch.fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _writes(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def uses_the_cpu(graph: torch.fx.GraphModule) -> bool:
    """Whether a node computes on the CPU with what changes from call to call: its value is no part of a program."""
    changing: set[torch.fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            if _on_cpu(node):
                changing.add(node)
        elif any(used in changing for used in node.all_input_nodes):
            if node.op == "output" or _on_cpu(node):
                return True
        elif _on_cpu(node) and (_draws(node) or _is_item(node)):
            return True
    return False


def _numbered(graph: torch.fx.GraphModule) -> dict[torch.fx.Node, int]:
    """The stage of each node that computes; even ones are the CPU's. A node comes no earlier than what it uses."""
    stages: dict[torch.fx.Node, int] = {}
    latest = drawn = 0  # stages: of any node so far; of the last random one on the CPU, whose order counts
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        stage = max((stages.get(used, 0) for used in node.all_input_nodes), default=0)
        if _writes(node):
            stage = max(stage, latest)  # what comes before may read the old value
        if _on_cpu(node):
            stage = max(stage, drawn) if _draws(node) else stage
            stage += stage % 2
            drawn = stage if _draws(node) else drawn
        elif "val" not in node.meta or _tensors(node):
            stage += 1 - stage % 2
        stages[node] = stage
        latest = max(latest, stage)
    return stages


class _OnTpu(torch.nn.Module):
    """A stage of the tpu. Tensors that come from the CPU are sent there."""

    def __init__(self, run: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, *inputs: Any) -> Any:
        kinds = [x.device.type if isinstance(x, torch.Tensor) else None for x in inputs]
        device = next((x.device for x, kind in zip(inputs, kinds, strict=True) if kind == "tpu"), "tpu")
        return self.run([x.to(device) if kind == "cpu" else x for x, kind in zip(inputs, kinds, strict=True)])


def staged(
    graph: torch.fx.GraphModule, compiled: Callable[[torch.fx.GraphModule], Callable[[list[Any]], Any]]
) -> torch.fx.GraphModule:
    """The graph as a module of stages, those of the tpu as `compiled` makes them."""
    numbered = _numbered(graph)
    ends = {"placeholder": -1, "get_attr": -1, "output": len(graph.graph.nodes)}
    ordered = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in sorted(graph.graph.nodes, key=lambda node: numbered.get(node, ends.get(node.op, 0))):
        copies[node] = ordered.node_copy(node, copies.__getitem__)
    stages = {copies[node]: stage for node, stage in numbered.items()}
    whole = torch.fx.GraphModule(graph, ordered)
    whole = split_module(whole, whole, stages.__getitem__, keep_original_order=True, tuple_return=True)
    for stage in set(stages.values()):
        if stage % 2:
            name = f"submod_{stage}"
            setattr(whole, name, _OnTpu(compiled(getattr(whole, name))))
    return whole
