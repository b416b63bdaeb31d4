// SPDX-License-Identifier: Apache-2.0
// Embedding tables and bags.
#include "lower/embedding.h"

#include <cmath>

#include "lower/gather.h"
#include "lower/line.h"
#include "lower/scan.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

constexpr const char* kOutOfRange = "index out of range in self";
enum Mode { kSum, kMean, kMax };

Value zeros(Args& a, DType dtype, Dims dims) {
  return constant(a.program(), Type{dtype, std::move(dims)}, 0);
}

// Indices that were checked before; `skipped` ones are sent out of bounds, where XLA drops the write.
Value write_index(Value index, int64_t size, int64_t skipped) {
  index = convert(flatten(index), count_dtype(size));
  if (skipped < 0) return index;
  return hlo::select(eq(index, static_cast<double>(skipped)), constant_like(index, static_cast<double>(size)),
                     index);
}

Value per_row(Value number, Value rows) {
  return broadcast_in_dim(convert(number, rows.dtype()), rows.dims(), {0});
}

// How often the index of each row occurs among all.
Value frequency(Args& a, Value index, int64_t size) {
  Value ones = constant(a.program(), Type{DType::kS32, index.dims()}, 1);
  return take(scatter_slices(zeros(a, DType::kS32, {size}), index, ones, 0, add), index, 0);
}

// Sums gradient rows [N, D] into a table.
Value sum_rows(Args& a, Value rows, Value index, int64_t size, int64_t padding, bool by_frequency) {
  index = write_index(index, size, padding);
  if (by_frequency) rows = rows / per_row(maximum(frequency(a, index, size), 1.0), rows);
  return scatter_slices(zeros(a, rows.dtype(), {size, rows.dim(1)}), index, rows, 0, add);
}

}  // namespace

// (weight, indices, padding_idx, scale_grad_by_freq, sparse)
Value embedding(Args& a) {
  Value weight = a[0];
  return take(weight, checked_index(a, a[1], weight.dim(0), false, kOutOfRange), 0);
}

// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
Value embedding_dense_backward(Args& a) {
  Value grad = widen(a[0]), index = a[1];
  Value rows = reshape(grad, {index.numel(), grad.dims().back()});
  return sum_rows(a, rows, index, a.integer(2), a.integer(3), a.flag(4));
}

// (self, indices, max_norm, norm_type): the rows that are named, scaled down to max_norm.
Value embedding_renorm(Args& a) {
  Value table = widen(a[0]);
  int64_t size = table.dim(0);
  Value index = flatten(checked_index(a, a[1], size, false, kOutOfRange));
  Value named = scatter_slices(zeros(a, DType::kPred, {size}), index,
                               constant(a.program(), Type{DType::kPred, index.dims()}, 1), 0, nullptr);
  double p = a.constant(3);
  Value length = abs(table);
  if (std::isinf(p))
    length = reduce_max(length, {1});
  else if (p == 1)
    length = reduce_sum(length, {1});
  else if (p == 2)
    length = sqrt(reduce_sum(length * length, {1}));
  else {
    length = reduce_sum(power(length, constant_like(length, p)), {1});
    length = power(length, constant_like(length, 1 / p));
  }
  Value limit = a.scalar_like(2, length);
  Value scale = hlo::select(and_(named, gt(length, limit)), limit / (length + 1e-7), ones_like(length));
  return table * per_row(scale, table);
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
// padding_idx) Returns (output, offset2bag, bag_size, max_indices).
Results embedding_bag(Args& a) {
  Value weight = widen(a[0]);
  int64_t size = weight.dim(0), width = weight.dim(1), mode = a.integer(4), padding = a.integer(8);
  int64_t n = a.dims(1)[0], listed = a.dims(2)[0], bags = listed - (a.flag(7) ? 1 : 0);
  Value index = checked_index(a, a[1], size, false, kOutOfRange);
  DType counted = count_dtype(n);

  // The bag of each index: how many bags start at it or before, less one.
  Value offsets = cut(convert(a[2], counted), 0, 0, bags);
  Value starts = scatter_slices(zeros(a, counted, {n}), offsets, ones_like(offsets), 0, add);
  Value bag = scan(starts, zero_of(starts), 0, add) - 1.0;
  Value valid = padding < 0 ? constant(a.program(), Type{DType::kPred, {n}}, 1)
                            : ne(index, static_cast<double>(padding));
  Value target =
      hlo::select(valid, bag, constant_like(bag, static_cast<double>(bags)));  // padding is dropped
  Value counts =
      scatter_slices(zeros(a, counted, {bags}), target, constant(a.program(), Type{counted, {n}}, 1), 0, add);

  Value rows = take(weight, index, 0);
  Value output = zeros(a, weight.dtype(), {bags, width}), places = zeros(a, counted, {0});
  if (mode == kMax) {
    Value none = broadcast_to(lowest(a.program(), weight.dtype()), output.dims());
    Value filled = per_row(gt(counts, 0.0), constant(a.program(), Type{DType::kPred, output.dims()}, 0));
    Value best = scatter_slices(none, target, rows, 0, maximum);
    // The first row of the bag that has the maximum.
    Value hit = or_(eq(rows, take(best, bag, 0)), is_nan(rows));
    Value spot = iota(a.program(), Type{counted, rows.dims()}, 0);
    Value far = constant_like(spot, static_cast<double>(n));
    Value first = scatter_slices(constant(a.program(), Type{counted, output.dims()}, n), target,
                                 hlo::select(hit, spot, far), 0, minimum);
    if (n == 0)
      places = zeros(a, counted, output.dims());
    else
      places = take(index, minimum(first, static_cast<double>(n - 1)), 0);
    places = hlo::select(filled, places, zeros_like(places));
    output = hlo::select(filled, best, output);
  } else {
    if (a.has(6)) rows = rows * per_row(a[6], rows);
    output = scatter_slices(output, target, rows, 0, add);
    if (mode == kMean) output = output / per_row(maximum(counts, 1.0), output);
  }
  return {output, bag, place(counts, zero_of(counts), 0, listed, 0), places};
}

namespace {

// The gradient of the table; `at` is where offset2bag is among the arguments, `mode` where the mode is.
Value bag_backward(Args& a, size_t at, size_t mode, size_t weights) {
  Value grad = widen(a[0]), index = a[1], bag = a[at], counts = a[at + 1];
  int64_t size = a.integer(at + 3);
  counts = cut(counts, 0, 0, grad.dim(0));
  if (a.integer(mode) == kMax) {
    Value filled = per_row(gt(counts, 0.0), constant(a.program(), Type{DType::kPred, grad.dims()}, 0));
    Value places = convert(a[at + 2], count_dtype(size));
    return scatter_along(zeros(a, grad.dtype(), {size, grad.dim(1)}), places,
                         hlo::select(filled, grad, zeros_like(grad)), 0, add);
  }
  if (a.integer(mode) == kMean) grad = grad / per_row(maximum(counts, 1.0), grad);
  Value rows = take(grad, convert(bag, count_dtype(grad.dim(0))), 0);
  if (a.has(weights)) rows = rows * per_row(a[weights], rows);
  return sum_rows(a, rows, index, size, a.integer(weights + 1), a.flag(at + 4));
}

}  // namespace

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
// sparse, per_sample_weights, padding_idx)
Value embedding_bag_backward(Args& a) { return bag_backward(a, 3, 8, 10); }

// The same without offsets and sparse.
Value embedding_bag_dense_backward(Args& a) { return bag_backward(a, 2, 7, 8); }

// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
Value embedding_bag_weights_backward(Args& a) {
  Value grad = widen(a[0]), weight = widen(a[1]), index = a[2];
  Value rows = take(weight, convert(index, count_dtype(weight.dim(0))), 0);
  Value sum = reduce_sum(rows * take(grad, convert(a[4], count_dtype(grad.dim(0))), 0), {1});
  int64_t padding = a.integer(6);
  return padding < 0 ? sum : hlo::select(eq(index, static_cast<double>(padding)), zeros_like(sum), sum);
}

}  // namespace tpu::lower
