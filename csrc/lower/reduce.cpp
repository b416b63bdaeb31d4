// SPDX-License-Identifier: Apache-2.0
// Reductions over dims. Those that need a sort are in reduce_order.cpp.
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "lower/line.h"
#include "lower/reduce_order.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

using Axes = std::vector<int>;
using Reduce = Value (*)(Value, const Axes&);

// An `int dim`, `int? dim`, `int[] dim` or `int[]? dim` argument: none or empty is all of them.
Axes axes(Args& a, size_t i, int rank) {
  if (a.ivalue(i).isInt()) return {a.dim(i, rank)};
  return a.dims(i, rank);
}

Axes all_axes(Value x) {
  Axes dims(x.rank());
  for (int i = 0; i < x.rank(); ++i) dims[i] = i;
  return dims;
}

int64_t extent(Value x, const Axes& dims) {
  int64_t n = 1;
  for (int dim : dims) n *= x.dim(dim);
  return n;
}

Axes all_but(const Axes& dims, int rank) {
  Axes rest;
  for (int dim = 0; dim < rank; ++dim)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) rest.push_back(dim);
  return rest;
}

// The reduced value as the caller of an op on argument 0 wants it: keepdim leaves ones where dims were.
Value kept(Args& a, Value reduced, const Axes& dims, bool keepdim) {
  Dims sizes = a.dims(0);
  if (!keepdim || sizes.empty()) return reduced;
  for (int dim : dims) sizes[dim] = 1;
  return shaped(reduced, sizes);
}

// ---- what is reduced
Value truth(Value x) { return x.dtype() == DType::kPred ? x : ne(x, zeros_like(x)); }
Value same(Value x) { return x; }

// What sum and prod accumulate: integers in int64, halves in f32, in any case the dtype asked for.
Value accumulable(Args& a, size_t dtype) {
  Value x = line(a[0]);
  if (auto wanted = a.maybe_dtype(dtype))
    x = convert(x, *wanted);
  else if (is_integral(x.dtype()) || x.dtype() == DType::kPred)
    x = convert(x, DType::kS64);
  return widen(x);
}

Value without_nan(Value x) { return is_floating(x.dtype()) ? hlo::select(is_nan(x), zeros_like(x), x) : x; }

Value squared_magnitude(Value x) {
  if (!is_complex(x.dtype())) return x * x;
  Value re = real(x), im = imag(x);
  return re * re + im * im;
}

// ---- combinators
// (self)
Rule whole(Value (*prepare)(Value), Reduce reduce) {
  return [=](Args& a) {
    Value x = line(a[0]);
    return reduce(prepare(x), all_axes(x));
  };
}

// max and min of all elements.
Rule whole_extremum(Reduce reduce) {
  return [=](Args& a) {
    Value x = line(a[0]);
    TORCH_CHECK(x.numel() > 0, reduce == reduce_max ? "max" : "min",
                "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument.");
    return reduce(x, all_axes(x));
  };
}

// (self, dim, keepdim)
Rule over(Value (*prepare)(Value), Reduce reduce) {
  return [=](Args& a) {
    Value x = line(a[0]);
    Axes dims = axes(a, 1, x.rank());
    return kept(a, reduce(prepare(x), dims), dims, a.flag(2));
  };
}

// all.dims and any.dims: an empty list of dims, unlike none, reduces nothing.
Rule over_listed(Reduce reduce) {
  Rule rule = over(truth, reduce);
  return [=](Args& a) -> Results {
    if (a.has(1) && a.ints(1).empty()) return {truth(a[0])};
    return rule(a);
  };
}

// (self, dim, keepdim, *, dtype)
Rule accumulated(Value (*prepare)(Value), Reduce reduce) {
  return [=](Args& a) {
    Value x = accumulable(a, 3);
    Axes dims = axes(a, 1, x.rank());
    return kept(a, reduce(prepare(x), dims), dims, a.flag(2));
  };
}

// ---- extrema with their places
// The first place along dim where x is its extremum, or NaN. Two plain reductions are faster than one of
// pairs.
Value first_place(Value x, Value extremum, int dim) {
  int64_t n = x.dim(dim);
  Value hit = eq(x, spread(extremum, x, {dim}));
  if (is_floating(x.dtype())) hit = or_(hit, is_nan(x));
  Value place = iota_like(x, dim, count_dtype(n));
  return reduce_min(hlo::select(hit, place, constant_like(place, static_cast<double>(n))), {dim});
}

// (self, dim, keepdim)
Rule extremum_and_place(Reduce reduce) {
  return [=](Args& a) -> Results {
    Value x = line(a[0]);
    int dim = a.dim(1, x.rank());
    check_extent(reduce == reduce_max ? "max" : "min", x, dim);
    Value best = reduce(x, {dim});
    return {kept(a, best, {dim}, a.flag(2)), kept(a, first_place(x, best, dim), {dim}, a.flag(2))};
  };
}

// (self, int? dim, keepdim): without dim, the place in the flattened tensor.
Rule place_of(Reduce reduce) {
  return [=](Args& a) {
    Value x = a.has(1) ? line(a[0]) : flatten(a[0]);
    int dim = a.has(1) ? a.dim(1, x.rank()) : 0;
    Value place = first_place(x, reduce(x, {dim}), dim);
    if (a.has(1)) return kept(a, place, {dim}, a.flag(2));
    return a.flag(2) ? shaped(place, Dims(a.dims(0).size(), 1)) : place;
  };
}

// (self, *, int? dim, keepdim)
Results aminmax(Args& a) {
  Value x = line(a[0]);
  Axes dims = axes(a, 1, x.rank());
  return {kept(a, reduce_min(x, dims), dims, a.flag(2)), kept(a, reduce_max(x, dims), dims, a.flag(2))};
}

// ---- moments
struct Moments {
  Axes dims;
  Value mean, variance;
};

// (self, dim, *, correction, keepdim). The divisor is count - correction, not below 0.
Moments moments(Args& a) {
  Value x = line(a.floating(0));
  Axes dims = axes(a, 1, x.rank());
  const int64_t n = extent(x, dims);
  Value mean = reduce_sum(x, dims);
  mean = mean / number_like(mean, n);
  Value squares = reduce_sum(squared_magnitude(x - spread(mean, x, dims)), dims);
  Type number{squares.dtype(), {}};
  Value correction = a.has(2) ? a.scalar(2, number.dtype) : constant(x.program(), number, 1);
  Value divisor = maximum(number_like(correction, n) - correction, 0.0);
  return {dims, mean, squares / broadcast_to(divisor, squares.dims())};
}

// var, std: the one value, or with the mean.
Rule spread_of(Value (*finish)(Value), bool with_mean) {
  return [=](Args& a) -> Results {
    Moments m = moments(a);
    Results results{kept(a, finish(m.variance), m.dims, a.flag(3))};
    if (with_mean) results.push_back(kept(a, m.mean, m.dims, a.flag(3)));
    return results;
  };
}

Value mean(Args& a) {
  Value x = accumulable(a, 3);
  Axes dims = axes(a, 1, x.rank());
  Value sum = reduce_sum(x, dims);
  return kept(a, sum / number_like(sum, extent(x, dims)), dims, a.flag(2));
}

// ---- norms
Value p_norm(Value x, double p, const Axes& dims) {
  if (p == 2) return sqrt(reduce_sum(squared_magnitude(x), dims));
  Value size = abs(x);
  if (p == 0) return reduce_sum(convert(ne(size, 0.0), size.dtype()), dims);
  if (p == 1) return reduce_sum(size, dims);
  if (std::isinf(p)) return p > 0 ? reduce_max(size, dims) : reduce_min(size, dims);
  Value sum = reduce_sum(power(size, constant_like(size, p)), dims);
  return power(sum, constant_like(sum, 1 / p));
}

// (self, p, dim, keepdim, *, dtype). The order decides which ops are used, so it is part of the program.
Value norm(Args& a) {
  Value x = line(a[0]);
  if (a.size() > 4)
    if (auto dtype = a.maybe_dtype(4)) x = convert(x, *dtype);
  DType dtype = is_complex(x.dtype()) ? real(x).dtype() : x.dtype();
  x = widen(x);
  Axes dims = axes(a, 2, x.rank());
  double p = a.has(1) ? a.constant(1) : 2;
  if (extent(x, dims) == 0 && (p < 0 || std::isinf(p))) {
    for (int dim : dims)
      TORCH_CHECK(x.dim(dim) > 0 || extent(x, all_but(dims, x.rank())) == 0,
                  "linalg.vector_norm cannot compute the ", p, " norm on the dimension ", dim,
                  " because this dimension is empty and the operation does not have an identity");
  }
  return convert(kept(a, p_norm(x, p, dims), dims, a.flag(3)), dtype);
}

// (self, dim, keepdim). Shifted by the maximum, so exp cannot overflow; an infinite maximum is no shift.
Value log_sum_exp(Args& a) {
  Value x = line(a.floating(0));
  Axes dims = axes(a, 1, x.rank());
  Value top = reduce_max(is_complex(x.dtype()) ? real(x) : x, dims);
  top = hlo::select(is_finite(top), top, zeros_like(top));
  Value shift = is_complex(x.dtype()) ? complex(top, zeros_like(top)) : top;
  Value sum = reduce_sum(exponential(x - spread(shift, x, dims)), dims);
  return kept(a, log(sum) + shift, dims, a.flag(2));
}

// ---- softmax
struct Shifted {
  Value x, exponent, sum;  // x - max, its exponential, and the sum of that (spread)
};
Shifted shifted(Value x, int dim) {
  x = x - spread(reduce_max(x, {dim}), x, {dim});
  Value e = exponential(x);
  return {x, e, spread(reduce_sum(e, {dim}), e, {dim})};
}

// (self, dim, half_to_float)
Value softmax(Args& a) {
  Value x = line(a.floating(0));
  auto s = shifted(x, a.dim(1, x.rank()));
  return shaped(s.exponent / s.sum, a.dims(0));
}

// A row of -inf has no maximum to shift by: zeros.
Value safe_softmax(Args& a) {
  Value x = a.maybe_dtype(2) ? widen(convert(line(a[0]), *a.maybe_dtype(2))) : line(a.floating(0));
  int dim = a.dim(1, x.rank());
  auto s = shifted(x, dim);
  Value masked =
      spread(reduce_and(eq(x, broadcast_to(lowest(x.program(), x.dtype()), x.dims())), {dim}), x, {dim});
  return shaped(hlo::select(masked, zeros_like(x), s.exponent / s.sum), a.dims(0));
}

Value log_softmax(Args& a) {
  Value x = line(a.floating(0));
  auto s = shifted(x, a.dim(1, x.rank()));
  return shaped(s.x - log(s.sum), a.dims(0));
}

// (grad_output, output, dim, input_dtype)
Value softmax_backward(Args& a) {
  Value g = widen(line(a[0])), y = convert(line(a[1]), g.dtype());
  int dim = a.dim(2, g.rank());
  Value gy = g * y;
  return shaped(gy - y * spread(reduce_sum(gy, {dim}), y, {dim}), a.dims(0));
}

Value log_softmax_backward(Args& a) {
  Value g = widen(line(a[0])), y = convert(line(a[1]), g.dtype());
  int dim = a.dim(2, g.rank());
  return shaped(g - exponential(y) * spread(reduce_sum(g, {dim}), y, {dim}), a.dims(0));
}

// ---- others
// (self, dim)
Value count_nonzero(Args& a) {
  Value x = line(a[0]);
  Axes dims = axes(a, 1, x.rank());
  return reduce_sum(convert(truth(x), count_dtype(x.numel())), dims);
}

// (self, *, dtype)
Value prod(Args& a) {
  Value x = accumulable(a, 1);
  return reduce_prod(x, all_axes(x));
}

Value trace(Args& a) {
  Value x = a[0];
  int64_t n = std::min(x.dim(0), x.dim(1));
  x = cut(cut(is_integral(x.dtype()) ? convert(x, DType::kS64) : widen(x), 0, 0, n), 1, 0, n);
  Value diagonal = eq(iota_like(x, 0, DType::kS32), iota_like(x, 1, DType::kS32));
  return reduce_sum(hlo::select(diagonal, x, zeros_like(x)), {0, 1});
}

// (self, bins, min, max). Equal min and max stand for those of the data, and one to each side if these are
// equal, too.
Value histc(Args& a) {
  Value x = flatten(a[0]);
  int64_t bins = a.integer(1), n = x.numel();
  Type number{is_integral(x.dtype()) ? DType::kS64 : wide(x.dtype()), {}};
  Value low = a.scalar(2, number.dtype), high = a.scalar(3, number.dtype);
  x = convert(x, number.dtype);
  if (n > 0) {
    Value from_data = eq(low, high);
    low = hlo::select(from_data, reduce_min(x, {0}), low);
    high = hlo::select(from_data, reduce_max(x, {0}), high);
  }
  if (is_floating(number.dtype))
    a.source().require(and_(is_finite(low), is_finite(high)), "runtime",
                       "torch.histc: the range is not finite");
  a.source().require(le(low, high), "runtime", "torch.histc: max must be larger than min");
  Value flat = eq(low, high);
  low = hlo::select(flat, low - 1.0, low);
  high = hlo::select(flat, high + 1.0, high);
  Value bottom = broadcast_to(low, {n}), top = broadcast_to(high, {n});
  Value inside = and_(ge(x, bottom), le(x, top));
  Value bin = (x - bottom) * static_cast<double>(bins) / (top - bottom);
  bin = convert(hlo::select(inside, bin, zeros_like(x)), DType::kS32);
  bin = minimum(bin, static_cast<double>(bins - 1));
  bin = hlo::select(inside, bin, constant_like(bin, -1));
  return count_each(bin, bins);
}

}  // namespace

const Table reduce_table = {
    {"_log_softmax", log_softmax},
    {"_log_softmax_backward_data", log_softmax_backward},
    {"_safe_softmax", safe_softmax},
    {"_softmax", softmax},
    {"_softmax_backward_data", softmax_backward},
    {"all", whole(truth, reduce_and)},
    {"all.dim", over(truth, reduce_and)},
    {"all.dims", over_listed(reduce_and)},
    {"amax", over(same, reduce_max)},
    {"amin", over(same, reduce_min)},
    {"aminmax", aminmax},
    {"any", whole(truth, reduce_or)},
    {"any.dim", over(truth, reduce_or)},
    {"any.dims", over_listed(reduce_or)},
    {"argmax", place_of(reduce_max)},
    {"argmin", place_of(reduce_min)},
    {"count_nonzero.dim_IntList", count_nonzero},
    {"hash_tensor", hash_tensor},
    {"histc", histc},
    {"kthvalue", kthvalue},
    {"linalg_vector_norm", norm, kNoMetaOfEmpty},
    {"logsumexp", log_sum_exp},
    {"max", whole_extremum(reduce_max)},
    {"max.dim", extremum_and_place(reduce_max)},
    {"mean.dim", mean},
    {"median", median(false)},
    {"median.dim", median_along(false)},
    {"min", whole_extremum(reduce_min)},
    {"min.dim", extremum_and_place(reduce_min)},
    {"mode", mode},
    {"nanmedian", median(true)},
    {"nanmedian.dim", median_along(true)},
    {"nansum", accumulated(without_nan, reduce_sum)},
    {"norm.ScalarOpt_dim", norm},
    {"norm.ScalarOpt_dim_dtype", norm},
    {"prod", prod},
    {"prod.dim_int", accumulated(same, reduce_prod)},
    {"std.correction", spread_of(sqrt, false)},
    {"std_mean.correction", spread_of(sqrt, true)},
    {"sum.dim_IntList", accumulated(same, reduce_sum)},
    {"trace", trace},
    {"var.correction", spread_of(same, false)},
    {"var_mean.correction", spread_of(same, true)},
};

}  // namespace tpu::lower
