// SPDX-License-Identifier: Apache-2.0
// Distances between each pair of points, of two sets or of one.
#include "lower/distance.h"

#include <cmath>

#include "lower/gather.h"
#include "lower/line.h"
#include "lower/steps.h"

namespace tpu::lower {

using namespace tpu::hlo;

// Both with the leading dims that they have together; points are [.., n, k].
static std::pair<Value, Value> together(Value x, Value y) {
  auto lead = [](Value v) { return Dims(v.dims().begin(), v.dims().end() - 2); };
  Dims leading = broadcast_dims(lead(x), lead(y));
  auto stretched = [&](Value v) {
    Dims dims = leading;
    dims.insert(dims.end(), v.dims().end() - 2, v.dims().end());
    return broadcast_to(v, dims);
  };
  return {stretched(x), stretched(y)};
}

// x[.., i, :] - y[.., j, :] as [.., i, j, :].
static Value differences(Value x, Value y) {
  int r = x.rank();
  Dims dims = x.dims();
  dims.insert(dims.end() - 1, y.dim(r - 2));
  std::vector<int> first, second;
  for (int i = 0; i < r; ++i) first.push_back(i < r - 1 ? i : r), second.push_back(i < r - 2 ? i : i + 1);
  return broadcast_in_dim(x, dims, first) - broadcast_in_dim(y, dims, second);
}

// The p-norm of each of the differences d, along the last dim.
static Value lengths(Value d, double p) {
  d = abs(d);
  int last = d.rank() - 1;
  if (p == 0) return reduce_sum(convert(ne(d, 0), d.dtype()), {last});
  if (p == 1) return reduce_sum(d, {last});
  if (p == 2) return sqrt(reduce_sum(d * d, {last}));
  if (std::isinf(p)) return maximum(reduce_max(d, {last}), 0);
  Value sum = reduce_sum(power(d, constant_like(d, p)), {last});
  return power(sum, constant_like(sum, 1 / p));
}

// The gradient of `distance`, which are the lengths of d (spread along the last dim, as d has it).
static Value slopes(Value d, Value distance, double p) {
  Value size = abs(d), slope;
  if (p == 0) return zeros_like(d);
  if (p == 1) return sign(d);
  if (p == 2)
    slope = d / distance;
  else if (std::isinf(p))
    slope = select(eq(size, distance), sign(d), zeros_like(d));
  else
    slope = sign(d) * power(size / distance, constant_like(size, p - 1));
  return select(eq(distance, 0) | eq(d, 0), zeros_like(d), slope);
}

// (x1, x2, p, compute_mode)
Value cdist(Args& a) {
  auto [x, y] = together(widen(a[0]), widen(a[1]));
  return lengths(differences(x, y), a.constant(2));
}

// (grad, x1, x2, p, cdist)
Value cdist_backward(Args& a) {
  auto [x, y] = together(widen(a[1]), widen(a[2]));
  Value d = differences(x, y);
  int last = d.rank() - 1;
  auto full = [&](Value v) {
    return spread(broadcast_to(widen(v), Dims(d.dims().begin(), d.dims().end() - 1)), d, {last});
  };
  return reduce_sum(slopes(d, full(a[4]), a.constant(3)) * full(a[0]), {last - 1});
}

// Where in [n, n], as a line, the pairs i < j are, in the order of pdist. Row i begins at pair begins[i].
static Value pairs(Program& p, int64_t n) {
  std::vector<int64_t> begins, offsets;
  for (int64_t i = 0, begin = 0; i + 1 < n; begin += n - ++i) {
    begins.push_back(begin);
    offsets.push_back(i * n + i + 1 - begin);
  }
  DType dtype = count_dtype(n * n);
  Value pair = iota(p, {dtype, {n * (n - 1) / 2}}, 0);
  Value row = squeeze(count_up_to(constant(p, {1, n - 1}, std::move(begins), dtype), unsqueeze(pair, 0)), 0);
  return pair + take(constant(p, {n - 1}, std::move(offsets), dtype), row - 1, 0);
}

// (self, p): x is [n, k], the result has one number for each pair of rows.
Value pdist(Args& a) {
  Value x = widen(a[0]);
  int64_t n = x.dim(0);
  if (n <= 1) return constant(x.program(), {x.dtype(), {0}}, 0);
  if (x.dim(1) == 0) return constant(x.program(), {x.dtype(), {n * (n - 1) / 2}}, 0);
  return take(flatten(lengths(differences(x, x), a.constant(1))), pairs(x.program(), n), 0);
}

// (grad, self, p, pdist)
Value pdist_backward(Args& a) {
  Value x = widen(a[1]);
  int64_t n = x.dim(0);
  if (n <= 1 || x.numel() == 0) return zeros_like(x);
  Value d = differences(x, x), places = pairs(x.program(), n);
  auto square = [&](Value line) {  // both halves of [n, n], spread like d
    Value half = constant(d.program(), {d.dtype(), {n * n}}, 0);
    half = reshape(scatter_slices(half, places, convert(line, d.dtype()), 0, nullptr), {n, n});
    return spread(half + transpose(half, {1, 0}), d, {2});
  };
  return reduce_sum(slopes(d, square(a[3]), a.constant(2)) * square(a[0]), {1});
}

}  // namespace tpu::lower
