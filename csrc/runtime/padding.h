// SPDX-License-Identifier: Apache-2.0
// Arrays with room at the end of some dims, as programs for several sizes want them (hlo/padded.h).
#pragma once

#include <c10/util/SmallVector.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/array.h"

namespace tpu::runtime {

// How a program for several sizes is called for one of them.
struct Padding {
  std::vector<hlo::Dims> arguments, outputs;  // dims of the buffers
  int64_t size = 0;                           // the last argument of the program
};

// The dims of output k's buffer.
inline const hlo::Dims& output_dims(const hlo::Type& type, const Padding* padding, size_t k) {
  return padding ? padding->outputs[k] : type.dims;
}
size_t output_bytes(const hlo::Type& type, const Padding* padding, size_t k);

// The arguments of a launch, brought to the dims that the program wants.
class Arguments {
 public:
  Arguments(Chip& chip, const Padding* padding) : chip_(chip), padding_(padding) {}
  void add(Array& array);
  void end();
  std::span<PJRT_Buffer* const> buffers() const { return {buffers_.data(), buffers_.size()}; }

 private:
  Chip& chip_;
  const Padding* padding_;
  c10::SmallVector<PJRT_Buffer*, 16> buffers_;
  ArrayRef size_;
};

// Gives the array's buffer the dims `dims`, each at least as large as the array's own, by a program that pads
// or cuts.
void fit_buffer(Array& array, const hlo::Dims& dims);
// The array's elements, taken out of a host copy of its buffer.
void strip(const Array& array, const char* padded, char* dense);

}  // namespace tpu::runtime
