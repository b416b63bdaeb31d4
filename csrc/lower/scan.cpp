// SPDX-License-Identifier: Apache-2.0
// Cumulative ops.
#include "lower/scan.h"

#include <limits>

#include "lower/line.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

using Values = std::vector<Value>;

// One step after the other. Carried by the loop: the position, then the operands, the last results and all
// results.
Values step_by_step(const Values& xs, const Values& inits, int dim, const Body& combine) {
  Program& p = xs[0].program();
  const size_t count = xs.size();
  const int64_t n = xs[0].dim(dim);
  const Dims one = with_size(xs[0].dims(), dim, 1);
  Value zero = constant(p, Type{DType::kS32, {}}, 0);
  Values carried{zero};
  carried.insert(carried.end(), xs.begin(), xs.end());
  for (Value init : inits) carried.push_back(broadcast_to(init, one));
  for (Value x : xs) carried.push_back(zeros_like(x));
  auto more = [&](const Values& v) { return lt(v[0], static_cast<double>(n)); };
  auto step = [&](const Values& v) {
    Values starts(one.size(), constant(v[0].program(), Type{DType::kS32, {}}, 0));
    starts[dim] = v[0];
    Values now, next = v;
    for (size_t i = 0; i < count; ++i) now.push_back(dynamic_slice(v[1 + i], starts, one));
    now = combine(Values(v.begin() + 1 + count, v.begin() + 1 + 2 * count), now);
    next[0] = v[0] + 1.0;
    for (size_t i = 0; i < count; ++i) {
      next[1 + count + i] = now[i];
      next[1 + 2 * count + i] = dynamic_update_slice(v[1 + 2 * count + i], now[i], starts);
    }
    return next;
  };
  Values end = while_loop(carried, more, step);
  return Values(end.end() - count, end.end());
}

}  // namespace

Values scan(Values xs, const Values& inits, int dim, const Body& combine) {
  const int64_t n = xs[0].dim(dim);
  if (n <= 1 || xs[0].numel() == 0) return xs;
  if (n <= 128) return step_by_step(xs, inits, dim, combine);
  // Blocks of about sqrt(n): a scan within all of them, one over their ends, and what came before is added to
  // each.
  int64_t size = 1;
  while (size * size < n) size *= 2;
  const int64_t blocks = (n + size - 1) / size;
  Dims split = with_size(xs[0].dims(), dim, blocks);
  split.insert(split.begin() + dim + 1, size);
  for (size_t i = 0; i < xs.size(); ++i)
    xs[i] = reshape(place(xs[i], inits[i], dim, blocks * size, 0), split);
  xs = step_by_step(xs, inits, dim + 1, combine);
  Values before;
  for (Value x : xs) before.push_back(squeeze(cut(x, dim + 1, size - 1, size), dim + 1));
  before = step_by_step(before, inits, dim, combine);
  for (size_t i = 0; i < xs.size(); ++i)
    before[i] = spread(place(before[i], inits[i], dim, blocks, 1), xs[i], {dim + 1});
  xs = combine(before, xs);
  for (Value& x : xs) {
    Dims joined = x.dims();
    joined.erase(joined.begin() + dim + 1);
    x = cut(reshape(x, with_size(joined, dim, blocks * size)), dim, 0, n);
  }
  return xs;
}

Value scan(Value x, Value init, int dim, Binary combine) {
  return scan({x}, {init}, dim, [combine](const std::vector<Value>& left, const std::vector<Value>& right) {
    return std::vector<Value>{combine(left[0], right[0])};
  })[0];
}

namespace {

// log(exp(x) + exp(y)), also where one or both are infinite. Complex numbers are ordered by their real part.
Value log_add_exp(Value x, Value y) {
  if (!is_complex(x.dtype())) {
    Value low = minimum(x, y), high = maximum(x, y);
    Value plain = high + log_plus_one(exponential(low - high));
    return hlo::select(and_(eq(low, high), not_(is_finite(low))), high, plain);
  }
  Value swapped = lt(real(x), real(y));
  Value low = hlo::select(swapped, x, y), high = hlo::select(swapped, y, x);
  Value nothing = eq(real(low), -std::numeric_limits<double>::infinity());
  return hlo::select(nothing, high, high + log_plus_one(exponential(low - high)));
}

// cumsum and cumprod: (self, dim, *, dtype). Integers count in int64, halves in f32.
Rule cumulative(Binary combine, int init) {
  return [combine, init](Args& a) {
    Value x = a[0];
    if (auto dtype = a.maybe_dtype(2))
      x = convert(x, *dtype);
    else if (is_integral(x.dtype()) || x.dtype() == DType::kPred)
      x = convert(x, DType::kS64);
    x = widen(x);
    Value along = line(x);
    Value start = constant(x.program(), Type{x.dtype(), {}}, init);
    return shaped(scan(along, start, a.dim(1, along.rank()), combine), x.dims());
  };
}

// cummax and cummin: (self, dim). Of equal values the last one counts; a NaN stays until the next NaN.
Rule cumulative_extremum(Direction wins, Value (*weakest)(Program&, DType)) {
  return [wins, weakest](Args& a) -> Results {
    Value x = line(a[0]);
    int dim = a.dim(1, x.rank());
    DType counted = count_dtype(x.dim(dim));
    auto latest = [wins](const std::vector<Value>& left, const std::vector<Value>& right) {
      Value later = or_(is_nan(right[0]), and_(not_(is_nan(left[0])), compare(right[0], left[0], wins)));
      return std::vector<Value>{hlo::select(later, right[0], left[0]), hlo::select(later, right[1], left[1])};
    };
    auto scanned =
        scan({x, iota_like(x, dim, counted)},
             {weakest(x.program(), x.dtype()), constant(x.program(), Type{counted, {}}, 0)}, dim, latest);
    return {shaped(scanned[0], a.dims(0)), shaped(scanned[1], a.dims(0))};
  };
}

Value log_cum_sum_exp(Args& a) {
  Value x = a.floating(0);
  Value along = line(x), nothing = lowest(x.program(), real_of(x.dtype()));
  if (is_complex(x.dtype())) nothing = complex(nothing, zeros_like(nothing));
  return shaped(scan(along, nothing, a.dim(1, along.rank()), log_add_exp), x.dims());
}

}  // namespace

const Table scan_table = {
    {"cummax", cumulative_extremum(Direction::kGe, lowest)},
    {"cummin", cumulative_extremum(Direction::kLe, highest)},
    {"cumprod", cumulative(multiply, 1)},
    {"cumsum", cumulative(add, 0)},
    {"logcumsumexp", log_cum_sum_exp},
};

}  // namespace tpu::lower
