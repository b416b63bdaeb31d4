// SPDX-License-Identifier: Apache-2.0
// Hooks into the interpreter.
#include <Python.h>

#include "bind/python.h"

#include <cstring>
#include <string>
#include <unordered_map>

#include "runtime/chip.h"
#include "runtime/location.h"

namespace tpu::bind {
namespace {

// Code objects that a location may name. They are kept for good, so a location stays valid without a count of
// its own.
std::unordered_map<PyCodeObject*, bool>& known_code() {  // value: part of torch itself
  static auto* map = new std::unordered_map<PyCodeObject*, bool>;
  return *map;
}

bool is_library(PyCodeObject* code) {
  auto [place, added] = known_code().emplace(code, false);
  if (!added) return place->second;
  Py_INCREF(code);
  PyObject* name = PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_filename");
  const char* path = name ? PyUnicode_AsUTF8(name) : nullptr;
  place->second = path && (std::strstr(path, "/site-packages/torch/") || std::strstr(path, "/torch_tpu/"));
  Py_XDECREF(name);
  PyErr_Clear();
  return place->second;
}

// The innermost frame that is not torch's own code; the innermost one if all are.
runtime::Location take() {
  if (!Py_IsInitialized() || !PyGILState_Check()) return {};
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  Py_INCREF(frame);
  runtime::Location location;
  for (int depth = 0; frame && depth < 16; ++depth) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool library = is_library(code);
    if (!library || depth == 0) location = {code, PyFrame_GetLasti(frame)};
    Py_DECREF(code);
    if (!library) break;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return location;
}

std::string describe(runtime::Location location) {
  if (!Py_IsInitialized()) return "";
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  auto* code = reinterpret_cast<PyObject*>(location.code);
  std::string text;
  PyObject* file = PyObject_GetAttrString(code, "co_filename");
  PyObject* name = PyObject_GetAttrString(code, "co_name");
  if (file && name) {
    const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), location.instruction);
    text = std::string(PyUnicode_AsUTF8(file)) + ":" + std::to_string(line) + " in " + PyUnicode_AsUTF8(name);
  }
  Py_XDECREF(file);
  Py_XDECREF(name);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
  return text;
}

void* leave() { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void enter(void* state) {
  if (state) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

}  // namespace

void install_python_hooks() {
  runtime::set_location_hooks({&take, &describe});
  runtime::set_wait_hooks({&leave, &enter});
}

}  // namespace tpu::bind
