# SPDX-License-Identifier: Apache-2.0
"""The same models in plain JAX, with the weights of the PyTorch ones: a dict from their names to arrays."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from models import BLOCKS, HEADS, RATE, training

Weights = dict[str, jax.Array]


def weights(model: Any) -> Weights:
    """Matrices of linear layers as [in, out], as JAX code has them."""
    found = {}
    for name, value in model.state_dict().items():
        array = value.detach().numpy()
        is_linear = array.ndim == 2 and "embeddings" not in name and name.split(".")[0] not in ("tokens", "places")
        found[name] = jnp.asarray(array.T if is_linear else array)
    return found


def linear(w: Weights, name: str, x: jax.Array) -> jax.Array:
    """x @ weight + bias."""
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def normalised(w: Weights, name: str, x: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """Layer norm over the last dimension."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Softmax attention on [batch, time, heads, width]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(np.float32)
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


gelu = functools.partial(jax.nn.gelu, approximate=False)


def mlp(w: Weights, x: jax.Array) -> jax.Array:
    """Three linear layers."""
    return linear(w, "4", gelu(linear(w, "2", gelu(linear(w, "0", x)))))


def gpt(w: Weights, x: jax.Array) -> jax.Array:
    """A small decoder."""
    batch, time = x.shape
    h = w["tokens.weight"][x] + w["places.weight"]
    mask = jnp.tril(jnp.ones((time, time), bool))
    for i in range(BLOCKS):
        name = f"blocks.{i}"
        qkv = linear(w, f"{name}.qkv", normalised(w, f"{name}.norm1", h)).reshape(batch, time, 3, HEADS, -1)
        attended = attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], mask)
        h = h + linear(w, f"{name}.out", attended.reshape(h.shape))
        h = h + linear(w, f"{name}.down", gelu(linear(w, f"{name}.up", normalised(w, f"{name}.norm2", h))))
    return linear(w, "head", normalised(w, "norm", h))


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
    """The mean over all places."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1)
    return -chosen.mean()


def adamw(
    w: Weights, g: Weights, m: Weights, v: Weights, step: jax.Array, rate: float
) -> tuple[Weights, Weights, Weights]:
    """One update with PyTorch's defaults."""
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    one, two = 1 - 0.9**step, 1 - 0.999**step

    def moved(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return w * (1 - rate * 0.01) - rate / one * m / (jnp.sqrt(v) / jnp.sqrt(two) + 1e-8)

    return jax.tree.map(moved, w, m, v), m, v


def program_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The jitted training step and its first arguments: the state, which is donated, then inputs and targets."""
    model, x, y = training(name)
    forward = {"mlp": mlp, "gpt": gpt}[name]
    w = weights(model)
    state = w, jax.tree.map(jnp.zeros_like, w), jax.tree.map(jnp.zeros_like, w), jnp.zeros(())

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        w, m, v, count = state
        loss, g = jax.value_and_grad(lambda w: cross_entropy(forward(w, x), y))(w)
        return (*adamw(w, g, m, v, count + 1, RATE[name]), count + 1), loss

    return step, (
        state,
        jnp.asarray(x.numpy().astype(np.int32) if name == "gpt" else x.numpy()),
        jnp.asarray(y.numpy()),
    )


def step_of(name: str) -> Callable[[], jax.Array]:
    """One training step, which keeps its state."""
    step, (state, x, y) = program_of(name)

    def run() -> jax.Array:
        nonlocal state
        state, loss = step(state, x, y)
        return loss

    return run


def bert(w: Weights, ids: jax.Array, mask: jax.Array, layers: int = 6, heads: int = 12) -> jax.Array:
    """The last hidden state of all-MiniLM-L6-v2."""
    norm = functools.partial(normalised, epsilon=1e-12)
    x = (
        w["embeddings.word_embeddings.weight"][ids]
        + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        + w["embeddings.token_type_embeddings.weight"][0]
    )
    x = norm(w, "embeddings.LayerNorm", x)
    for i in range(layers):
        name = f"encoder.layer.{i}"
        q, k, v = (
            linear(w, f"{name}.attention.self.{part}", x).reshape(*ids.shape, heads, -1)
            for part in ("query", "key", "value")
        )
        attended = attention(q, k, v, mask[:, None, None, :] != 0).reshape(x.shape)
        x = norm(w, f"{name}.attention.output.LayerNorm", x + linear(w, f"{name}.attention.output.dense", attended))
        inner = gelu(linear(w, f"{name}.intermediate.dense", x))
        x = norm(w, f"{name}.output.LayerNorm", x + linear(w, f"{name}.output.dense", inner))
    return x
