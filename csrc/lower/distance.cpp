// SPDX-License-Identifier: Apache-2.0
// Distances between each pair of points of two sets.
#include "lower/distance.h"

#include <cmath>

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

// (x1, x2, p, compute_mode)
Value cdist(Args& a) {
  auto [x, y] = together(widen(a[0]), widen(a[1]));
  double p = a.constant(2);
  Value d = abs(differences(x, y));
  int last = d.rank() - 1;
  if (p == 0) return reduce_sum(convert(ne(d, 0), d.dtype()), {last});
  if (p == 1) return reduce_sum(d, {last});
  if (p == 2) return sqrt(reduce_sum(d * d, {last}));
  if (std::isinf(p)) return maximum(reduce_max(d, {last}), 0);
  Value sum = reduce_sum(power(d, constant_like(d, p)), {last});
  return power(sum, constant_like(sum, 1 / p));
}

// (grad, x1, x2, p, cdist)
Value cdist_backward(Args& a) {
  auto [x, y] = together(widen(a[1]), widen(a[2]));
  double p = a.constant(3);
  Value d = differences(x, y), size = abs(d);
  int last = d.rank() - 1;
  auto full = [&](Value v) {
    return spread(broadcast_to(widen(v), Dims(d.dims().begin(), d.dims().end() - 1)), d, {last});
  };
  Value grad = full(a[0]), distance = full(a[4]), slope;
  if (p == 0)
    slope = zeros_like(d);
  else if (p == 1)
    slope = sign(d);
  else if (p == 2)
    slope = d / distance;
  else if (std::isinf(p))
    slope = select(eq(size, distance), sign(d), zeros_like(d));
  else
    slope = sign(d) * power(size / distance, constant_like(size, p - 1));
  if (p != 0 && p != 1) slope = select(eq(distance, 0) | eq(d, 0), zeros_like(d), slope);
  return reduce_sum(slope * grad, {last - 1});
}

}  // namespace tpu::lower
