// SPDX-License-Identifier: Apache-2.0
// Linear algebra over batches of matrices, distances, and Fourier transforms (fourier.cpp).
#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>

#include "lower/contract.h"
#include "lower/distance.h"
#include "lower/fourier.h"
#include "lower/gather.h"
#include "lower/householder.h"
#include "lower/lu.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

// ---- batches: rules work on [b, m, n]; `lead` are the dims before the matrix

static Dims lead(const Dims& dims, int last = 2) { return {dims.begin(), dims.end() - last}; }

static Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

static Value flat(Value x) {
  int r = x.rank();
  return reshape(x, {product(lead(x.dims())), x.dim(r - 2), x.dim(r - 1)});
}

// A flat result back under the leading dims.
static Value under(const Dims& leading, Value x) {
  return reshape(x, joined(leading, {x.dims().begin() + 1, x.dims().end()}));
}

static Value stretched(Value x, const Dims& leading) {
  return broadcast_to(x, joined(leading, {x.dims().end() - 2, x.dims().end()}));
}

// Both with the leading dims that they have together.
static std::pair<Value, Value> together(Value x, Value y) {
  Dims leading = broadcast_dims(lead(x.dims()), lead(y.dims()));
  return {stretched(x, leading), stretched(y, leading)};
}

static Value triangle(Value x, bool upper, bool diagonal = true) {
  Value row = iota_like(x, x.rank() - 2, DType::kS32), column = iota_like(x, x.rank() - 1, DType::kS32);
  Value keep =
      upper ? (diagonal ? le(row, column) : lt(row, column)) : (diagonal ? ge(row, column) : gt(row, column));
  return select(keep, x, zeros_like(x));
}

static Value solved(Value a, Value b, bool left, bool upper, bool unit,
                    Transpose transpose = Transpose::kNone) {
  if (b.numel() == 0 || a.numel() == 0) return b;
  return triangular_solve(a, b, left, !upper, unit, transpose);
}

static Transpose adjoint_kind(Value x) {
  return is_complex(x.dtype()) ? Transpose::kAdjoint : Transpose::kTranspose;
}

static void require_zero(Args& a, Value info, const char* message) {
  std::vector<int> all;
  for (int i = 0; i < info.rank(); ++i) all.push_back(i);
  a.source().require(reduce_and(eq(info, 0), all), "runtime", message);
}

static const char* const kSingular =
    "linalg: the factorization met a matrix that is singular or not positive-definite";

// ---- Cholesky

// The factor, and kS32 info: XLA fills a failed factor with NaN and does not say where, so it is 1.
static std::pair<Value, Value> cholesky_factor(Value x, bool upper) {
  if (x.numel() == 0) return {x, constant(x.program(), {DType::kS32, lead(x.dims())}, 0)};
  Value factor = triangle(cholesky(upper ? adjoint(x) : x, true), false);
  int r = x.rank();
  Value failed = reduce_or(is_nan(factor), {r - 2, r - 1});
  return {upper ? adjoint(factor) : factor, convert(failed, DType::kS32)};
}

// (self, upper, check_errors) -> (L, info)
static Results cholesky_ex(Args& a) {
  auto [factor, info] = cholesky_factor(a[0], a.flag(1));
  if (a.flag(2)) require_zero(a, info, kSingular);
  return {factor, info};
}

// (self, upper): raises if self is not positive definite
static Value cholesky_rule(Args& a) {
  auto [factor, info] = cholesky_factor(a[0], a.flag(1));
  require_zero(
      a, info,
      "cholesky: The factorization could not be completed because the input is not positive-definite (the "
      "leading minor of order 1 is not positive-definite).");
  return factor;
}

// Solves (L L^H) x = b, or (U^H U) x = b.
static Value cholesky_solved(Value factor, Value b, bool upper) {
  Transpose flip = adjoint_kind(factor);
  Value half = solved(factor, b, true, upper, false, upper ? flip : Transpose::kNone);
  return solved(factor, half, true, upper, false, upper ? Transpose::kNone : flip);
}

static Value cholesky_inverse(Args& a) {
  Value factor = triangle(a[0], a.flag(1));
  return cholesky_solved(factor, eye(a.program(), factor.dtype(), factor.dims()), a.flag(1));
}

// ---- triangular systems

// (self, B, upper, left, unitriangular)
static Value solve_triangular(Args& a) {
  auto [x, b] = together(a[0], a[1]);
  return solved(x, b, a.flag(3), a.flag(2), a.flag(4));
}

// (self = b, A, upper, transpose, unitriangular) -> (solution, A)
static Results old_triangular_solve(Args& a) {
  auto [b, x] = together(a[0], a[1]);
  return {solved(x, b, true, a.flag(2), a.flag(4), a.flag(3) ? Transpose::kTranspose : Transpose::kNone), x};
}

// ---- LU

// Solves with a = P^T L U (order: row i of L U is row order[i] of a): a x = b, or a^H x = b with `adjoint`.
static Value lu_solved(Value matrix, Value order, Value b, bool adjoint) {
  auto rows = [&](Value index) { return broadcast_in_dim(index, b.dims(), {0, 1}); };
  if (b.numel() == 0) return b;
  if (!adjoint) {
    Value x = take_along(b, rows(order), 1);
    x = solved(matrix, x, true, false, true);
    return solved(matrix, x, true, true, false);
  }
  Transpose flip = adjoint_kind(matrix);
  Value x = solved(matrix, b, true, true, false, flip);
  x = solved(matrix, x, true, false, true, flip);
  // Back to the rows of a: the inverse of the permutation.
  Value places = iota_like(order, 1, DType::kS32);
  Value inverse =
      sort({order, places}, 1, true, [](const std::vector<Value>& l, const std::vector<Value>& r) {
        return std::vector<Value>{lt(l[0], r[0])};
      })[1];
  return take_along(x, rows(inverse), 1);
}

// PyTorch's backward formulas of det and slogdet expect the factors of the transpose if A is contiguous and
// real.
static bool factors_transpose(Args& a) {
  const at::Tensor& tensor = a.ivalue(0).toTensor();
  return tensor.is_contiguous() && !tensor.is_complex();
}

static Lu lu_as_saved(Args& a, Value x) { return lu(factors_transpose(a) ? transposed(x) : x, true); }

// (A, pivot, check_errors) -> (LU, pivots, info)
static Results lu_factor_ex(Args& a) {
  Dims leading = lead(a.dims(0));
  Lu f = lu(flat(a[0]), a.flag(1));
  if (a.flag(2)) require_zero(a, f.info, kSingular);
  return {under(leading, f.matrix), under(leading, f.pivots), under(leading, f.info)};
}

// P [b, m, m] of a = P L U.
static Value permutation_matrix(Value order, DType dtype) {
  int64_t b = order.dim(0), m = order.dim(1);
  Type type = {DType::kS32, {b, m, m}};
  Value row = iota(order.program(), type, 1);
  return convert(eq(row, broadcast_in_dim(order, type.dims, {0, 2})), dtype);
}

static Results unpacked(Value matrix, Value order) {
  int64_t b = matrix.dim(0), m = matrix.dim(1), n = matrix.dim(2), k = std::min(m, n);
  Value lower = triangle(slice(matrix, {0, 0, 0}, {b, m, k}), false, false);
  return {permutation_matrix(order, matrix.dtype()), lower + eye(matrix.program(), matrix.dtype(), {b, m, k}),
          triangle(slice(matrix, {0, 0, 0}, {b, k, n}), true)};
}

// (A, pivot) -> (P, L, U)
static Results lu_rule(Args& a) {
  Dims leading = lead(a.dims(0));
  bool pivot = a.flag(1);
  Lu f = lu(flat(a[0]), pivot);
  Results out = unpacked(f.matrix, f.permutation);
  for (Value& v : out) v = under(leading, v);
  if (!pivot) out[0] = constant(a.program(), {out[0].dtype(), {0}}, 0);
  return out;
}

static Value nothing(Args& a) { return constant(a.program(), {a.dtype(0), {0}}, 0); }

// (LU_data, LU_pivots, unpack_data, unpack_pivots) -> (P, L, U)
static Results lu_unpack(Args& a) {
  Dims leading = lead(a.dims(0));
  Value matrix = flat(a[0]);
  Value pivots = reshape(a[1], {matrix.dim(0), std::min(matrix.dim(1), matrix.dim(2))});
  Results out = unpacked(matrix, permutation_of(pivots, matrix.dim(1)));
  for (Value& v : out) v = under(leading, v);
  if (!a.flag(2)) out[1] = out[2] = nothing(a);
  if (!a.flag(3)) out[0] = nothing(a);
  return out;
}

// (LU, pivots, B, left, adjoint)
static Value lu_solve(Args& a) {
  bool left = a.flag(3);
  auto [matrix, b] = together(a[0], a[2]);
  Dims leading = lead(matrix.dims());
  int64_t n = matrix.dim(matrix.rank() - 1);
  Value pivots = broadcast_to(a[1], joined(leading, {n}));
  Value order = permutation_of(reshape(pivots, {product(leading), n}), n);
  // x A = b is A^H x^H = b^H.
  Value x = lu_solved(flat(matrix), order, flat(left ? b : adjoint(b)), left == a.flag(4));
  x = under(leading, x);
  return left ? x : adjoint(x);
}

// (A, B, left, check_errors) -> (result, LU, pivots, info)
static Results solve_ex(Args& a) {
  Value x = a[0], b = a[1];
  bool left = a.flag(2);
  Dims dims = x.dims(), leading = lead(dims);
  bool vector = b.rank() == 1 || (b.rank() + 1 == x.rank() && b.dims() == lead(dims, 1));
  if (vector) b = unsqueeze(b, b.rank());
  Lu f = lu(flat(x), true);
  if (a.flag(3))
    require_zero(a, f.info, "linalg.solve: The solver failed because the input matrix is singular.");
  Dims all = broadcast_dims(leading, lead(b.dims()));
  auto spread_out = [&](Value v, int own) {
    return broadcast_to(under(leading, v), joined(all, {v.dims().end() - own, v.dims().end()}));
  };
  Value matrix = flat(spread_out(f.matrix, 2)), order = spread_out(f.permutation, 1);
  order = reshape(order, {product(all), order.dim(order.rank() - 1)});
  b = stretched(b, all);
  // x A = b is A^H x^H = b^H.
  bool flips = !left && !vector;
  Value solution = lu_solved(matrix, order, flat(flips ? adjoint(b) : b), flips);
  solution = under(all, solution);
  if (flips) solution = adjoint(solution);
  if (vector) solution = squeeze(solution, solution.rank() - 1);
  return {solution, under(leading, f.matrix), under(leading, f.pivots), under(leading, f.info)};
}

// (A, check_errors) -> (inverse, info)
static Results inv_ex(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  Lu f = lu(x, true);
  if (a.flag(1))
    require_zero(a, f.info,
                 "linalg.inv: The inversion could not be completed because the input matrix is singular.");
  Value inverse = lu_solved(f.matrix, f.permutation, eye(a.program(), x.dtype(), x.dims()), false);
  return {under(leading, inverse), under(leading, f.info)};
}

// 1 or -1: the sign of the permutation.
static Value parity(const Lu& f, DType dtype) {
  Value moved = ne(f.pivots, iota_like(f.pivots, 1, DType::kS32) + 1.0);
  Value count = reduce_sum(convert(moved, DType::kS32), {1});
  Value odd = eq(remainder(count, constant_like(count, 2)), 1);
  Value one = constant(count.program(), {dtype, count.dims()}, 1);
  return select(odd, -one, one);
}

// (A) -> (result, LU, pivots)
static Results det(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  Lu f = lu_as_saved(a, x);
  Value result = reduce_prod(diagonal_of(f.matrix), {1}) * parity(f, x.dtype());
  return {under(leading, result), under(leading, f.matrix), under(leading, f.pivots)};
}

// (A) -> (sign, logabsdet, LU, pivots)
static Results slogdet(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  Lu f = lu_as_saved(a, x);
  Value diagonal = diagonal_of(f.matrix), size = abs(diagonal);
  Value signs = is_complex(x.dtype())
                    ? diagonal / convert(select(eq(size, 0), ones_like(size), size), x.dtype())
                    : sign(diagonal);
  return {under(leading, reduce_prod(signs, {1}) * parity(f, x.dtype())),
          under(leading, reduce_sum(log(size), {1})), under(leading, f.matrix), under(leading, f.pivots)};
}

// ---- QR, eigenvalues, singular values

// (A, mode) -> (Q, R)
static Results qr_rule(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  std::string mode = a.string(1);
  int64_t m = x.dim(1), columns = mode == "complete" ? m : std::min(m, x.dim(2));
  Qr f = qr(x, columns);
  return {mode == "r" ? nothing(a) : under(leading, f.q), under(leading, f.r)};
}

// (A, UPLO, compute_v) -> (eigenvalues, eigenvectors)
static Results eigh_rule(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  std::string side = a.string(1);
  bool upper = side == "U" || side == "u";
  Value half = triangle(x, upper, false), on = x * eye(a.program(), x.dtype(), x.dims());
  if (is_complex(x.dtype())) on = complex(real(on), zeros_like(real(on)));
  Eigen e = eigh(half + adjoint(half) + on);
  return {under(leading, e.values), a.flag(2) ? under(leading, e.vectors) : nothing(a)};
}

// (A, full_matrices, compute_uv, driver) -> (U, S, Vh)
static Results svd_rule(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(a[0]);
  bool wide = x.dim(1) < x.dim(2), full = a.flag(1);
  Svd f = svd(wide ? adjoint(x) : x);
  if (!a.flag(2)) return {nothing(a), under(leading, f.values), nothing(a)};
  int64_t m = f.left.dim(1), k = f.left.dim(2);
  Value length = broadcast_in_dim(convert(f.values, x.dtype()), f.left.dims(), {0, 2});
  Value zero = eq(length, 0);
  Value unit = f.left / select(zero, ones_like(length), length);
  // Columns of length 0, and those that a full matrix has more, come from an orthonormal completion.
  Qr completion = qr(unit, full ? m : k);
  Value left = select(zero, slice(completion.q, {0, 0, 0}, {unit.dim(0), m, k}), unit);
  if (full && m > k) left = concatenate({left, slice(completion.q, {0, 0, k}, {unit.dim(0), m, m})}, 2);
  Value u = wide ? f.right : left, vh = adjoint(wide ? left : f.right);
  return {under(leading, u), under(leading, f.values), under(leading, vh)};
}

// ---- others

// (self, other, dim)
static Value cross(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  int dim = a.dim(2, xs[0].rank());
  auto rolled = [&](Value x, int64_t by) {
    return concatenate({slice_in_dim(x, by, 3, 1, dim), slice_in_dim(x, 0, by, 1, dim)}, dim);
  };
  return rolled(xs[0], 1) * rolled(xs[1], 2) - rolled(xs[0], 2) * rolled(xs[1], 1);
}

// exp(x) = (exp(x / 2^s))^(2^s), with a Taylor series for the inner one. All of a batch take the s of its
// greatest matrix.
static Value matrix_exp(Args& a) {
  Dims leading = lead(a.dims(0));
  Value x = flat(widen(a[0]));
  if (x.numel() == 0) return a[0];
  Program& p = a.program();
  DType real_dtype = real_of(x.dtype());
  Value norm = reduce_max(reduce_sum(abs(x), {1}), {0, 1});
  Value s = convert(ceil(log(maximum(norm, 1e-30)) / std::log(2.0)) + 1.0, DType::kS32);
  s = clamp(constant(p, s.type(), 0), s, constant(p, s.type(), 1000));
  Value scale = power(constant(p, {real_dtype, {}}, 0.5), convert(s, real_dtype));
  x = x * broadcast_to(convert(scale, x.dtype()), x.dims());
  Value one = eye(p, x.dtype(), x.dims()), sum = one;
  for (int k = real_dtype == DType::kF64 ? 18 : 10; k > 0; --k)
    sum = one + matmul(x, sum) / static_cast<double>(k);
  Value zero = constant(p, {DType::kS32, {}}, 0);
  auto squared = while_loop(
      {zero, s, sum}, [](const std::vector<Value>& v) { return lt(v[0], v[1]); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        return {v[0] + 1.0, v[1], matmul(v[2], v[2])};
      });
  return under(leading, squared[2]);
}

const Table linalg_table = {
    {"_cdist_backward", cdist_backward},
    {"_cdist_forward", cdist},
    {"_cholesky_solve_helper", [](Args& a) { return cholesky_solved(a[1], a[0], a.flag(2)); }},
    {"_fft_c2c", fft_c2c},
    {"_fft_c2r", fft_c2r},
    {"_fft_r2c", fft_r2c},
    {"_linalg_det", det},
    {"_linalg_eigh", eigh_rule},
    {"_linalg_slogdet", slogdet},
    {"_linalg_solve_ex", solve_ex},
    {"_linalg_svd", svd_rule},
    {"_pdist_backward", pdist_backward},
    {"_pdist_forward", pdist},
    {"cholesky", cholesky_rule},
    {"cholesky_inverse", cholesky_inverse},
    {"geqrf", geqrf},
    {"linalg_cholesky_ex", cholesky_ex},
    {"linalg_cross", cross},
    {"linalg_householder_product", householder_product},
    {"linalg_inv_ex", inv_ex},
    {"linalg_lu", lu_rule},
    {"linalg_lu_factor_ex", lu_factor_ex},
    {"linalg_lu_solve", lu_solve},
    {"linalg_matrix_exp", matrix_exp},
    {"linalg_qr", qr_rule},
    {"linalg_solve_triangular", solve_triangular},
    {"lu_unpack", lu_unpack},
    {"ormqr", ormqr},
    {"triangular_solve", old_triangular_solve},
};

}  // namespace tpu::lower
