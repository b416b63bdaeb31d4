# SPDX-License-Identifier: Apache-2.0
"""Lines of random programs that write: in place, into parts, with out=; and those whose shapes depend on values."""

import torch
from program_lines import Lines, fill, number, second, with_dims
from programs import Builder, is_float, key, overlaps_itself

LINES = Lines()


@LINES.add(5)
def write_number(b: Builder) -> bool:
    i = b.pick()
    if i is None:
        return False
    x = b.values[i]
    forms = ["x{}.fill_({})", "x{}.zero_()", "x{}[...] = {}"]
    if x.dtype != torch.bool:
        forms += ["x{}.add_({})", "x{}.mul_({})", "x{} += {}", "x{}.sub_({})", "x{}.neg_()", "x{}.mul_(x{0})"]
        if not is_float(x):
            forms += ["x{} <<= 1", "x{} >>= 1", "x{} |= 1", "x{} %= 3", "x{} //= 2"]
        if not x.is_complex():
            forms += ["x{}.clamp_(-1, 1)", "x{}.abs_()", "x{}.relu_()", "x{0}.masked_fill_(x{0} > 0, {1})"]
            if b.kind(x) != "exact":
                forms.pop()
    return b.write(fill(b.r.choice(forms), i, number(b, x)), i, [i])


@LINES.add(5)
def write_tensor(b: Builder) -> bool:
    i = b.pick(kinds="exact smooth")
    if i is None:
        return False
    x = b.values[i]
    j = b.pick(
        lambda y: (
            y.dim() <= x.dim() and all(s in (1, t) for s, t in zip(reversed(y.shape), reversed(x.shape), strict=False))
        )
    )
    if j is None or not fits_in(b, j, x):
        return False
    forms = ["x{}.copy_(x{})", "x{}[...] = x{}"]
    if x.dtype != torch.bool and torch.can_cast(b.values[j].dtype, x.dtype):
        forms += ["x{}.add_(x{})", "x{}.sub_(x{}, alpha=2)", "x{}.mul_(x{})", "x{} -= x{}"]
        if is_float(x) and is_float(b.values[j]) and x.dtype == b.values[j].dtype:
            forms += ["x{0}.addcmul_(x{1}, x{1}, value=2)", "torch._foreach_add_([x{}], [x{}])"]
    return b.write(fill(b.r.choice(forms), i, j), i, [i, j])


def fits_in(b: Builder, j: int, x: torch.Tensor) -> bool:
    """Whether x can hold the values of x<j> in a way that C++ defines."""
    y = b.values[j]
    if y.is_complex() and not x.is_complex():
        return False
    if is_float(x) or not is_float(y):
        return True
    return b.kind(y) == "exact" and not (x.dtype == torch.uint8 and bool((y < 0).any()))


@LINES.add(6)
def write_part(b: Builder) -> bool:
    """Slices, indices, masks."""
    i = b.pick(with_dims(1))
    if i is None:
        return False
    x, r = b.values[i], b.r
    d, value = r.randrange(x.dim()), number(b, x)
    n = x.size(d)
    picks = sorted(r.sample(range(n), r.randint(1, min(n, 2))))
    index = f"torch.tensor({picks}, device=device)"
    lead = ":, " * d
    part = f"x{i}[{lead}{picks[0]}:{picks[-1] + 1}]"
    forms = [f"{part} = {value}", f"x{i}[{lead}{picks}] = {value}", f"x{i}.select({d}, {picks[0]}).fill_({value})", f"x{i}.index_fill_({d}, {index}, {value})",
             f"x{i}[{lead}{index}] = x{i}[{lead}{index}].flip({d})"]  # fmt: skip
    if x.dtype != torch.bool:
        forms += [f"{part} += {value}", f"{part}.mul_({value})", f"x{i}.index_add_({d}, {index}, torch.ones_like(x{i}.index_select({d}, {index})))",
                  f"x{i}[{lead}{picks}] += {value}", f"x{i}.index_put_(({index[:-1]}, dtype=torch.int64),), torch.ones((), dtype=x{i}.dtype, device=device), accumulate=True)" if d == 0 else f"{part}.neg_()",
                  f"x{i}.scatter_({d}, torch.zeros_like(x{i}, dtype=torch.int64).narrow({d}, 0, 1), {value})",
                  f"x{i}.scatter_add_({d}, torch.zeros_like(x{i}, dtype=torch.int64), torch.ones_like(x{i}))"]  # fmt: skip
        if b.kind(x) == "exact" and not x.is_complex():
            forms += [f"x{i}[x{i} > 0] = {value}", f"x{i}.masked_fill_(x{i} == 1, {value})"]
    return b.write(r.choice(forms), i, [i])


@LINES.add(2)
def write_rows(b: Builder) -> bool:
    i = b.pick(with_dims(1))
    if i is None:
        return False
    x = b.values[i]
    j = b.pick(
        lambda y: (
            y.dtype == x.dtype and y.dim() == x.dim() and y.shape[1:] == x.shape[1:] and 0 < y.size(0) <= x.size(0)
        )
    )
    if j is None:
        return False
    index = f"torch.arange({b.values[j].size(0)}, device=device)"
    forms = [
        "x{0}.index_copy_(0, {2}, x{1})",
        "x{0}.index_add_(0, {2}, x{1})",
        "x{0}[{2}] = x{1}",
        "x{0}.index_put_(({2},), x{1}, accumulate=True)",
    ]
    if x.dtype == torch.bool:
        forms = forms[:1]
    return b.write(fill(b.r.choice(forms), i, j, index), i, [i, j])


@LINES.add(4)
def write_out(b: Builder) -> bool:
    i = b.pick()
    j = None if i is None else second(b, i)
    if i is None or j is None:
        return False
    x, y = b.values[i], b.values[j]
    shape, dtype = torch.broadcast_shapes(x.shape, y.shape), torch.result_type(x, y)
    k = b.pick(lambda o: o.shape == shape and o.dtype == dtype)
    if k is None or dtype == torch.bool:
        return False
    forms = ["torch.add(x{}, x{}, out=x{})", "torch.mul(x{}, x{}, out=x{})", "torch.sub(x{}, x{}, out=x{})"]
    if not dtype.is_complex:
        forms.append("torch.maximum(x{}, x{}, out=x{})")
    if x.dtype == y.dtype and x.shape == y.shape:
        forms.append("torch.where(x{0} == x{0}, x{0}, x{1}, out=x{2})")
    return b.write(fill(b.r.choice(forms), i, j, k), k, [i, j])


@LINES.add(1)
def write_smooth(b: Builder) -> bool:
    i = b.pick(lambda x: is_float(x) and not x.is_complex())
    if i is None:
        return False
    forms = ["x{}.sin_()", "x{}.sigmoid_()", "x{}.tanh_()", "x{}.lerp_(x{0}, 0.5)", "torch._foreach_mul_([x{}], 0.3)"]
    return b.write(fill(b.r.choice(forms), i), i, [i], rounds=True)


@LINES.add(2)
def write_metadata(b: Builder) -> bool:
    """Sizes and strides change in place. Not of inputs, whose metadata a compiled graph does not write."""
    first = len(b.program.parameters())
    i = b.pick(lambda x: any(x is y for y in b.values[first:]), kinds="exact smooth opaque")
    if i is None:
        return False
    x = b.values[i]
    forms = [f"x{i}.unsqueeze_({b.r.randint(0, x.dim())})", f"x{i}.squeeze_()"] if x.dim() < 4 else [f"x{i}.squeeze_()"]
    if x.dim() > 1:
        forms += [f"x{i}.transpose_(0, {x.dim() - 1})", f"x{i}.swapaxes_(-1, 0)"]
    return b.run(b.r.choice(forms))


@LINES.add(1)
def depends_on_values(b: Builder) -> bool:
    """Shapes that only the values tell."""
    i = b.pick(lambda x: x.dim() > 0 and not x.is_complex(), kinds="exact")
    if i is None:
        return False
    forms = ["x{0}[x{0} > 0]", "x{}.nonzero()", "x{}.unique()", "torch.masked_select(x{0}, x{0} == 1)"]
    writes = ["x{0}[x{0} < 0] *= 2", "x{0}[x{0} > 0] += 1"] if b.values[i].dtype != torch.bool else []
    form = b.r.choice(forms + writes)
    fits = b.make(fill(form, i), [i]) if form in forms else b.write(fill(form, i), i, [i])
    b.program.dynamic |= fits
    return fits


@LINES.add(2)
def new_out(b: Builder) -> bool:
    """out= that is resized, or has other strides."""
    i = b.pick(with_dims(1))
    j = None if i is None else second(b, i)
    if i is None or j is None:
        return False
    x, y = b.values[i], b.values[j]
    shape, dtype = torch.broadcast_shapes(x.shape, y.shape), torch.result_type(x, y)
    out = b.r.choice(
        [
            f"torch.empty(0, dtype={dtype}, device=device)",
            f"torch.empty({list(reversed(shape))}, dtype={dtype}, device=device).permute({list(reversed(range(len(shape))))})",
        ]
    )
    forms = ["torch.add(x{}, x{}, out={})", "torch.mul(x{}, x{}, out={})"]
    if not dtype.is_complex:
        forms.append("torch.maximum(x{}, x{}, out={})")
    return b.make(fill(b.r.choice(forms), i, j, out), [i, j])


@LINES.add(2)
def write_product(b: Builder) -> bool:
    i = b.pick(lambda x: x.dim() == 2 and x.dtype != torch.bool and x.numel() > 0)
    if i is None:
        return False
    x = b.values[i]
    n = x.size(0)
    k = b.pick(lambda o: o.shape == (n, n) and o.dtype == x.dtype and key(o) != key(x))
    if k is None:
        return False
    forms = [
        "torch.mm(x{0}, x{0}.t(), out=x{1})",
        "x{1}.addmm_(x{0}, x{0}.t())",
        "torch.matmul(x{0}, x{0}.mT, out=x{1})",
    ]
    return b.write(fill(b.r.choice(forms), i, k), k, [i])


@LINES.add(2)
def write_lists(b: Builder) -> bool:
    i = b.pick(lambda x: x.dtype != torch.bool)
    if i is None:
        return False
    x = b.values[i]
    j = b.pick(lambda y: y.dtype != torch.bool and y.dtype == x.dtype)
    if j is None or key(x) == key(b.values[j]) or overlaps_itself(b.values[j]):
        return False
    forms = [
        "torch._foreach_add_([x{}, x{}], 1)",
        "torch._foreach_mul_([x{}, x{}], [2, 3])",
        "torch._foreach_zero_([x{}, x{}])",
        "torch._foreach_neg_([x{}, x{}])",
    ]
    if key(x) in b.rounded or key(b.values[j]) in b.rounded:
        return False
    return b.write(fill(b.r.choice(forms), i, j), i, [i, j])


@LINES.add(2)
def write_statistics(b: Builder) -> bool:
    """Running statistics, whose write the schema does not show."""
    i = b.pick(lambda x: x.dim() in (2, 3) and x.dtype == torch.float32 and x.numel() > x.size(1) and x.size(1) > 0)
    if i is None:
        return False
    n = b.values[i].size(1)
    k = b.pick(lambda m: m.shape == (n,) and m.dtype == torch.float32)
    if (
        k is None
        or key(b.values[k]) == key(b.values[i])
        or key(b.values[k]) in b.seen_as_bits
        or overlaps_itself(b.values[k])
    ):
        return False
    variance = f"torch.ones({n}, device=device)"
    fits = b.make(f"F.batch_norm(x{i}, x{k}, {variance}, training=True)", [i, k], rounds=True)
    if fits:
        b.note(b.values[k], rounded=True)
    return fits


@LINES.add(2)
def delete(b: Builder) -> bool:
    """Nobody else holds the array any more: its buffer may be given away, or it is never computed."""
    first = len(b.program.parameters())
    i = b.pick(lambda x: any(x is y for y in b.values[first:]), kinds="exact smooth opaque")
    if i is None:
        return False
    b.dead.add(i)
    return b.run(f"del x{i}")
