// SPDX-License-Identifier: Apache-2.0
// CompiledFunction for Python: lists of tensors and plain values in, a list out.
#include "bind/compiled.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "runtime/capture.h"

namespace py = pybind11;

namespace tpu::bind {
namespace {

c10::IValue from_python(py::handle object) {
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  if (object.is_none()) return {};
  if (py::isinstance<py::bool_>(object)) return object.cast<bool>();
  if (py::isinstance<py::int_>(object)) return object.cast<int64_t>();
  if (py::isinstance<py::float_>(object)) return object.cast<double>();
  if (py::hasattr(object, "__int__"))
    return py::int_(py::reinterpret_borrow<py::object>(object)).cast<int64_t>();  // SymInt
  throw py::type_error(
      "torch.compile: expected inputs and outputs of a graph to be tensors or numbers, got " +
      py::str(py::type::of(object)).cast<std::string>());
}

py::object to_python(const c10::IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return py::none();
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
  }
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isBool()) return py::bool_(value.toBool());
  return py::none();
}

// The graph outlives calls that run without Python's lock; it is only let go under it.
std::shared_ptr<py::object> keep(py::object object) {
  return {new py::object(std::move(object)), [](py::object* kept) {
            py::gil_scoped_acquire lock;
            delete kept;
          }};
}

class Compiled {
 public:
  Compiled(py::object graph, const std::string& name)
      : function_(
            [graph = keep(std::move(graph))](std::vector<c10::IValue> inputs) {
              py::gil_scoped_acquire lock;
              py::tuple arguments(inputs.size());
              for (size_t i = 0; i < inputs.size(); ++i) arguments[i] = to_python(inputs[i]);
              inputs.clear();
              py::object result = (*graph)(*arguments);
              std::vector<c10::IValue> outputs;
              if (py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result)) {
                for (py::handle output : result) outputs.push_back(from_python(output));
              } else {
                outputs.push_back(from_python(result));
              }
              return outputs;
            },
            name) {}

  py::list call(py::list inputs) {
    std::vector<c10::IValue> values;
    values.reserve(inputs.size());
    for (py::handle input : inputs) values.push_back(from_python(input));
    // A boxed call hands its inputs over: the list must not keep them alive.
    PyList_SetSlice(inputs.ptr(), 0, PyList_GET_SIZE(inputs.ptr()), nullptr);
    std::vector<c10::IValue> outputs = function_(std::move(values));
    py::list result(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) result[i] = to_python(outputs[i]);
    return result;
  }

 private:
  runtime::CompiledFunction function_;
};

}  // namespace

void define_compiled(py::module_& module) {
  py::class_<Compiled>(module, "CompiledFunction",
                       "A graph as one program: run once on placeholders, then straight in C++.")
      .def(py::init<py::object, std::string>(), py::arg("graph"), py::arg("name") = "a compiled graph")
      .def("__call__", torch::wrap_pybind_function(&Compiled::call), py::arg("inputs"));
}

}  // namespace tpu::bind
