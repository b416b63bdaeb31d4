# SPDX-License-Identifier: Apache-2.0
"""Makes "tpu" a device of PyTorch. `import torch` loads it by itself, through the entry points torch.backends."""

import importlib
import importlib.util
import warnings

__version__ = "0.1.0"

_loaded = False


def _public(version: str) -> str:
    """`version` without the part that names the build (2.13.0+cpu -> 2.13.0): builds of one version fit each other."""
    return version.partition("+")[0]


def _load() -> None:
    import torch

    if importlib.util.find_spec("torch_tpu._build_info") is None:
        raise ImportError(
            f"{__path__[0]} holds the sources, which are not built. "
            "Run Python from another folder, or build and install: pip install --no-build-isolation ."
        )
    built_for = importlib.import_module("torch_tpu._build_info").TORCH_VERSION
    if _public(built_for) != _public(torch.__version__):
        # Checked before the extension is loaded: with another torch it would fail on undefined symbols.
        raise ImportError(
            f"it was built for torch {built_for}, but this is torch {torch.__version__}. "
            f"Run: pip install torch=={_public(built_for)}"
        )
    importlib.import_module("torch_tpu._C")  # its kernels, hooks and guard register themselves
    torch.utils.rename_privateuse1_backend("tpu")
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)

    from torch_tpu import _inductor, backends, config, tpu

    config.apply()
    torch._register_device_module("tpu", tpu)
    backends.register()
    _inductor.register()


def _autoload() -> None:
    """Registers the device; called by torch at the end of `import torch`. Never raises: trouble is one warning."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    try:
        _load()
    except Exception as error:
        warnings.warn(f"torch_tpu: the device tpu is not available: {error}", stacklevel=2)


# When torch_tpu is imported first, torch's autoload calls _autoload from in here: it has to be defined above.
importlib.import_module("torch")
_autoload()
