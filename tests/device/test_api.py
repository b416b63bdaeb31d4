# SPDX-License-Identifier: Apache-2.0
"""torch.tpu, name by name; and what `import torch` does, and says when something is wrong."""

import statistics
from pathlib import Path

import pytest
import torch

import torch_tpu.config

# Each name of torch.tpu, with a call that has to work and a check of what it returns.
API = {
    "EagerMode": lambda f: f.STRICT is f.DEFER_NEVER and len(list(f)) == 3,
    "Event": lambda f: isinstance(f(enable_timing=True), torch.Event),
    "Precision": lambda f: f.HIGHEST.value == "highest",
    "Stream": lambda f: f().device.type == "tpu" and f("tpu:0").device.index == 0,
    "StreamContext": lambda f: f(None).__enter__() is None,
    "counters": lambda f: {"compilations", "memory_hits", "disk_hits", "launches", "syncs", "fallbacks"} <= f().keys(),
    "current_device": lambda f: f() == 0,
    "current_stream": lambda f: f() == f(0) and f().device == torch.device("tpu", 0),
    "default_generators": lambda f: f[0].device == torch.device("tpu", 0),
    "default_stream": lambda f: f() == torch.tpu.current_stream(),
    "device": lambda f: f(0).idx == 0 and f("tpu").idx == 0 and f(None).idx == -1,
    "device_count": lambda f: f() >= 1,
    "device_of": lambda f: f(torch.ones(1)).idx == -1 and f(torch.ones(1, device="tpu")).idx == 0,
    "eager_mode": lambda f: isinstance(f, torch.tpu.EagerMode),
    "empty_cache": lambda f: f() is None,
    "explain": lambda f: "programs compiled in" in f(),
    "get_amp_supported_dtype": lambda f: torch.bfloat16 in f(),
    "get_autocast_dtype": lambda f: f() in torch.tpu.get_amp_supported_dtype(),
    "get_device_capability": lambda f: len(f()) == 2 and f("tpu:0") == f(0),
    "get_device_name": lambda f: isinstance(f(), str) and f(),
    "get_device_properties": lambda f: f().total_memory > 0 and f().name == torch.tpu.get_device_name(),
    "get_rng_state": lambda f: f().dtype == torch.uint8 and f().device.type == "cpu",
    "get_rng_state_all": lambda f: len(f()) == torch.tpu.device_count(),
    "initial_seed": lambda f: isinstance(f(), int),
    "is_autocast_enabled": lambda f: f() is False,
    "is_available": lambda f: f() is True,
    "is_bf16_supported": lambda f: f() is True,
    "is_initialized": lambda f: f() is True,
    "manual_seed": lambda f: f(3) is None and torch.tpu.initial_seed() == 3,
    "manual_seed_all": lambda f: f(4) is None and torch.tpu.initial_seed() == 4,
    "max_memory_allocated": lambda f: f() >= torch.tpu.memory_allocated(),
    "max_memory_reserved": lambda f: f() >= 0,
    "mem_get_info": lambda f: 0 < f()[0] <= f()[1],
    "memory_allocated": lambda f: f() >= 0,
    "memory_reserved": lambda f: f() >= 0,
    "memory_stats": lambda f: f()["allocated_bytes.all.peak"] >= f()["allocated_bytes.all.current"],
    "memory_summary": lambda f: "allocated_bytes.all.current" in f(),
    "precision": lambda f: f(torch.tpu.Precision.HIGH).__enter__() is None,
    "reset_counters": lambda f: f() is None and torch.tpu.counters()["launches"] == 0,
    "reset_peak_memory_stats": lambda f: f() is None,
    "seed": lambda f: f() is None,
    "seed_all": lambda f: f() is None,
    "set_autocast_dtype": lambda f: f(torch.bfloat16) is None,
    "set_autocast_enabled": lambda f: f(False) is None,
    "set_device": lambda f: f("tpu:0") is None and f(-1) is None and torch.tpu.current_device() == 0,
    "set_eager_mode": lambda f: f("strict").__enter__() is None,
    "set_rng_state": lambda f: f(torch.tpu.get_rng_state()) is None,
    "set_rng_state_all": lambda f: f(torch.tpu.get_rng_state_all()) is None,
    "set_stream": lambda f: f(torch.tpu.current_stream()) is None and f(None) is None,
    "stream": lambda f: f(torch.tpu.current_stream()).stream is not None,
    "synchronize": lambda f: f() is None and f("tpu:0") is None,
}


@pytest.fixture(autouse=True)
def restored():
    torch.ones(1, device="tpu")  # the device is in use from here
    mode, precision, state = torch.tpu.eager_mode, torch.get_float32_matmul_precision(), torch.tpu.get_rng_state()
    yield
    torch.tpu.eager_mode = mode
    torch.set_float32_matmul_precision(precision)
    torch.tpu.set_rng_state(state)


def test_table_is_complete():
    assert sorted(API) == sorted(torch.tpu.__all__)


@pytest.mark.parametrize("name", API)
def test_works(name):
    assert API[name](getattr(torch.tpu, name))


def test_generic_interfaces_know_the_device():
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == torch.tpu.device_count()
    assert torch.get_device_module("tpu") is torch.tpu
    assert torch.backends.tpu.is_built() and torch.backends.tpu.is_available()
    assert torch.ones(1).tpu().is_tpu and torch.nn.Linear(1, 1).tpu().weight.is_tpu
    torch.accelerator.synchronize()


@pytest.mark.parametrize("bad, error", [("cpu", ValueError), (1.5, TypeError), (True, TypeError), ([], TypeError)])
def test_device_arguments_are_checked(bad, error):
    with pytest.raises(error, match=r"torch\.tpu: expected"):
        torch.tpu.set_device(bad)


def test_chip_index_out_of_range():
    with pytest.raises(RuntimeError, match=str(torch.tpu.device_count())):
        torch.tpu.set_device(torch.tpu.device_count())


def test_eager_mode_is_set_at_once_and_restored_by_with():
    torch.tpu.eager_mode = "strict"
    with torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE):
        assert torch.tpu.eager_mode is torch.tpu.EagerMode.FUSED and torch_tpu.config.eager_mode == "fused"
        with torch.tpu.set_eager_mode("debug"):
            assert torch.tpu.eager_mode.value == "debug"
        assert torch.tpu.eager_mode.value == "fused"
    assert torch.tpu.eager_mode is torch.tpu.EagerMode.STRICT
    torch.tpu.set_eager_mode("fused")
    assert torch.tpu.eager_mode is torch.tpu.EagerMode.FUSED
    with pytest.raises(ValueError, match="expected strict, fused or debug"):
        torch.tpu.set_eager_mode("lazy")


def test_precision_is_restored():
    torch.set_float32_matmul_precision("highest")
    with torch.tpu.precision(torch.tpu.Precision.DEFAULT):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == "highest"


def test_memory_follows_tensors():
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    x = torch.ones(1 << 18, device="tpu")
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - before == 1 << 20
    del x
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() >= before + (1 << 20)


def test_random_state_gives_the_same_numbers_again():
    state = torch.tpu.get_rng_state()
    first = torch.randn(8, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.randn(8, device="tpu"), first)
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.tpu.manual_seed(1)
    second = torch.randn(8, device="tpu")
    torch.tpu.set_rng_state(state)
    torch.randn(8, device="tpu")
    assert torch.equal(torch.randn(8, device="tpu"), second)


def test_events_time_work():
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    start.record()
    torch.ones(64, 64, device="tpu") @ torch.ones(64, 64, device="tpu")
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    with pytest.raises(NotImplementedError, match="interprocess"):
        torch.tpu.Event(interprocess=True)


def test_stream_is_current_in_its_block():
    stream, before = torch.tpu.Stream(), torch.tpu.current_stream()
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        x = torch.ones(3, device="tpu") + 1
    assert torch.tpu.current_stream() == before
    torch.tpu.current_stream().wait_stream(stream)
    assert x.sum().item() == 6


def test_plain_compile_says_what_to_pass():
    with pytest.raises(Exception, match='Pass backend="tpu"'):
        torch.compile(lambda x: x + 1)(torch.ones(3, device="tpu"))


def test_compile_refuses_options_that_it_does_not_have():
    with pytest.raises(Exception, match='backend "tpu" has no options, got fast'):
        torch.compile(lambda x: x + 1, backend="tpu", options={"fast": True})(torch.ones(3, device="tpu"))


@pytest.mark.parametrize(
    "name, value",
    [("virtual_chips", -1), ("virtual_memory", "lots"), ("fallback", "maybe"), ("eager_mode", 3), ("plugin", 7)],
)
def test_settings_refuse_bad_values(name, value):
    with pytest.raises(ValueError, match=rf"torch_tpu\.config\.{name}: expected .*, got {value!r}"):
        setattr(torch_tpu.config, name, value)


def test_settings_of_the_device_are_fixed_once_it_is_used():
    with pytest.raises(RuntimeError, match="TORCH_TPU_VIRTUAL_CHIPS before the start"):
        torch_tpu.config.virtual_chips = 3


# What `import torch` does, in processes of their own.


def test_import_is_silent_and_makes_no_client(python):
    result = python("import torch; assert not torch.tpu.is_initialized() and torch.tpu.is_available()")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("first", ["torch", "torch_tpu"])
@pytest.mark.parametrize("autoload", ["0", "1"])
def test_import_order_does_not_matter(python, first, autoload):
    code = f"import {first}, torch_tpu, torch; print((torch.ones(2, device='tpu') + 1).sum().item())"
    result = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert (result.returncode, result.stdout, result.stderr) == (0, "4.0\n", "")


def test_import_costs_little(python):
    code = "import time; start = time.process_time(); import torch; print(time.process_time() - start)"
    pairs = [[float(python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=on).stdout) for on in "10"] for _ in range(5)]
    assert statistics.median(ours - without for ours, without in pairs) < 0.3


def test_import_leaves_heavy_modules_out(python):
    code = "import sys, torch; print({'jax', 'transformers', 'torch._dynamo', 'torch._inductor'} & sys.modules.keys())"
    assert python(code).stdout == "set()\n"


def test_another_torch_is_one_warning_with_both_versions_and_the_command(python):
    code = (
        "import sys, types; info = types.ModuleType('torch_tpu._build_info'); info.TORCH_VERSION = '2.12.0+cpu';"
        "import importlib.machinery as m; info.__spec__ = m.ModuleSpec('torch_tpu._build_info', None);"
        "sys.modules['torch_tpu._build_info'] = info; import torch; print(torch.ones(2).sum().item())"
    )
    result = python(code)
    assert result.stdout == "2.0\n"
    assert result.stderr.count("UserWarning") == 1
    assert "built for torch 2.12.0+cpu" in result.stderr and f"torch {torch.__version__}" in result.stderr
    assert "pip install torch==2.12.0" in result.stderr


USE = """
import torch
print(torch.tpu.is_available(), torch.tpu.device_count())
try:
    torch.ones(2, device="tpu")
except Exception as error:
    print(type(error).__name__, error)
print(torch.ones(2).sum().item())
"""


@pytest.mark.parametrize(
    "variables, text",
    [
        ({"TORCH_TPU_VIRTUAL_CHIPS": "0"}, "TORCH_TPU_VIRTUAL_CHIPS=0 turns virtual chips off"),
        ({"TORCH_TPU_PLUGIN": "/nowhere/plugin.so"}, "there is no file /nowhere/plugin.so"),
        ({"TORCH_TPU_VIRTUAL_CHIPS": "many"}, "TORCH_TPU_VIRTUAL_CHIPS: expected a number of virtual chips"),
        ({"TORCH_TPU_VIRTUAL_MEMORY": "64 pages"}, "got '64 pages'"),
        ({"TORCH_TPU_FALLBACK": "no"}, "TORCH_TPU_FALLBACK: expected warn or error, got 'no'"),
        ({"TORCH_TPU_EAGER_MODE": "lazy"}, "TORCH_TPU_EAGER_MODE: expected strict or fused or debug, got 'lazy'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_use_says_why_there_is_no_chip(python, variables, text):
    result = python(USE, **variables)
    first, message, last = result.stdout.splitlines()
    assert first == "False 0" and text in message and last == "2.0", result.stdout + result.stderr
    assert result.stderr.count("Warning") <= 1


@pytest.mark.parametrize("what", ["library", "text"])
def test_plugin_that_is_no_pjrt_plugin(python, tmp_path, what):
    if what == "library":
        path = next(p for p in Path("/proc/self/maps").read_text().split() if "libc.so" in p)
    else:
        path = tmp_path / "plugin.so"
        path.write_text("not a library")
    result = python(USE, TORCH_TPU_PLUGIN=str(path))
    assert str(path) in result.stdout and result.stdout.endswith("2.0\n"), result.stdout + result.stderr


def test_several_virtual_chips(python):
    code = (
        "import torch; print(torch.tpu.device_count());"
        "x = torch.ones(2, device='tpu:1'); print(x.device, (x.to('tpu:0') + 1).device);"
        "a = torch.tpu.current_device()\n"
        "with torch.tpu.device(1): b = torch.tpu.current_device(); y = torch.ones(1, device='tpu')\n"
        "print(a, b, torch.tpu.current_device(), y.device)"
    )
    result = python(code, TORCH_TPU_VIRTUAL_CHIPS="2")
    assert result.stdout == "2\ntpu:1 tpu:0\n0 1 0 tpu:1\n", result.stderr


def test_settings_can_be_changed_before_the_first_tensor(python):
    code = (
        "import torch, torch_tpu.config as c; c.virtual_chips = 3; c.virtual_memory = '64MiB';"
        "print(torch.tpu.device_count(), torch.tpu.mem_get_info()[1])"
    )
    assert python(code).stdout == f"3 {64 << 20}\n"
