# SPDX-License-Identifier: Apache-2.0
"""Prints what CMake must know of the environment: torch's folder and version, pjrt_c_api.h's folder, the ABI."""

import importlib.util
import os
import sys


def _folder(package: str, pip_name: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{package} is needed to build torch_tpu: pip install {pip_name}")
    return next(iter(spec.submodule_search_locations))


def main() -> None:
    """Prints the four, separated by semicolons, as CMake reads lists."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    torch_folder = _folder("torch", "torch==2.13.0")
    import torch

    header = os.path.join(_folder("xla_plugins.xla_cpu_pjrt", "xla-cpu-pjrt==0.0.1"), "include")
    print(";".join([torch_folder, torch.__version__, header, str(int(torch._C._GLIBCXX_USE_CXX11_ABI))]))


if __name__ == "__main__":
    main()
