// SPDX-License-Identifier: Apache-2.0
// Sorting, the k largest, and search in sorted sequences.
#include "lower/gather.h"
#include "lower/line.h"
#include "lower/order.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

Sorted sort_with_indices(Value x, int dim, bool descending) {
  DType dtype = x.dtype();
  if (dtype == DType::kPred) x = convert(x, DType::kU8);
  Value index = iota_like(x, dim, count_dtype(x.dim(dim)));
  if (x.dim(dim) > 1) {
    auto less = [&](const std::vector<Value>& left, const std::vector<Value>& right) -> std::vector<Value> {
      Value l = descending ? right[0] : left[0], r = descending ? left[0] : right[0];
      Value before = lt(l, r);
      return {is_floating(l.dtype()) ? or_(before, and_(is_nan(r), not_(is_nan(l)))) : before};
    };
    auto sorted = hlo::sort({x, index}, dim, true, less);
    x = sorted[0];
    index = sorted[1];
  }
  return {convert(x, dtype), index};
}

namespace {

// (self, *, stable, dim, descending)
Results sort_stable(Args& a) {
  Value x = line(a[0]);
  auto [values, indices] = sort_with_indices(x, a.dim(2, x.rank()), a.flag(3));
  return {shaped(values, a.dims(0)), shaped(indices, a.dims(0))};
}

// (self, k, dim, largest, sorted). XLA's own top_k is much faster than a sort, but orders NaN by sign and
// knows only "largest".
Results topk(Args& a) {
  Value x = a[0];
  if (x.rank() == 0) return {x, constant(a.program(), Type{DType::kS32, {}}, 0)};
  int dim = a.dim(2, x.rank()), last = x.rank() - 1;
  int64_t k = a.integer(1);
  Value values, indices;
  if (a.flag(3) && is_floating(x.dtype()) && x.dtype() != DType::kF64 && x.numel() > 0 && k > 0) {
    Value wide = widen(x);
    Value nan = constant(x.program(), wide.type(), std::numeric_limits<double>::quiet_NaN());
    std::tie(values, indices) = top_k(move_dim(hlo::select(is_nan(wide), nan, wide), dim, last), k);
    values = move_dim(values, last, dim);
    indices = move_dim(indices, last, dim);
  } else {
    auto sorted = sort_with_indices(x, dim, a.flag(3));
    values = cut(sorted.values, dim, 0, k);
    indices = cut(sorted.indices, dim, 0, k);
  }
  return {values, indices};
}

// How many of `sorted` (along its last dim) come before each of `values`: both have the same leading dims, or
// sorted is a line.
Value insertion_points(Value sorted, Value values, bool right) {
  int64_t n = sorted.dims().back();
  auto before = [right](Value element, Value value) {
    Value passed = not_(right ? gt(element, value) : ge(element, value));  // true for NaN: it is the largest
    if (!is_floating(element.dtype())) return passed;
    return and_(passed, or_(not_(is_nan(element)), is_nan(value)));
  };
  DType counted = count_dtype(n);
  bool shared = sorted.rank() == 1;
  if (n <= 4096) {  // compare with all: regular, and fused into the sum
    Dims all = values.dims();
    all.push_back(n);
    std::vector<int> of_values, of_sorted;
    for (int i = 0; i < values.rank(); ++i) of_values.push_back(i);
    for (int i = 0; i + 1 < sorted.rank(); ++i) of_sorted.push_back(i);
    of_sorted.push_back(values.rank());
    if (shared) {
      Value hits =
          before(broadcast_in_dim(sorted, all, {values.rank()}), broadcast_in_dim(values, all, of_values));
      return reduce_sum(convert(hits, counted), {values.rank()});
    }
    Value hits = before(broadcast_in_dim(sorted, all, of_sorted), broadcast_in_dim(values, all, of_values));
    return reduce_sum(convert(hits, counted), {values.rank()});
  }
  Value low = constant(values.program(), Type{counted, values.dims()}, 0);
  Value high = constant(values.program(), Type{counted, values.dims()}, n);
  for (int64_t width = n; width > 0; width /= 2) {  // low == high is a fixed point
    Value middle = shift_right_logical(low + high, ones_like(low));
    Value probe = minimum(middle, constant_like(middle, static_cast<double>(n - 1)));
    Value element = shared ? take(sorted, probe, 0) : take_along(sorted, probe, values.rank() - 1);
    Value go = and_(lt(low, high), before(element, values));
    high = hlo::select(or_(go, ge(low, high)), high, middle);
    low = hlo::select(go, middle + ones_like(middle), low);
  }
  return low;
}

// Brings both to a common dtype; a number that is not a tensor gets its points as a 0-d tensor.
Value search(Args& a, size_t sequence, size_t values, bool right, std::optional<Value> sorter) {
  DType common = a.result_type({sequence, values});
  Value sorted = a[sequence];
  if (sorter)
    sorted = take_along(sorted, convert(*sorter, count_dtype(sorted.dims().back())), sorted.rank() - 1);
  sorted = widen(convert(sorted, common));
  Value wanted = widen(convert(a[values], common));
  Value points = insertion_points(sorted, line(wanted), right);
  return shaped(points, wanted.dims());
}

// (sorted_sequence, self, *, out_int32, right, side, sorter)
Value search_sorted(Args& a) {
  bool right = a.flag(3) || (a.has(4) && a.string(4) == "right");
  return search(a, 0, 1, right, a.maybe(5));
}

// (self, boundaries, *, out_int32, right)
Value bucketize(Args& a) { return search(a, 1, 0, a.flag(3), {}); }

// (elements, test_elements, *, assume_unique, invert)
Value is_in(Args& a) {
  DType common = a.result_type({0, 1});
  Value x = convert(a[0], common), tests = flatten(convert(a[1], common));
  int64_t n = tests.dim(0);
  Value found;
  if (n <= 4096) {
    Dims all = x.dims();
    all.push_back(n);
    std::vector<int> of_x(x.rank());
    for (int i = 0; i < x.rank(); ++i) of_x[i] = i;
    found = eq(broadcast_in_dim(x, all, of_x), broadcast_in_dim(tests, all, {x.rank()}));
    found = reduce_or(found, {x.rank()});
  } else {
    Value sorted = sort_with_indices(tests, 0, false).values;
    Value point = insertion_points(sorted, line(x), false);
    Value nearest = take(sorted, minimum(point, static_cast<double>(n - 1)), 0);
    found = shaped(eq(nearest, line(x)), x.dims());
  }
  return a.flag(3) ? not_(found) : found;
}

}  // namespace

const Table sort_table = {
    {"bucketize.Scalar", bucketize},
    {"bucketize.Tensor", bucketize},
    {"isin.Scalar_Tensor", is_in},
    {"isin.Tensor_Scalar", is_in},
    {"isin.Tensor_Tensor", is_in},
    {"searchsorted.Scalar", search_sorted},
    {"searchsorted.Tensor", search_sorted},
    {"sort.stable", sort_stable},
    {"topk", topk},
};

}  // namespace tpu::lower
