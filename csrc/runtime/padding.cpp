// SPDX-License-Identifier: Apache-2.0
// Padding and cutting of arrays.
#include "runtime/padding.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "hlo/ops.h"
#include "runtime/cache.h"
#include "runtime/chip.h"
#include "runtime/counters.h"

namespace tpu::runtime {
namespace {

// What is padded seldom goes over the host rather than through a program of its own: so many bytes at most,
// and so often.
constexpr size_t kLittle = 1 << 20;
constexpr int kOften = 3;

// Calls f(place in the dense array, place in the padded one, bytes) for each run that lies together in both.
void each_run(const hlo::Type& dense, const hlo::Dims& padded,
              const std::function<void(size_t, size_t, size_t)>& f) {
  if (dense.numel() == 0) return;
  int outer = dense.rank();
  size_t run = hlo::byte_width(dense.dtype), padded_run = run;
  while (outer > 0 && dense.dims[outer - 1] == padded[outer - 1])
    run *= static_cast<size_t>(dense.dims[--outer]);
  if (outer > 0) {
    padded_run = run * static_cast<size_t>(padded[outer - 1]);
    run *= static_cast<size_t>(dense.dims[--outer]);
  }
  hlo::Dims at(static_cast<size_t>(outer), 0);
  for (size_t place = 0;; place += run) {
    size_t row = 0;
    for (int d = 0; d < outer; ++d) row = row * static_cast<size_t>(padded[d]) + static_cast<size_t>(at[d]);
    f(place, row * padded_run, run);
    int d = outer - 1;
    for (; d >= 0 && ++at[d] == dense.dims[d]; --d) at[d] = 0;
    if (d < 0) return;
  }
}

// By the pad program that would have been used.
std::unordered_map<hlo::Hash, int, HashOfHash> through_host;

// The array's elements in a new buffer with these dims.
pjrt::Buffer fitted(Array& array, const hlo::Dims& dims) {
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
  Chip& chip = array.chip();
  if (!program_cache().has(closed.hash) && array.bytes() <= kLittle && through_host[closed.hash]++ < kOften) {
    std::vector<char> dense(array.type().bytes()), padded(x.type().bytes());
    std::vector<char> now(array.bytes());
    array.pjrt_buffer().to_host(now.data(), now.size()).await();
    strip(array, now.data(), dense.data());
    each_run(array.type(), dims, [&](size_t from, size_t at, size_t bytes) {
      std::memcpy(padded.data() + at, dense.data() + from, bytes);
    });
    auto made = runtime().client().from_host(padded.data(), pjrt_type(dtype), dims, chip.device());
    return std::move(made.buffer);
  }
  const auto executable = program_cache().get(
      closed.hash, {"another padding", {}, 1, ""}, [&] { return program.extent(outputs); },
      [&] { return program.close(outputs).text; });
  chip.reserve(static_cast<int64_t>(x.type().bytes()), "pad");
  PJRT_Buffer* arguments[] = {array.buffer()};
  PJRT_Buffer* results[] = {nullptr};
  executable->execute(arguments, results, chip.device().get(), {});
  ++counters().launches;
  chip.log_launch("pad", here());
  return {runtime().client().api(), results[0]};
}

}  // namespace

size_t output_bytes(const hlo::Type& type, const Padding* padding, size_t k) {
  return static_cast<size_t>(hlo::product(output_dims(type, padding, k))) * hlo::byte_width(type.dtype);
}

void Arguments::add(Array& array) {
  // Of an array that two arguments want with different dims: the second buffer, until the launch.
  thread_local std::vector<ArrayRef> spare;
  if (buffers_.empty()) spare.clear();
  const hlo::Dims& wanted = padding_ ? padding_->arguments[buffers_.size()] : array.type().dims;
  if (array.buffer_dims() != wanted && std::ranges::find(buffers_, array.buffer()) != buffers_.end()) {
    spare.emplace_back(new Array(chip_, array.type(), fitted(array, wanted), array.launch(), wanted));
    buffers_.push_back(spare.back()->buffer());
    return;
  }
  fit_buffer(array, wanted);
  buffers_.push_back(array.buffer());
}

void Arguments::end() {
  if (!padding_) return;
  size_ = chip_.integer(padding_->size, hlo::DType::kS32);
  buffers_.push_back(size_->buffer());
}

void fit_buffer(Array& array, const hlo::Dims& dims) {
  if (array.buffer_dims() != dims) array.refit(fitted(array, dims), dims, array.launch());
}

void strip(const Array& array, const char* padded, char* dense) {
  each_run(array.type(), array.buffer_dims(),
           [&](size_t at, size_t from, size_t bytes) { std::memcpy(dense + at, padded + from, bytes); });
}

}  // namespace tpu::runtime
