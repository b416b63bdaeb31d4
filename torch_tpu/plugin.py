# SPDX-License-Identifier: Apache-2.0
"""Chooses the PJRT plugin: TORCH_TPU_PLUGIN, else libtpu where there is a TPU, else virtual chips on a CPU plugin."""

import glob
import importlib.util
import os
from typing import NamedTuple

_GOOGLE = "0x1ae0"  # PCI vendor; its TPUs have several classes, so what else it makes is told by class:
_NOT_TPU = ("0x01", "0x02")  # storage and network, as in any virtual machine of Google's cloud
_NO_VIRTUAL = "TORCH_TPU_VIRTUAL_CHIPS=0 turns virtual chips off."
_CPU_PLUGINS = (("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),)


class Choice(NamedTuple):
    """The plugin to load. `path` is empty when there is none; then `why_none` says why, in the words of the user."""

    path: str
    why_none: str
    virtual: bool


def tpu_present() -> bool:
    """Whether this host has a TPU, as the kernel shows it; nothing is opened."""
    if glob.glob("/dev/accel*"):
        return True
    vendors = glob.glob("/sys/bus/pci/devices/*/vendor")
    if not vendors:  # some containers show no PCI devices, only those they were given
        return bool(glob.glob("/dev/vfio/[0-9]*"))
    return any(
        _read(vendor) == _GOOGLE and not _read(os.path.join(os.path.dirname(vendor), "class")).startswith(_NOT_TPU)
        for vendor in vendors
    )


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _inside(package: str, file: str) -> str | None:
    """The path of `file` in an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = os.path.join(folder, file)
        if os.path.exists(path):
            return path
    return None


def choose(path: str, virtual_chips: int) -> Choice:
    """Chooses the plugin, given TORCH_TPU_PLUGIN (or "") and the number of virtual chips."""
    if path:
        if not os.path.isfile(path):
            return Choice("", f"TORCH_TPU_PLUGIN: there is no file {path}. Give the path of a PJRT plugin.", False)
        virtual = "cpu" in os.path.basename(path).lower()
        return Choice("", _NO_VIRTUAL, True) if virtual and not virtual_chips else Choice(path, "", virtual)
    if tpu_present():
        if libtpu := _inside("libtpu", "libtpu.so"):
            return Choice(libtpu, "", False)
        return Choice("", "this host has a TPU, but libtpu is not installed. Run: pip install libtpu", False)
    if not virtual_chips:
        return Choice("", f"there is no TPU on this host, and {_NO_VIRTUAL}", True)
    for package, file in _CPU_PLUGINS:
        if plugin := _inside(package, file):
            return Choice(plugin, "", True)
    return Choice(
        "",
        "there is no TPU on this host, and the CPU plugin that plays virtual chips is not installed. "
        "Run: pip install lammps-jax-pjrt-cpu==0.11.2",
        True,
    )
