// SPDX-License-Identifier: Apache-2.0
// Padding and cutting of arrays.
#include "runtime/padding.h"

#include <algorithm>
#include <cstring>

#include "hlo/ops.h"
#include "runtime/cache.h"
#include "runtime/chip.h"
#include "runtime/counters.h"

namespace tpu::runtime {

size_t output_bytes(const hlo::Type& type, const Padding* padding, size_t k) {
  return static_cast<size_t>(hlo::product(output_dims(type, padding, k))) * hlo::byte_width(type.dtype);
}

void Arguments::add(Array& array) {
  if (padding_)
    fit_buffer(array, padding_->arguments[buffers_.size()]);
  else if (array.is_padded())
    fit_buffer(array, array.type().dims);
  buffers_.push_back(array.buffer());
}

void Arguments::end() {
  if (!padding_) return;
  size_ = chip_.integer(padding_->size, hlo::DType::kS32);
  buffers_.push_back(size_->buffer());
}

void fit_buffer(Array& array, const hlo::Dims& dims) {
  if (array.buffer_dims() == dims) return;
  hlo::Program program;
  const hlo::DType dtype = array.type().dtype;
  hlo::Value x = program.parameter({dtype, array.buffer_dims()});
  hlo::Dims limits = x.dims(), high(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    limits[i] = std::min(limits[i], dims[i]);
    high[i] = dims[i] - limits[i];
  }
  const hlo::Dims zeros(dims.size(), 0);
  x = hlo::slice(x, zeros, limits);
  x = hlo::pad(x, hlo::constant(program, {dtype, {}}, 0), zeros, high);
  const hlo::Value outputs[] = {x};
  const hlo::Closed closed = program.close(outputs, {}, /*text=*/false);
  const auto executable = program_cache().get(closed.hash, /*small=*/true, {"another padding", {}, 1, ""},
                                              [&] { return program.close(outputs).text; });
  Chip& chip = array.chip();
  chip.reserve(static_cast<int64_t>(x.type().bytes()), "pad");
  PJRT_Buffer* arguments[] = {array.buffer()};
  PJRT_Buffer* results[] = {nullptr};
  executable->execute(arguments, results, chip.device().get(), {});
  ++counters().launches;
  array.refit({runtime().client().api(), results[0]}, dims, chip.log_launch("pad", here()));
}

void strip(const Array& array, const char* padded, char* dense) {
  const hlo::Dims& to = array.type().dims;
  const hlo::Dims& from = array.buffer_dims();
  // Runs of elements that lie together in both.
  int inner = array.type().rank();
  size_t run = hlo::byte_width(array.type().dtype);
  while (inner > 0 && to[inner - 1] == from[inner - 1]) run *= static_cast<size_t>(to[--inner]);
  if (inner > 0) run *= static_cast<size_t>(to[--inner]);
  if (array.type().numel() == 0) return;
  hlo::Dims at(static_cast<size_t>(inner), 0);
  size_t from_run = hlo::byte_width(array.type().dtype);
  for (int d = inner; d < array.type().rank(); ++d) from_run *= static_cast<size_t>(from[d]);
  for (;;) {
    size_t source = 0;
    for (int d = 0; d < inner; ++d)
      source = source * static_cast<size_t>(from[d]) + static_cast<size_t>(at[d]);
    std::memcpy(dense, padded + source * from_run, run);
    dense += run;
    int d = inner - 1;
    for (; d >= 0 && ++at[d] == to[d]; --d) at[d] = 0;
    if (d < 0) return;
  }
}

}  // namespace tpu::runtime
