// SPDX-License-Identifier: Apache-2.0
// Shorthand over ops.h: numbers next to values, broadcasting, whole reductions.
#include "hlo/math.h"

#include <algorithm>
#include <limits>

#include "hlo/infer.h"

namespace tpu::hlo {

Value constant_like(Value x, double value) { return constant(x.program(), x.type(), value); }
Value zeros_like(Value x) { return constant_like(x, 0); }
Value ones_like(Value x) { return constant_like(x, 1); }
Value iota_like(Value x, int dim, DType dtype) { return iota(x.program(), {dtype, x.dims()}, dim); }

#define WITH_NUMBER(function, named)                                          \
  Value function(Value x, double y) { return named(x, constant_like(x, y)); } \
  Value function(double x, Value y) { return named(constant_like(y, x), y); }
WITH_NUMBER(operator+, add)
WITH_NUMBER(operator-, subtract)
WITH_NUMBER(operator*, multiply)
WITH_NUMBER(operator/, divide)
#undef WITH_NUMBER

Value maximum(Value x, double y) { return maximum(x, constant_like(x, y)); }
Value minimum(Value x, double y) { return minimum(x, constant_like(x, y)); }
Value eq(Value x, double y) { return eq(x, constant_like(x, y)); }
Value ne(Value x, double y) { return ne(x, constant_like(x, y)); }
Value lt(Value x, double y) { return lt(x, constant_like(x, y)); }
Value le(Value x, double y) { return le(x, constant_like(x, y)); }
Value gt(Value x, double y) { return gt(x, constant_like(x, y)); }
Value ge(Value x, double y) { return ge(x, constant_like(x, y)); }

// The smallest or largest number of a dtype.
static Value extreme(Program& p, DType dtype, bool high) {
  Type type = {dtype, {}};
  if (dtype == DType::kPred) return constant(p, type, high ? 1 : 0);
  if (dtype == DType::kF8E4M3FN) return constant(p, type, high ? 448.0 : -448.0);  // has no infinity
  if (is_floating(dtype)) {
    double infinity = std::numeric_limits<double>::infinity();
    return constant(p, type, high ? infinity : -infinity);
  }
  if (is_complex(dtype)) type_error(high ? "highest" : "lowest", "a dtype that has an order", {});
  int bits = static_cast<int>(8 * byte_width(dtype));
  int64_t all = static_cast<int64_t>(~uint64_t{0} >> (64 - bits));
  if (is_unsigned(dtype)) return constant(p, type, high ? all : int64_t{0});
  int64_t most = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return constant(p, type, high ? most : -most - 1);
}

Value lowest(Program& p, DType dtype) { return extreme(p, dtype, false); }
Value highest(Program& p, DType dtype) { return extreme(p, dtype, true); }

Value is_nan(Value x) {
  if (is_floating(x.dtype())) return ne(x, x);
  if (is_complex(x.dtype())) return is_nan(real(x)) | is_nan(imag(x));
  return constant(x.program(), {DType::kPred, x.dims()}, 0);
}

Value broadcast_to(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  int extra = static_cast<int>(dims.size()) - x.rank();
  if (extra < 0) type_error("broadcast_to", "at most " + std::to_string(dims.size()) + " dims", {{x}});
  std::vector<int> positions(x.rank());
  for (int i = 0; i < x.rank(); ++i) positions[i] = i + extra;
  return broadcast_in_dim(x, dims, positions);
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  size_t extra = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& dim = dims[i + extra];
    if (dim == 1)
      dim = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != dim)
      type_error("broadcast_dims",
                 "dims that are equal or 1 for " + Type{DType::kF32, a}.str() + " with " +
                     Type{DType::kF32, b}.str(),
                 {});
  }
  return dims;
}

Value spread(Value x, Value like, const std::vector<int>& dims) {
  check(x && like && x.rank() + static_cast<int>(dims.size()) == like.rank() && distinct(dims, like.rank()),
        "spread", "a reduced operand that lacks just the given dims", {x, like});
  std::vector<int> positions;
  for (int i = 0; i < like.rank(); ++i)
    if (!contains(dims, i)) positions.push_back(i);
  return broadcast_in_dim(x, like.dims(), positions);
}

Value unsqueeze(Value x, int dim) {
  check(x && dim >= 0 && dim <= x.rank(), "unsqueeze", "a dim within the rank of the operand", {x});
  Dims dims = x.dims();
  dims.insert(dims.begin() + dim, 1);
  return reshape(x, std::move(dims));
}

Value squeeze(Value x, int dim) {
  check(x && dim >= 0 && dim < x.rank() && x.dim(dim) == 1, "squeeze", "an operand with a dim of size 1",
        {x});
  Dims dims = x.dims();
  dims.erase(dims.begin() + dim);
  return reshape(x, std::move(dims));
}

Value flatten(Value x) { return reshape(x, {x.numel()}); }

Value slice_in_dim(Value x, int64_t start, int64_t limit, int64_t step, int dim) {
  check(x && dim >= 0 && dim < x.rank(), "slice_in_dim", "an operand that has the dim", {x});
  Dims starts(x.dims().size(), 0), limits = x.dims(), steps(x.dims().size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  steps[dim] = step;
  return slice(x, std::move(starts), std::move(limits), std::move(steps));
}

// Reducing nothing is no op, so that callers need not ask.
static Value reduce_with(Value x, Value init, const std::vector<int>& dims, Binary body) {
  return dims.empty() ? x : reduce(x, init, dims, body);
}

Value reduce_sum(Value x, const std::vector<int>& dims) {
  return reduce_with(x, constant(x.program(), {x.dtype(), {}}, 0), dims, add);
}
Value reduce_prod(Value x, const std::vector<int>& dims) {
  return reduce_with(x, constant(x.program(), {x.dtype(), {}}, 1), dims, multiply);
}
Value reduce_max(Value x, const std::vector<int>& dims) {
  return reduce_with(x, lowest(x.program(), x.dtype()), dims, maximum);
}
Value reduce_min(Value x, const std::vector<int>& dims) {
  return reduce_with(x, highest(x.program(), x.dtype()), dims, minimum);
}
Value reduce_and(Value x, const std::vector<int>& dims) {
  check(x && x.dtype() == DType::kPred, "reduce_and", "a boolean operand", {x});
  return reduce_with(x, constant(x.program(), {DType::kPred, {}}, 1), dims, and_);
}
Value reduce_or(Value x, const std::vector<int>& dims) {
  check(x && x.dtype() == DType::kPred, "reduce_or", "a boolean operand", {x});
  return reduce_with(x, constant(x.program(), {DType::kPred, {}}, 0), dims, or_);
}

DType wide(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype; }
Value widen(Value x) { return convert(x, wide(x.dtype())); }

}  // namespace tpu::hlo
