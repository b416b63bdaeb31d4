# SPDX-License-Identifier: Apache-2.0
"""Settings: each TORCH_TPU_* variable is read here once, and is a property of this module (docs/environment.md).

    import torch_tpu.config
    torch_tpu.config.fallback = "error"

A setting of the device itself (plugin, chips, memory, cache folder) can be changed until the first tensor is made.
"""

import os
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from torch_tpu import plugin as _plugin

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_OFF = ("", "0")


def _bad(name: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{name}: expected {allowed}, got {value!r}.")


def _chips(name: str, value: object) -> int:
    text = str(value).strip()
    if not re.fullmatch(r"\d{1,4}", text):
        raise _bad(name, value, "a number of virtual chips, 0 or more")
    return int(text)


def _memory(name: str, value: object) -> int:
    match = re.fullmatch(r"(\d+)\s*([A-Za-z]*)", str(value).strip())
    if not match or match[2].upper() not in _UNITS:
        raise _bad(name, value, "bytes, or a number with KiB, MiB or GiB such as 64MiB (0: no limit)")
    return int(match[1]) * _UNITS[match[2].upper()]


def _one_of(*words: str) -> Callable[[str, object], str]:
    def parse(name: str, value: object) -> str:
        if value not in words:
            raise _bad(name, value, " or ".join(words))
        return str(value)

    return parse


def _path(name: str, value: object) -> str:
    try:
        return os.path.abspath(os.path.expanduser(os.fspath(value))) if value else ""  # type: ignore[call-overload]
    except TypeError:
        raise _bad(name, value, "a path") from None


def _folder(name: str, value: object) -> str:
    return "" if value is None or value in _OFF else _path(name, value)


def _buckets(name: str, value: object) -> str:
    text = str(value).strip()
    if text not in ("auto", "off") and not re.fullmatch(r"[1-9]\d{0,8}(\s*,\s*[1-9]\d{0,8})*", text):
        raise _bad(name, value, "auto, off, or sizes such as 128,256,512")
    return text


def _set_buckets(text: str) -> None:
    from torch_tpu import _C

    _C.set_buckets(text != "off", [] if text in ("auto", "off") else [int(size) for size in text.split(",")])


def _user_cache() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "torch_tpu")


# property -> (variable, how to read it, default)
_TABLE: dict[str, tuple[str, Callable[[str, object], Any], Callable[[], Any]]] = {
    "cache_dir": ("TORCH_TPU_CACHE_DIR", _folder, _user_cache),
    "buckets": ("TORCH_TPU_BUCKETS", _buckets, lambda: "auto"),
    "eager_mode": ("TORCH_TPU_EAGER_MODE", _one_of("strict", "fused", "debug"), lambda: "fused"),
    "fallback": ("TORCH_TPU_FALLBACK", _one_of("warn", "error"), lambda: "warn"),
    "plugin": ("TORCH_TPU_PLUGIN", _path, str),
    "virtual_chips": ("TORCH_TPU_VIRTUAL_CHIPS", _chips, lambda: 1),
    "virtual_memory": ("TORCH_TPU_VIRTUAL_MEMORY", _memory, int),
}
_values: dict[str, Any] = {}


def _read() -> str:
    """Reads the environment; returns what is wrong with it, or ""."""
    wrong = []
    for name, (variable, parse, default) in _TABLE.items():
        try:
            text = os.environ.get(variable)
            _values[name] = default() if text is None else parse(variable, text)
        except ValueError as error:
            _values[name] = default()
            wrong.append(str(error))
    return " ".join(wrong)


def _configure(wrong: str = "") -> None:
    from torch_tpu import _C

    choice = _plugin.choose(_values["plugin"], _values["virtual_chips"])
    _C.configure(
        plugin="" if wrong else choice.path,
        why_none=wrong or choice.why_none,
        virtual=choice.virtual,
        chips=_values["virtual_chips"],
        memory_limit=_values["virtual_memory"],
        cache_dir=_values["cache_dir"],
    )


def apply() -> None:
    """Hands the settings to the extension, once; a bad value leaves the device unavailable, with one warning."""
    from torch_tpu import _C

    if wrong := _read():
        warnings.warn(f"torch_tpu: the device tpu is not available: {wrong}", stacklevel=2)
    _configure(wrong)
    _C.set_fallback(_values["fallback"])
    _C.set_eager_mode(_values["eager_mode"])
    _set_buckets(_values["buckets"])


class _Settings(types.ModuleType):
    """Properties of the module, so that a bad value is refused where it is set."""

    def _set(self, name: str, value: object) -> None:
        from torch_tpu import _C

        variable, parse, _ = _TABLE[name]
        parsed = parse(f"torch_tpu.config.{name}", value)
        if _C.is_initialized():
            raise RuntimeError(
                f"torch_tpu.config.{name}: the device is in use already. "
                f"Set it before the first tensor, or {variable} before the start."
            )
        _values[name] = parsed
        _configure()

    @property
    def plugin(self) -> str:
        """Path of the PJRT plugin to load; "" to choose: libtpu where there is a TPU, else virtual chips."""
        return _values["plugin"]

    @plugin.setter
    def plugin(self, value: str) -> None:
        self._set("plugin", value)

    @property
    def virtual_chips(self) -> int:
        """Number of virtual chips where there is no TPU; 0: none."""
        return _values["virtual_chips"]

    @virtual_chips.setter
    def virtual_chips(self, value: int) -> None:
        self._set("virtual_chips", value)

    @property
    def virtual_memory(self) -> int:
        """Bytes of memory of each virtual chip; 0: no limit. Accepts text such as "64MiB"."""
        return _values["virtual_memory"]

    @virtual_memory.setter
    def virtual_memory(self, value: int | str) -> None:
        self._set("virtual_memory", value)

    @property
    def cache_dir(self) -> str:
        """Folder of compiled programs; "": programs are not kept on disk."""
        return _values["cache_dir"]

    @cache_dir.setter
    def cache_dir(self, value: str | os.PathLike[str] | None) -> None:
        self._set("cache_dir", value)

    @property
    def fallback(self) -> str:
        """What an operator without a rule does: "warn" (runs on the CPU, warns once per operator) or "error"."""
        from torch_tpu import _C

        return _C.get_fallback()

    @fallback.setter
    def fallback(self, value: str) -> None:
        from torch_tpu import _C

        _C.set_fallback(_TABLE["fallback"][1]("torch_tpu.config.fallback", value))

    @property
    def buckets(self) -> str:
        """Sizes up to which programs are made when a size grows: "auto" (powers of two), "off", or "128,256,512".

        Sizes above the largest one given are compiled one by one.
        """
        return _values["buckets"]

    @buckets.setter
    def buckets(self, value: str) -> None:
        _values["buckets"] = _buckets("torch_tpu.config.buckets", value)
        _set_buckets(_values["buckets"])

    @property
    def eager_mode(self) -> str:
        """When eager operators become a program: "strict", "fused" or "debug" (torch.tpu.EagerMode)."""
        from torch_tpu import _C

        return _C.get_eager_mode()

    @eager_mode.setter
    def eager_mode(self, value: str) -> None:
        from torch_tpu import _C

        _C.set_eager_mode(_TABLE["eager_mode"][1]("torch_tpu.config.eager_mode", value))


sys.modules[__name__].__class__ = _Settings
