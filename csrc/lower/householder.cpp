// SPDX-License-Identifier: Apache-2.0
// Products of Householder reflections, in LAPACK's form: vectors below the diagonal of a matrix, and their
// scales.
#include "lower/householder.h"

#include "lower/contract.h"
#include "lower/lu.h"

namespace tpu::lower {

using namespace tpu::hlo;

static Value last_two(Value x, Value (*keep)(Value, Value)) {
  Value row = iota_like(x, x.rank() - 2, DType::kS32), column = iota_like(x, x.rank() - 1, DType::kS32);
  return select(keep(row, column), x, zeros_like(x));
}

static Value strictly_lower(Value x) {
  return last_two(x, [](Value row, Value column) { return gt(row, column); });
}

static Value strictly_upper(Value x) {
  return last_two(x, [](Value row, Value column) { return lt(row, column); });
}

// The vectors [.., m, k] of the first k columns of a.
static Value vectors(Value a, int64_t k) {
  Value v = strictly_lower(slice_in_dim(a, 0, k, 1, a.rank() - 1));
  return v + eye(a.program(), a.dtype(), v.dims());
}

// H_1 ... H_k x, or the adjoint of that product times x. The product is I - V T V^H, and with S the part of
// V^H V above the diagonal (I + diag(tau) S) T = diag(tau): two products and a small solve, no loop.
static Value apply(Value v, Value tau, Value x, bool turned_back) {
  int r = v.rank();
  int64_t k = v.dim(r - 1);
  if (k == 0 || x.numel() == 0) return x;
  Dims square = v.dims();
  square[r - 2] = k;
  std::vector<int> rows;
  for (int i = 0; i < r - 1; ++i) rows.push_back(i);
  Value one = eye(v.program(), v.dtype(), square), scale = broadcast_in_dim(tau, square, rows);
  Value inner = one + scale * strictly_upper(matmul(adjoint(v), v));
  Value t = triangular_solve(inner, one * scale, true, false, true, Transpose::kNone);
  return x - matmul(v, matmul(turned_back ? adjoint(t) : t, matmul(adjoint(v), x)));
}

Results geqrf(Args& a) {
  Dims dims = a.dims(0), leading(dims.begin(), dims.end() - 2);
  int64_t m = dims[dims.size() - 2], n = dims.back(), b = 1;
  for (int64_t size : leading) b *= size;
  Reflectors f = reflectors(reshape(a[0], {b, m, n}));
  int64_t k = std::min(m, n);
  Value below = strictly_lower(f.vectors);
  if (k < n) below = pad(below, constant(a.program(), {below.dtype(), {}}, 0), {0, 0, 0}, {0, 0, n - k});
  leading.push_back(k);
  return {reshape(f.upper + below, dims), reshape(f.scales, leading)};
}

Value householder_product(Args& a) {
  Value x = a[0], tau = a[1];
  return apply(vectors(x, tau.dims().back()), tau, eye(a.program(), x.dtype(), x.dims()), false);
}

Value ormqr(Args& a) {
  Value tau = a[1], other = a[2], v = vectors(a[0], tau.dims().back());
  if (a.flag(3)) return apply(v, tau, other, a.flag(4));
  return adjoint(apply(v, tau, adjoint(other), !a.flag(4)));
}

}  // namespace tpu::lower
