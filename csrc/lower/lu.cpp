// SPDX-License-Identifier: Apache-2.0
// Factorizations of batches of matrices [b, m, n] as loops over columns, with masks instead of scalar access.
#include "lower/lu.h"

#include <algorithm>

#include "lower/contract.h"
#include "lower/gather.h"
#include "lower/pointwise.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value eye(Program& p, DType dtype, Dims dims) {
  int rank = static_cast<int>(dims.size());
  Type type = {DType::kS32, dims};
  return convert(eq(iota(p, type, rank - 2), iota(p, type, rank - 1)), dtype);
}

Value adjoint(Value x) { return transposed(is_complex(x.dtype()) ? conj(x) : x); }

namespace {

Value whole(Value scalar, Value like) { return broadcast_to(scalar, like.dims()); }

// Column k of a [b, m, n] as [b, m].
Value column(Value a, Value k) {
  Value zero = zeros_like(k);
  return reshape(dynamic_slice(a, {zero, zero, k}, {a.dim(0), a.dim(1), 1}), {a.dim(0), a.dim(1)});
}

Value row(Value a, Value k) {
  Value zero = zeros_like(k);
  return reshape(dynamic_slice(a, {zero, k, zero}, {a.dim(0), 1, a.dim(2)}), {a.dim(0), a.dim(2)});
}

// Element k of each line of x [b, n].
Value element(Value x, Value k) {
  return reshape(dynamic_slice(x, {zeros_like(k), k}, {x.dim(0), 1}), {x.dim(0)});
}

Value by_row(Value x, Value a) { return broadcast_in_dim(x, a.dims(), {0, 1}); }
Value by_column(Value x, Value a) { return broadcast_in_dim(x, a.dims(), {0, 2}); }
Value by_matrix(Value x, Value a) { return broadcast_in_dim(x, a.dims(), {0}); }

Value outer(Value x, Value y, Value a) { return by_row(x, a) * by_column(y, a); }

// Runs body(k, carried) for k from 0 to count - 1.
std::vector<Value> for_each(int64_t count, std::vector<Value> carried,
                            const std::function<std::vector<Value>(Value, std::vector<Value>)>& body) {
  carried.insert(carried.begin(), constant(carried[0].program(), {DType::kS32, {}}, 0));
  auto result = while_loop(
      carried, [=](const std::vector<Value>& s) { return lt(s[0], static_cast<double>(count)); },
      [&](const std::vector<Value>& s) {
        std::vector<Value> next = body(s[0], {s.begin() + 1, s.end()});
        next.insert(next.begin(), s[0] + 1.0);
        return next;
      });
  return {result.begin() + 1, result.end()};
}

// LAPACK's measure of a pivot.
Value pivot_size(Value x) { return is_complex(x.dtype()) ? abs(real(x)) + abs(imag(x)) : abs(x); }

// Exchanges elements k and `other` [b] of each line of x [b, m].
Value exchanged(Value x, Value k, Value other) {
  Value place = iota_like(x, 1, DType::kS32), at = broadcast_in_dim(other, x.dims(), {0});
  Value is_other = eq(place, at), is_k = eq(place, whole(k, place));
  Value there = reduce_sum(select(is_other, x, zeros_like(x)), {1});
  Value here = element(x, k);
  x = select(is_other, broadcast_in_dim(here, x.dims(), {0}), x);
  return select(is_k, broadcast_in_dim(there, x.dims(), {0}), x);
}

}  // namespace

Lu lu(Value a, bool pivot) {
  int64_t b = a.dim(0), m = a.dim(1), n = a.dim(2), count = std::min(m, n);
  Program& p = a.program();
  Value order = iota(p, {DType::kS32, {b, m}}, 1), pivots = iota(p, {DType::kS32, {b, count}}, 1);
  auto step = [=](Value k, std::vector<Value> s) -> std::vector<Value> {
    Value a = s[0], place = iota_like(s[1], 1, DType::kS32), other = whole(k, reduce_max(place, {1}));
    if (pivot) {
      Value size = pivot_size(column(a, k));
      size = select(ge(place, whole(k, place)), size, constant_like(size, -1));
      Value most = spread(reduce_max(size, {1}), size, {1});
      Value found =
          reduce_min(select(eq(size, most), place, constant_like(place, static_cast<double>(m))), {1});
      other = select(eq(found, static_cast<double>(m)), other, found);  // nothing is found next to NaN
    }
    Value rows = iota_like(a, 1, DType::kS32), columns = iota_like(a, 2, DType::kS32);
    Value is_other = eq(rows, by_matrix(other, a)), is_k = eq(rows, whole(k, rows));
    Value upper = reduce_sum(select(is_other, a, zeros_like(a)), {1}), lower = row(a, k);
    a = select(is_other, by_column(lower, a), a);
    a = select(is_k, by_column(upper, a), a);
    Value head = broadcast_in_dim(element(upper, k), place.dims(), {0});
    Value below = gt(place, whole(k, place)), usable = ne(head, 0);
    Value factor = column(a, k) / select(usable, head, ones_like(head));
    factor = select(below, factor, zeros_like(factor));
    Value right = gt(columns, whole(k, columns));
    Value eliminated = a - outer(factor, upper, a);
    Value under = gt(rows, whole(k, rows));
    a = select(under & right, eliminated, a);
    a = select(under & eq(columns, whole(k, columns)), by_row(factor, a), a);
    Value turn = iota_like(s[2], 1, DType::kS32);
    Value now = broadcast_in_dim(other, s[2].dims(), {0});
    return {a, exchanged(s[1], k, other), select(eq(turn, whole(k, turn)), now, s[2])};
  };
  std::vector<Value> s = {a, order, pivots};
  if (a.numel() != 0) s = for_each(count, s, step);
  Value diagonal = diagonal_of(s[0]);
  Value place = iota_like(diagonal, 1, DType::kS32), none = constant_like(place, static_cast<double>(count));
  Value zero = reduce_min(select(eq(diagonal, 0), place, none), {1});
  Value info = select(lt(zero, static_cast<double>(count)), zero + 1.0, zeros_like(zero));
  return {s[0], s[2] + 1.0, s[1], info};
}

Value diagonal_of(Value a) {
  int64_t count = std::min(a.dim(1), a.dim(2));
  a = slice(a, {0, 0, 0}, {a.dim(0), count, count});
  return reduce_sum(select(eq(iota_like(a, 1, DType::kS32), iota_like(a, 2, DType::kS32)), a, zeros_like(a)),
                    {2});
}

Value permutation_of(Value pivots, int64_t m) {
  int64_t b = pivots.dim(0);
  Value order = iota(pivots.program(), {DType::kS32, {b, m}}, 1);
  if (pivots.numel() == 0) return order;
  return for_each(pivots.dim(1), {order, convert(pivots, DType::kS32)}, [](Value k, std::vector<Value> s) {
    return std::vector<Value>{exchanged(s[0], k, element(s[1], k) - 1.0), s[1]};
  })[0];
}

// Applies I - tau v v^H to x [b, m, n].
static Value reflected(Value x, Value v, Value tau) {
  Value along = reduce_sum(by_row(is_complex(v.dtype()) ? conj(v) : v, x) * x, {1});
  return x - outer(v, along, x) * by_matrix(tau, x);
}

Reflectors reflectors(Value a) {
  int64_t b = a.dim(0), m = a.dim(1), n = a.dim(2), count = std::min(m, n);
  Program& p = a.program();
  DType dtype = a.dtype();
  // LAPACK's signs: the diagonal of R gets the sign opposite to the element it replaces.
  auto step = [=](Value k, std::vector<Value> s) -> std::vector<Value> {
    Value a = s[0], x = column(a, k), place = iota_like(x, 1, DType::kS32);
    Value at = whole(k, place), below = gt(place, at);
    Value head = element(x, k), tail = select(below, x, zeros_like(x));
    Value size = abs(tail), rest = reduce_sum(size * size, {1});
    Value head_size = abs(head), norm = sqrt(rest + head_size * head_size);
    Value head_real = is_complex(dtype) ? real(head) : head;
    Value flat = eq(rest, 0);
    if (is_complex(dtype)) flat = flat & eq(imag(head), 0);
    Value beta = convert(select(ge(head_real, 0), -norm, norm), dtype);
    Value tau = select(flat, zeros_like(head), (beta - head) / select(flat, ones_like(beta), beta));
    Value scale = select(flat, ones_like(head), head - beta);
    Value v = tail / broadcast_in_dim(scale, x.dims(), {0});
    v = select(eq(place, at), ones_like(v), v);
    Value turned = reflected(a, v, is_complex(dtype) ? conj(tau) : tau);
    Value zero = zeros_like(k);
    return {turned, dynamic_update_slice(s[1], reshape(v, {b, m, 1}), {zero, zero, k}),
            dynamic_update_slice(s[2], reshape(tau, {b, 1}), {zero, k})};
  };
  std::vector<Value> s = {a, constant(p, {dtype, {b, m, count}}, 0), constant(p, {dtype, {b, count}}, 0)};
  if (a.numel() != 0) s = for_each(count, s, step);
  Value upper = le(iota_like(a, 1, DType::kS32), iota_like(a, 2, DType::kS32));
  return {select(upper, s[0], zeros_like(a)), s[1], s[2]};
}

Qr qr(Value a, int64_t columns) {
  int64_t b = a.dim(0), m = a.dim(1), n = a.dim(2), count = std::min(m, n);
  Reflectors f = reflectors(a);
  Value q = eye(a.program(), a.dtype(), {b, m, columns});
  if (a.numel() != 0)
    q = for_each(count, {q, f.vectors, f.scales}, [=](Value k, std::vector<Value> t) -> std::vector<Value> {
      Value back = static_cast<double>(count - 1) - k;
      return {reflected(t[0], column(t[1], back), element(t[2], back)), t[1], t[2]};
    })[0];
  return {q, slice(f.upper, {0, 0, 0}, {b, std::min(columns, m), n})};
}

// ---- Jacobi: in round t of a tournament of n (even) players, i meets j with i + j = t modulo n - 1; the one
// that would meet itself meets player n - 1. Each round turns all its pairs at once, and n - 1 rounds meet
// each pair once.

static Value partners(Value round, int64_t n) {
  Value i = iota(round.program(), {DType::kS32, {n}}, 0);
  Value modulus = constant_like(i, static_cast<double>(n - 1));
  Value last = constant_like(i, static_cast<double>(n - 1));
  Value j = remainder(
      whole(remainder(round, constant_like(round, static_cast<double>(n - 1))), i) - i + modulus, modulus);
  // Player n - 1 meets the one with 2 i = t.
  Value t = whole(remainder(round, constant_like(round, static_cast<double>(n - 1))), i);
  Value half = select(eq(remainder(t, constant_like(t, 2)), 0), t, t + modulus) / constant_like(t, 2);
  return select(eq(i, last), half, select(eq(j, i), last, j));
}

struct Turn {
  Value cosine;  // real [b, n]
  Value factor;  // [b, n]: x_i becomes cosine_i x_i - factor_i x_partner
};

// The turns that make the entries `across` [b, n] between each i and its partner zero, given the diagonal.
static Turn turns(Value own, Value other, Value across, Value partner) {
  Value size = abs(across), tiny = eq(size, 0);
  Value safe = select(tiny, ones_like(size), size);
  Value slope = (other - own) / (2.0 * safe);
  Value i = iota_like(own, 1, DType::kS32);
  Value first = lt(i, broadcast_in_dim(partner, own.dims(), {1}));
  Value side = select(eq(slope, 0), select(first, ones_like(slope), constant_like(slope, -1)), sign(slope));
  Value tangent = side / (abs(slope) + sqrt(slope * slope + 1.0));
  tangent = select(tiny, zeros_like(tangent), tangent);
  Value cosine = rsqrt(tangent * tangent + 1.0);
  Value phase = across / convert(safe, across.dtype());
  return {cosine, convert(tangent * cosine, across.dtype()) * phase};
}

static Value conj_if(Value x) { return is_complex(x.dtype()) ? conj(x) : x; }

static Value turned_columns(Value x, const Turn& t, Value partner) {
  return x * by_column(convert(t.cosine, x.dtype()), x) -
         take(x, partner, 2) * by_column(conj_if(t.factor), x);
}

static double tolerance(DType dtype) { return real_of(dtype) == DType::kF64 ? 1e-16 : 1e-8; }

static Value padded_even(Value a, bool rows) {
  int64_t extra = a.dim(2) % 2;
  return pad(a, constant(a.program(), {a.dtype(), {}}, 0), {0, 0, 0}, {0, rows ? extra : 0, extra});
}

static Value largest(Value x) { return reduce_max(x, {0, 1, 2}); }

Eigen eigh(Value a) {
  int64_t b = a.dim(0), size = a.dim(2);
  Program& p = a.program();
  DType dtype = a.dtype();
  a = padded_even(a, true);
  int64_t n = a.dim(2);
  Value vectors = eye(p, dtype, a.dims());
  auto off_diagonal = [](Value x) {
    return select(eq(iota_like(x, 1, DType::kS32), iota_like(x, 2, DType::kS32)), zeros_like(x), x);
  };
  if (size > 1 && b > 0) {
    Value limit = largest(abs(a)) * tolerance(dtype);
    Value zero = constant(p, {DType::kS32, {}}, 0);
    constexpr int kSweeps = 30;
    auto more = [=](const std::vector<Value>& s) {
      return lt(s[0], static_cast<double>(kSweeps * (n - 1))) & gt(s[3], s[4]);
    };
    auto round = [=](const std::vector<Value>& s) -> std::vector<Value> {
      Value a = s[1], partner = partners(s[0], n);
      Value own = diagonal_of(a);
      if (is_complex(own.dtype())) own = real(own);
      Value met = eq(broadcast_in_dim(partner, a.dims(), {1}), iota_like(a, 2, DType::kS32));
      Value across = reduce_sum(select(met, a, zeros_like(a)), {2});
      Turn t = turns(own, take(own, partner, 1), across, partner);
      a = a * by_row(convert(t.cosine, dtype), a) - take(a, partner, 1) * by_row(t.factor, a);
      a = turned_columns(a, t, partner);
      return {s[0] + 1.0, a, turned_columns(s[2], t, partner), largest(abs(off_diagonal(a))), s[4]};
    };
    auto s = while_loop({zero, a, vectors, largest(abs(off_diagonal(a))), limit}, more, round);
    a = s[1], vectors = s[2];
  }
  Value values = slice_in_dim(diagonal_of(a), 0, size, 1, 1);
  if (is_complex(dtype)) values = real(values);
  vectors = slice(vectors, {0, 0, 0}, {b, size, size});
  auto sorted = sort({values, iota_like(values, 1, DType::kS32)}, 1, true,
                     [](const std::vector<Value>& l, const std::vector<Value>& r) {
                       return std::vector<Value>{lt(l[0], r[0])};
                     });
  Value index = broadcast_in_dim(sorted[1], {b, size, size}, {0, 2});
  return {sorted[0], take_along(vectors, index, 2)};
}

Svd svd(Value a) {
  int64_t b = a.dim(0), m = a.dim(1), size = a.dim(2);
  Program& p = a.program();
  DType dtype = a.dtype();
  a = padded_even(a, false);
  int64_t n = a.dim(2);
  Value right = eye(p, dtype, {b, n, n});
  auto squares = [](Value x) {
    Value s = abs(x);
    return reduce_sum(s * s, {1});
  };
  if (size > 1 && b > 0 && m > 0) {
    Value zero = constant(p, {DType::kS32, {}}, 0), one = constant(p, {real_of(dtype), {}}, 1);
    constexpr int kSweeps = 30;
    // s[3] collects the greatest cosine between two columns that a sweep met; s[4] is that of the sweep
    // before.
    auto more = [=](const std::vector<Value>& s) {
      return lt(s[0], static_cast<double>(kSweeps * (n - 1))) & gt(s[4], 10 * tolerance(dtype));
    };
    auto round = [=](const std::vector<Value>& s) -> std::vector<Value> {
      Value a = s[1], partner = partners(s[0], n);
      Value across = reduce_sum(conj_if(a) * take(a, partner, 2), {1});
      Value own = squares(a), other = take(own, partner, 1);
      Turn t = turns(own, other, across, partner);
      Value bound = sqrt(own) * sqrt(other);
      Value angle = reduce_max(select(gt(bound, 0), abs(across) / bound, zeros_like(bound)), {0, 1});
      Value worst = maximum(s[3], angle);
      Value ends =
          eq(remainder(s[0], constant_like(s[0], static_cast<double>(n - 1))), static_cast<double>(n - 2));
      return {s[0] + 1.0, turned_columns(a, t, partner), turned_columns(s[2], t, partner),
              select(ends, zeros_like(worst), worst), select(ends, worst, s[4])};
    };
    auto s = while_loop({zero, a, right, zeros_like(one), one}, more, round);
    a = s[1], right = s[2];
  }
  Value values = slice_in_dim(sqrt(squares(a)), 0, size, 1, 1);
  auto sorted = sort({values, iota_like(values, 1, DType::kS32)}, 1, true,
                     [](const std::vector<Value>& l, const std::vector<Value>& r) {
                       return std::vector<Value>{gt(l[0], r[0])};
                     });
  Value left =
      take_along(slice(a, {0, 0, 0}, {b, m, size}), broadcast_in_dim(sorted[1], {b, m, size}, {0, 2}), 2);
  right = slice(right, {0, 0, 0}, {b, size, size});
  right = take_along(right, broadcast_in_dim(sorted[1], right.dims(), {0, 2}), 2);
  return {left, sorted[0], right};
}

}  // namespace tpu::lower
