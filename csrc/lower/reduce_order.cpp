// SPDX-License-Identifier: Apache-2.0
// Reductions that look at the order of the elements, or count equal ones.
#include "lower/reduce_order.h"

#include <c10/util/Exception.h>

#include <limits>

#include "lower/line.h"
#include "lower/order.h"
#include "lower/scan.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// The element of x along dim at `position` (x's dims without dim).
Value pick(Value x, Value position, int dim) {
  Value place = iota_like(x, dim, position.dtype());
  Value hit = eq(place, spread(position, place, {dim}));
  return reduce_sum(hlo::select(hit, x, zeros_like(x)), {dim});
}

Results with_keepdim(Args& a, Value values, Value indices, int dim, bool keepdim) {
  Dims sizes = a.dims(0);
  if (!keepdim || sizes.empty()) return {values, indices};
  sizes[dim] = 1;
  return {shaped(values, sizes), shaped(indices, sizes)};
}

// Where the median is in a sorted x: the lower middle one, of the numbers only, or the first NaN if there is
// one.
Value median_position(Value x, int dim, bool skips_nan) {
  int64_t n = x.dim(dim);
  Type type{DType::kS32, x.dims()};
  type.dims.erase(type.dims.begin() + dim);
  if (!is_floating(x.dtype())) return constant(x.program(), type, (n - 1) / 2);
  Value numbers = reduce_sum(convert(not_(is_nan(x)), DType::kS32), {dim});
  if (skips_nan) return shift_right_logical(maximum(numbers - 1.0, 0.0), constant(x.program(), type, 1));
  return hlo::select(lt(numbers, static_cast<double>(n)), numbers, constant(x.program(), type, (n - 1) / 2));
}

// The bits of x as a double, in a kU64. A TPU has no doubles: those of a float are put together by hand, and
// without arithmetic, which takes denormal numbers for 0.
Value bits_of_double(Value x) {
  if (x.dtype() == DType::kF64) return bitcast_convert(x, DType::kU64);
  Value bits = convert(bitcast_convert(convert(x, DType::kF32), DType::kU32), DType::kU64);
  auto number = [&](int64_t value) { return constant(x.program(), bits.type(), value); };
  Value sign = shift_right_logical(bits, number(31)),
        exponent = shift_right_logical(bits, number(23)) & number(255);
  Value fraction = bits & number((1 << 23) - 1);
  Value wide_exponent = hlo::select(eq(exponent, number(255)), number(2047), exponent + number(896));
  Value wide_fraction = shift_left(fraction, number(29));
  // A denormal float is a normal double: its first bit that is set becomes the one that is not stored.
  Value first = number(63) - count_leading_zeros(fraction);
  Value nothing = eq(fraction, number(0)), denormal = eq(exponent, number(0));
  wide_exponent = hlo::select(denormal, hlo::select(nothing, number(0), first + number(874)), wide_exponent);
  Value shifted = shift_left(fraction, number(52) - hlo::select(nothing, number(0), first));
  wide_fraction = hlo::select(denormal, shifted & number((int64_t{1} << 52) - 1), wide_fraction);
  return shift_left(sign, number(63)) | shift_left(wide_exponent, number(52)) | wide_fraction;
}

}  // namespace

// (self, dim, *, keepdim, mode): all elements as 64 bits, combined by exclusive or.
Value hash_tensor(Args& a) {
  Value x = line(a[0]);
  auto dims = a.dims(1, x.rank());
  Value bits = is_floating(x.dtype()) ? bits_of_double(x) : convert(convert(x, DType::kS64), DType::kU64);
  Value hash = reduce(bits, zero_of(bits), dims, xor_);
  Dims sizes = a.dims(0);
  if (!a.flag(2) || sizes.empty()) return hash;
  for (int dim : dims) sizes[dim] = 1;
  return shaped(hash, sizes);
}

void check_extent(const char* name, Value x, int dim) {
  TORCH_CHECK_INDEX(x.dim(dim) > 0, name, "(): Expected reduction dim ", dim, " to have non-zero size.");
}

// (self, k, dim, keepdim)
Results kthvalue(Args& a) {
  Value x = line(a[0]);
  int dim = a.dim(2, x.rank());
  int64_t k = a.integer(1);
  auto [values, indices] = sort_with_indices(x, dim, false);
  return with_keepdim(a, squeeze(cut(values, dim, k - 1, k), dim), squeeze(cut(indices, dim, k - 1, k), dim),
                      dim, a.flag(3));
}

// (self)
Rule median(bool skips_nan) {
  return [skips_nan](Args& a) {
    Value x = flatten(a[0]);
    Type number{x.dtype(), {}};
    if (x.numel() == 0)
      return is_floating(x.dtype()) ? constant(x.program(), number, std::numeric_limits<double>::quiet_NaN())
                                    : lowest(x.program(), x.dtype());
    return pick(sort_with_indices(x, 0, false).values, median_position(x, 0, skips_nan), 0);
  };
}

// (self, dim, keepdim)
Rule median_along(bool skips_nan) {
  return [skips_nan](Args& a) -> Results {
    Value x = line(a[0]);
    int dim = a.dim(1, x.rank());
    check_extent("median", x, dim);
    Value position = median_position(x, dim, skips_nan);
    auto [values, indices] = sort_with_indices(x, dim, false);
    return with_keepdim(a, pick(values, position, dim), pick(indices, position, dim), dim, a.flag(2));
  };
}

// (self, dim, keepdim): of the sorted elements, the first of the longest runs, and the last place of that
// run.
Results mode(Args& a) {
  Value x = line(a[0]);
  int dim = a.dim(1, x.rank());
  check_extent("mode", x, dim);
  int64_t n = x.dim(dim);
  auto [values, indices] = sort_with_indices(x, dim, false);
  Value spot = iota_like(values, dim, DType::kS32);
  Value before = place(values, zero_of(values), dim, n, 1);
  Value starts = or_(eq(spot, 0.0), ne(values, before));
  Value none = constant(x.program(), Type{DType::kS32, {}}, 0);
  Value start = scan(hlo::select(starts, spot, zeros_like(spot)), none, dim, maximum);
  Value length = spot - start;
  Value longest = reduce_max(length, {dim});
  Value hit = eq(length, spread(longest, length, {dim}));
  Value position = reduce_min(hlo::select(hit, spot, constant_like(spot, static_cast<double>(n))), {dim});
  return with_keepdim(a, pick(values, position, dim), pick(indices, position, dim), dim, a.flag(2));
}

Value count_each(Value bin, int64_t bins) {
  int64_t n = bin.numel();
  if (n * bins <= (int64_t{1} << 24)) {  // comparing with all bins is regular, and fused into the sum
    Value all = broadcast_in_dim(bin, {n, bins}, {0});
    return reduce_sum(convert(eq(all, iota_like(all, 1, DType::kS32)), DType::kS32), {0});
  }
  Value counts = constant(bin.program(), Type{DType::kS32, {bins}}, 0);
  ScatterDims dims{.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}, .index_vector_dim = 1};
  return scatter(counts, bin, ones_like(bin), dims, add);
}

}  // namespace tpu::lower
