// SPDX-License-Identifier: Apache-2.0
// Hooks into the interpreter.
#include <Python.h>
#if PY_VERSION_HEX < 0x030D0000
#define Py_BUILD_CORE 1  // for the layout of a frame
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#include "bind/python.h"

#include <cstring>
#include <string>
#include <unordered_map>

#include "runtime/chip.h"
#include "runtime/location.h"

namespace tpu::bind {
namespace {

#if PY_VERSION_HEX < 0x030D0000
// PyTorch gives Python's lock back before it calls an op, and the runtime may not ask for it. A thread may
// still look at its own frames: nobody changes them while it is in here, and they keep their code alive. So
// everything that a message needs is copied at the first sight of a place in the code.
struct Place {
  PyObject* file;  // to notice other code at the address of code that is gone; not owned, never followed
  PyObject* name;
  int first_line;
  bool library;      // part of torch itself
  std::string text;  // "train.py:12 in step"
};

std::string ascii(PyObject* text) {
  if (!PyUnicode_Check(text) || !PyUnicode_IS_COMPACT_ASCII(text)) return "?";
  return {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(text)),
          static_cast<size_t>(PyUnicode_GET_LENGTH(text))};
}

const Place& place_of(PyCodeObject* code, int instruction) {
  struct Key {
    PyCodeObject* code;
    int instruction;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      return reinterpret_cast<size_t>(k.code) / 16 * 31 + static_cast<size_t>(k.instruction);
    }
  };
  // Places are never freed: checks and the log of launches point to them.
  thread_local std::unordered_map<Key, Place*, Hash> known;
  Place*& place = known[{code, instruction}];
  if (place && place->file == code->co_filename && place->name == code->co_name &&
      place->first_line == code->co_firstlineno)
    return *place;
  const std::string file = ascii(code->co_filename);
  const bool library = file.find("/site-packages/torch/") != std::string::npos ||
                       file.find("/torch_tpu/") != std::string::npos;
  const int line = PyCode_Addr2Line(code, instruction * static_cast<int>(sizeof(_Py_CODEUNIT)));
  place = new Place{code->co_filename, code->co_name, code->co_firstlineno, library,
                    file + ":" + std::to_string(line) + " in " + ascii(code->co_name)};
  return *place;
}

// The innermost frame that is not torch's own code; the innermost one if all are.
runtime::Location take() {
  const PyThreadState* state = Py_IsInitialized() ? PyGILState_GetThisThreadState() : nullptr;
  if (!state || !state->cframe) return {};
  const Place* innermost = nullptr;
  int depth = 0;
  for (const _PyInterpreterFrame* frame = state->cframe->current_frame; frame && depth < 16;
       frame = frame->previous) {
    if (!frame->f_code || _PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame*>(frame))) continue;
    const Place& place = place_of(frame->f_code, _PyInterpreterFrame_LASTI(frame));
    if (!place.library) return {&place};
    if (depth++ == 0) innermost = &place;
  }
  return {innermost};
}

std::string describe(runtime::Location location) { return static_cast<const Place*>(location.place)->text; }
#else
runtime::Location take() { return {}; }
std::string describe(runtime::Location) { return ""; }
#endif

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
