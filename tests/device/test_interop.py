# SPDX-License-Identifier: Apache-2.0
"""What carries tensors out and back: serialization, NumPy, DLPack, pinned memory, copies, printing, subclasses, streams."""

import contextlib
import copy
import pickle

import numpy
import pytest
import torch
from surroundings import COMPLEX, CPU, TPU, of, same, saved
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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
