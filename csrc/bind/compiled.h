// SPDX-License-Identifier: Apache-2.0
// CompiledFunction for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace tpu::bind {

void define_compiled(pybind11::module_& module);

}  // namespace tpu::bind
