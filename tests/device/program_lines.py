# SPDX-License-Identifier: Apache-2.0
"""Lines of random programs that make a tensor: each function draws one, and tells whether it fitted."""

import itertools
import re
from collections.abc import Callable

import torch
from programs import DTYPES, Builder, is_float, key

Line = Callable[[Builder], bool]


class Lines(list[Line]):
    """A line is in it as often as its weight says."""

    def add(self, weight: int = 1) -> Callable[[Line], Line]:
        def keep(f: Line) -> Line:
            self.extend([f] * weight)
            return f

        return keep


LINES = Lines()


def fill(form: str, *arguments: object) -> str:
    """Like str.format; {} and {0} may be mixed."""
    count = itertools.count()
    return re.sub(r"\{\}", lambda _: f"{{{next(count)}}}", form).format(*arguments)


def with_dims(n: int) -> Callable[[torch.Tensor], bool]:
    return lambda x: x.dim() >= n and x.numel() > 0


def number(b: Builder, x: torch.Tensor) -> str:
    """A Python number for arithmetic with x."""
    if x.dtype == torch.uint8 or not is_float(x):
        return str(b.r.randint(1, 3))
    return b.r.choice(["2", "-1", "3.0", "-2.0"])


# ---- views


def view_of(b: Builder, i: int) -> str | None:
    """An expression for a view of x<i>."""
    r, x, name = b.r, b.values[i], f"x{i}"
    kind = r.choice(
        [
            "slice",
            "slice",
            "select",
            "transpose",
            "permute",
            "expand",
            "reshape",
            "squeeze",
            "unfold",
            "as_strided",
            "diagonal",
        ]
    )
    d = r.randrange(x.dim()) if x.dim() else 0
    if kind == "expand":
        if x.dim() > 3:
            return None
        front = [2] if r.random() < 0.4 else []
        return f"{name}.expand({front + [r.randint(2, 3) if s == 1 else -1 for s in x.shape]})"
    if kind == "reshape":
        n = x.numel()
        sizes = [a for a in (1, 2, 3, 4, 6, 12) if n and n % a == 0]
        if not sizes:
            return None
        a = r.choice(sizes)
        return r.choice([f"{name}.reshape({a}, {n // a})", f"{name}.view({a}, {n // a})", f"{name}.reshape(-1)"])
    if kind == "squeeze":
        return r.choice([f"{name}.unsqueeze({r.randint(0, x.dim())})", f"{name}.squeeze()"])
    if kind == "as_strided":
        room = x.untyped_storage().nbytes() // x.element_size()
        sizes = [r.randint(1, 3) for _ in range(r.randint(1, 3))]
        strides = [r.choice([1, 2, 4]) for _ in sizes]
        span = sum((s - 1) * t for s, t in zip(sizes, strides, strict=True)) + 1
        return f"{name}.as_strided({sizes}, {strides}, {r.randint(0, room - span)})" if span <= room else None
    if x.dim() == 0 or x.numel() == 0:
        return None
    if kind == "slice":
        start = r.randint(0, x.size(d) - 1)
        stop = r.randint(start if r.random() < 0.1 else start + 1, x.size(d))
        step = r.choice(["", "", ":2"])
        return f"{name}[{':, ' * d}{start}:{stop}{step}]"
    if kind == "select":
        return f"{name}.select({d}, {r.randint(-x.size(d), x.size(d) - 1)})"
    if kind == "unfold":
        return f"{name}.unfold({d}, {r.randint(1, x.size(d))}, {r.randint(1, 2)})"
    if x.dim() < 2:
        return None
    if kind == "transpose":
        return f"{name}.transpose({d}, {r.randrange(x.dim())})"
    if kind == "diagonal":
        return f"{name}.diagonal({r.choice([-1, 0, 0, 1])})"
    return f"{name}.permute({r.sample(range(x.dim()), x.dim())})"


@LINES.add(12)
def view(b: Builder) -> bool:
    i = b.pick(kinds="exact smooth opaque")
    if i is None or (text := view_of(b, i)) is None:
        return False
    return b.make(text, [i], moves=True)


@LINES.add(2)
def view_dtype(b: Builder) -> bool:
    same = {
        1: [torch.uint8, torch.int8],
        2: [torch.int16],
        4: [torch.int32, torch.float32],
        8: [torch.int64, torch.float64],
    }
    i = b.pick(lambda x: key(x) not in b.rounded, kinds="exact opaque")
    # The signs of zeros in complex arithmetic are anyone's; XLA:CPU flushes halves that are denormal inside a graph.
    if i is None or b.values[i].dtype in (torch.bool, torch.bfloat16, torch.float16) or b.values[i].is_complex():
        return False
    x = b.values[i]
    wanted = b.r.choice(same.get(x.element_size(), [x.dtype]))
    if b.r.random() < 0.3:
        wanted = b.r.choice([torch.uint8, torch.int16, torch.int32, torch.float32])
    if not b.make(f"x{i}.view({wanted})", [i], moves=True):
        return False
    b.seen_as_bits.add(key(x))
    return True


@LINES.add()
def view_complex(b: Builder) -> bool:
    i = b.pick(lambda x: x.is_complex())
    if i is None:
        return False
    form = b.r.choice(
        ["x{}.real", "x{}.imag", "x{}.conj()", "torch.view_as_real(x{})", "torch.view_as_real(x{}.resolve_conj())"]
    )
    return b.make(fill(form, i), [i], moves=True)


# ---- pointwise


def second(b: Builder, i: int) -> int | None:
    """A tensor that broadcasts with x<i> and makes no complex halves with it, which StableHLO does not have."""
    shape = b.values[i].shape

    def fits(y: torch.Tensor) -> bool:
        return torch.result_type(b.values[i], y) != torch.complex32 and all(
            s == t or 1 in (s, t) for s, t in zip(reversed(shape), reversed(y.shape), strict=False)
        )

    return b.pick(fits)


@LINES.add(6)
def binary(b: Builder) -> bool:
    i = b.pick()
    j = None if i is None else second(b, i)
    if i is None or j is None:
        return False
    form = b.r.choice(
        ["x{} + x{}", "x{} - x{}", "x{} * x{}", "torch.maximum(x{}, x{})", "torch.add(x{}, x{}, alpha=2)",
         "torch.fmin(x{}, x{})", "torch.rsub(x{}, x{})"]
    )  # fmt: skip
    return b.make(fill(form, i, j), [i, j])


@LINES.add(3)
def compare(b: Builder) -> bool:
    i = b.pick(kinds="exact")
    j = None if i is None else second(b, i)
    if i is None or j is None or b.kind(b.values[j]) != "exact":
        return False
    form = b.r.choice(
        ["x{} == x{}", "x{} < x{}", "x{} >= x{}", "torch.logical_and(x{}, x{})", "torch.logical_xor(x{}, x{})", "x{} != x{}",
         "torch.isclose(x{0}, x{0}.clone())"]
    )  # fmt: skip
    return b.make(fill(form, i, j), [i, j])


@LINES.add(2)
def bitwise(b: Builder) -> bool:
    i = b.pick(lambda x: not is_float(x))
    if i is None:
        return False
    form = b.r.choice(
        ["~x{0}", "x{0} & 3", "x{0} | 1", "x{0} ^ 2", "x{0} << 1", "x{0} >> 1", "x{0} % 3", "x{0} // 2", "x{0} % -2"]
    )
    if b.values[i].dtype == torch.bool:
        form = b.r.choice(["~x{0}", "x{0} & x{0}", "x{0} ^ True"])
    return b.make(fill(form, i), [i])


@LINES.add(4)
def with_number(b: Builder) -> bool:
    i = b.pick()
    if i is None:
        return False
    form = b.r.choice(["x{} + {}", "x{} * {}", "{1} - x{0}", "torch.add(x{}, {}, alpha=3)"])
    return b.make(fill(form, i, number(b, b.values[i])), [i])


@LINES.add(4)
def unary(b: Builder) -> bool:
    i = b.pick()
    if i is None:
        return False
    forms = ["-x{}", "x{}.abs()", "torch.square(x{})", "x{}.clone()", "x{}.contiguous()", "torch.zeros_like(x{})"]
    if not b.values[i].is_complex():
        forms += ["x{}.relu()", "x{}.clamp(-2, 2)", "F.hardtanh(x{})", "torch.clamp_min(x{}, 1)"]
        if b.kind(b.values[i]) == "exact":
            forms += [
                "x{}.sign()",
                "x{}.logical_not()",
                "torch.round(x{})",
                "torch.floor(x{})",
                "torch.nan_to_num(x{})",
            ]
    return b.make(fill(b.r.choice(forms), i), [i])


@LINES.add(2)
def smooth(b: Builder) -> bool:
    i = b.pick(lambda x: is_float(x) and not x.is_complex() and x.numel() > 0)
    if i is None:
        return False
    forms = ["x{}.sigmoid()", "x{}.tanh()", "x{}.sin()", "x{}.clamp(-3, 3).exp()", "x{}.abs().add(1).sqrt()", "x{0} / (x{0}.abs() + 1)",
             "F.gelu(x{})", "x{}.erf()", "torch.log1p(x{}.abs())", "F.silu(x{})", "F.softplus(x{})", "torch.lerp(x{0}, x{0} * 2, 0.25)"]  # fmt: skip
    if b.values[i].dim() > 0:
        forms += [
            "x{}.softmax(-1)",
            "torch.log_softmax(x{}, 0)",
            "F.layer_norm(x{0}, x{0}.shape[-1:])",
            "torch.logsumexp(x{}, -1)",
        ]
    return b.make(fill(b.r.choice(forms), i), [i], rounds=True)


@LINES.add(3)
def cast(b: Builder) -> bool:
    i = b.pick()
    if i is None:
        return False
    x, dtype = b.values[i], b.r.choice(DTYPES)
    if x.is_complex() and not dtype.is_complex:
        return False
    discrete = not (dtype.is_floating_point or dtype.is_complex)
    if discrete and is_float(x) and (b.kind(x) != "exact" or (dtype == torch.uint8 and bool((x < 0).any()))):
        return False
    form = b.r.choice(["x{}.to({})", "x{}.to({}, copy=True)", "torch.empty_like(x{0}, dtype={1}).copy_(x{0})"])
    return b.make(fill(form, i, dtype), [i], rounds=not discrete and b.kind(x) == "smooth")


@LINES.add(3)
def where(b: Builder) -> bool:
    i = b.pick()
    j = None if i is None else second(b, i)
    if i is None or j is None:
        return False
    k = b.pick(lambda x: x.dtype == torch.bool and x.shape == b.values[i].shape)
    if k is None:
        if b.values[i].is_complex() or b.kind(b.values[i]) != "exact":
            return False
        return b.make(f"torch.where(x{i} > 0, x{i}, x{j})", [i, j])
    form = b.r.choice(["torch.where(x{2}, x{0}, x{1})", "x{0}.masked_fill(x{2}, 2)", "torch.where(x{2}, x{0}, 1)"])
    return b.make(fill(form, i, j, k), [i, j, k])


# ---- reductions, products


@LINES.add(5)
def reduce(b: Builder) -> bool:
    i = b.pick(with_dims(1))
    if i is None:
        return False
    x, keep = b.values[i], b.r.choice(["", ", keepdim=True"])
    d = b.r.randrange(x.dim())
    forms = [f"x{i}.sum({d}{keep})", f"x{i}.sum()", f"x{i}.sum(dtype=torch.float32)", f"x{i}.cumsum({d})"]
    if x.is_complex():
        return b.make(b.r.choice(forms[:2]), [i])
    forms += [f"x{i}.amax({d}{keep})", f"x{i}.amin({d}{keep})", f"x{i}.max()"]
    forms += [
        f"torch.cummax(x{i}, {d}).values",
        f"torch.sort(x{i}, {d}, stable=True).values",
        f"x{i}.topk(1, {d}).values",
    ]
    if b.kind(x) == "exact":
        forms += [f"x{i}.any({d}{keep})", f"x{i}.all({d}{keep})", f"x{i}.argmax({d})", f"x{i}.argmin({d}{keep})", f"x{i}.count_nonzero({d})",
                  f"torch.sort(x{i}, {d}, stable=True).indices", f"x{i}.max({d}).indices", f"torch.argsort(x{i}, {d}, descending=True, stable=True)",
                  f"x{i}.prod({d}{keep})"]  # fmt: skip
    if is_float(x):
        forms += [f"x{i}.mean({d}{keep})", f"x{i}.var({d}, correction=0)", f"torch.linalg.vector_norm(x{i}, 1, {d})"]
    text = b.r.choice(forms)
    return b.make(text, [i], rounds=any(s in text for s in ("mean", "var")))


@LINES.add(4)
def product(b: Builder) -> bool:
    i = b.pick(lambda x: x.dim() >= 1 and x.numel() > 0 and x.dtype != torch.bool)
    if i is None:
        return False
    x = b.values[i]
    j = b.pick(lambda y: y.dim() >= 1 and y.size(0 if y.dim() == 1 else -2) == x.size(-1) and y.dtype != torch.bool)
    if j is None:
        j, other = i, f"x{i}.mT" if x.dim() > 1 else f"x{i}"
    else:
        other = f"x{j}" if b.values[j].dtype == x.dtype else f"x{j}.to(x{i}.dtype)"
        if b.values[j].is_complex() and not x.is_complex():
            return False
    forms = [f"x{i} @ {other}", f"torch.matmul(x{i}, {other})"]
    if x.dim() > 1 and b.values[j].dim() > 1:
        forms.append(
            f"F.linear(x{i}, {other}.mT)"
            if b.values[j].dim() == 2
            else f"torch.einsum('...ij,...jk->...ki', x{i}, {other})"
        )
    return b.make(b.r.choice(forms), [i, j])


@LINES.add(2)
def addmm(b: Builder) -> bool:
    i = b.pick(lambda x: x.dim() == 2 and x.numel() > 0 and x.dtype != torch.bool)
    if i is None:
        return False
    return b.make(f"torch.addmm(x{i}[:, :1], x{i}, x{i}.t(), beta=2, alpha=-1)", [i])


# ---- moving elements


@LINES.add(5)
def move(b: Builder) -> bool:
    i = b.pick(with_dims(1), kinds="exact smooth opaque")
    if i is None:
        return False
    x, r = b.values[i], b.r
    d = r.randrange(x.dim())
    n = x.size(d)
    picks = [r.randrange(n) for _ in range(r.randint(1, 3))]
    forms = [
        f"x{i}.flip({d})", f"x{i}.roll(1, {d})", f"x{i}.repeat_interleave(2, {d})", f"F.pad(x{i}, (1, 2))", f"torch.stack([x{i}, x{i}], {d})",
        f"x{i}.index_select({d}, torch.tensor({picks}, device=device))", f"x{i}[{':, ' * d}{picks}]", f"torch.cat([x{i}, x{i}.flip({d})], {d})",
        f"x{i}.tile(2)", f"torch.chunk(x{i}, 2, {d})[-1]", f"torch.unbind(x{i}, {d})[0]", f"F.pad(x{i}, (-1, 1))",
        f"x{i}.gather({d}, torch.zeros_like(x{i}, dtype=torch.int64))",
    ]  # fmt: skip
    if x.dim() > 1:
        forms += [f"x{i}.tril()", f"x{i}.triu(1)", f"x{i}[{picks[:1]}, 0]", f"x{i}.mT.contiguous()"]
    else:
        forms += [f"torch.diag_embed(x{i})", f"x{i}.diag(1)"]
    return b.make(r.choice(forms), [i], moves=True)


@LINES.add(2)
def join(b: Builder) -> bool:
    i = b.pick(with_dims(1))
    if i is None:
        return False
    shape = b.values[i].shape
    d = b.r.randrange(len(shape))
    j = b.pick(lambda y: y.dim() == len(shape) and all(y.size(k) == s for k, s in enumerate(shape) if k != d))
    return j is not None and b.make(f"torch.cat([x{i}, x{j}], {d})", [i, j])


@LINES.add(2)
def lookup(b: Builder) -> bool:
    i = b.pick(lambda x: x.dtype == torch.int64 and x.dim() > 0 and 0 < x.numel() < 20)
    j = b.pick(lambda x: x.dim() == 2 and x.size(0) > 1)
    if i is None:
        return False
    forms = [f"F.one_hot(x{i}.clamp(0, 3), 4)", f"torch.bucketize(x{i}, torch.tensor([-1, 0, 2], device=device))"]
    if j is not None:
        n = b.values[j].size(0)
        forms += [f"F.embedding(x{i} % {n}, x{j})", f"x{j}[x{i} % {n}]", f"x{j}[x{i} % {n}, 0]"]
    return b.make(b.r.choice(forms), [i] if j is None else [i, j], moves=True)


@LINES.add(2)
def window(b: Builder) -> bool:
    """Convolutions and pools."""
    i = b.pick(lambda x: x.dim() == 3 and x.dtype in (torch.float32, torch.float64, torch.bfloat16) and x.numel() > 0)
    if i is None:
        return False
    forms = ["F.max_pool1d(x{}, 2, stride=1)", "F.conv1d(x{0}, x{0}[:, :, :2])", "F.interpolate(x{}, scale_factor=2)", "F.max_pool1d(x{}, 2, padding=1)",
             "F.conv1d(x{0}, x{0}[:, :, :1], padding=1)", "F.conv_transpose1d(x{0}, x{0}.transpose(0, 1)[:, :, :2].reshape(x{0}.size(1), -1, 1))"]  # fmt: skip
    return b.make(fill(b.r.choice(forms), i), [i])


@LINES.add(2)
def rearrange(b: Builder) -> bool:
    i = b.pick(with_dims(1), kinds="exact smooth opaque")
    if i is None:
        return False
    x, r = b.values[i], b.r
    d = r.randrange(x.dim())
    forms = [f"torch.take(x{i}, torch.tensor([0, {x.numel() - 1}, 0], device=device))", f"x{i}[None, ..., 0]", f"x{i}[..., ::2]", f"x{i}[-1:]",
             f"torch.split(x{i}, 2, {d})[-1]", f"x{i}.detach()", f"x{i}.data", f"torch.take_along_dim(x{i}, torch.zeros_like(x{i}, dtype=torch.int64), {d})",
             f"torch.atleast_3d(x{i})", f"x{i}.flip({list(range(x.dim()))})", f"x{i}.broadcast_to((2,) + x{i}.shape)", f"torch.movedim(x{i}, 0, -1)",
             f"torch.tensor_split(x{i}, 3, {d})[1]", f"x{i}.narrow({d}, {r.randrange(x.size(d))}, 1)", f"torch.vstack([x{i}, x{i}])"]  # fmt: skip
    if x.dim() > 1:
        forms += [
            f"torch.rot90(x{i})",
            f"x{i}.flatten()",
            f"x{i}.adjoint()",
            f"torch.block_diag(x{i}, x{i})" if x.dim() == 2 else f"x{i}.flatten(1)",
        ]
    return b.make(r.choice(forms), [i], moves=True)


@LINES.add(2)
def arithmetic_more(b: Builder) -> bool:
    i = b.pick(with_dims(1))
    if i is None:
        return False
    x = b.values[i]
    d = b.r.randrange(x.dim())
    forms = [
        f"torch.diff(x{i}, dim={d})",
        f"torch.outer(x{i}.flatten()[:4], x{i}.flatten()[:3])",
        f"torch.kron(x{i}, x{i}[:1])",
    ]
    if x.dtype == torch.bool:
        forms = forms[:1]
    elif not x.is_complex():
        forms += [f"x{i}.cumprod({d})", f"torch.aminmax(x{i}, dim={d}).max", f"x{i}.new_zeros(x{i}.shape).scatter_reduce_({d}, torch.zeros_like(x{i}, dtype=torch.int64), x{i}, 'amax')",
                  f"torch.median(x{i}, {d}).values", f"x{i}.kthvalue(1, {d}).values", f"torch.clamp(x{i}, max=x{i}.mT.reshape(x{i}.shape))"]  # fmt: skip
    return b.make(b.r.choice(forms), [i])
