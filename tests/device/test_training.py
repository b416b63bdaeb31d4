# SPDX-License-Identifier: Apache-2.0
"""What training uses around operators: modules, optimizers, autocast, gradient scaling, the tools of autograd."""

import copy
import warnings

import pytest
import torch
from surroundings import TPU, same, saved
from torch import nn
from torch.utils.checkpoint import checkpoint

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
