// SPDX-License-Identifier: Apache-2.0
// Tensors made from numbers: fills, ranges, identity and triangles.
#include <c10/core/Scalar.h>

#include <algorithm>
#include <cmath>

#include "lower/gather.h"
#include "lower/pointwise.h"
#include "lower/steps.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// (self, value): the value may be a Scalar or a 0-d tensor.
Value fill(Args& a) { return broadcast_to(a.scalar(1, a.dtype(0)), a.dims(0)); }

Value zero(Args& a) { return constant(a.program(), {a.dtype(0), a.dims(0)}, 0); }

// ---- ranges. Only the length is part of the program; start, step and base are operands.

bool is_whole(const c10::IValue& number) { return number.isInt() || number.isBool(); }

int64_t whole(const c10::IValue& number) { return number.toScalar().toLong(); }

// How many steps fit in [start, end), or in [start, end] for the old `range`.
int64_t range_length(Args& a, bool with_end) {
  double start = a.constant(0), end = a.constant(1), step = a.constant(2);
  if (!with_end && is_whole(a.ivalue(0)) && is_whole(a.ivalue(1)) && is_whole(a.ivalue(2))) {
    int64_t span = whole(a.ivalue(1)) - whole(a.ivalue(0)), by = whole(a.ivalue(2));  // exact beyond 2^53
    return span / by + (span % by != 0);
  }
  return static_cast<int64_t>(with_end ? std::floor((end - start) / step) + 1
                                       : std::ceil((end - start) / step));
}

// (start, end, step, out)
Value range(Args& a, bool with_end) {
  DType dtype = wide(a.dtype(3));
  if (dtype == DType::kPred) dtype = DType::kS64;
  Type type = {dtype, {range_length(a, with_end)}};
  Value index = iota(a.program(), type, 0);
  Value offset = a.constant(2) == 1 ? index : index * a.scalar_like(2, index);
  return a.scalar_like(0, index) + offset;
}

// `steps` numbers from argument 0 to argument 1, both met exactly. Integers are computed in f64, as on the
// CPU.
Value even_steps(Args& a, DType dtype) {
  int64_t steps = a.integer(2);
  bool whole = is_integral(dtype) || dtype == DType::kPred;
  Value place = iota(a.program(), {DType::kS32, {steps}}, 0),
        index = convert(place, whole ? DType::kF64 : wide(dtype));
  auto bound = [&](size_t i) {  // of the result's dtype first: 1.5 counts as 1 among integers
    return broadcast_to(convert(a.scalar(i, whole ? dtype : index.dtype()), index.dtype()), index.dims());
  };
  Value start = bound(0), end = bound(1);
  if (steps < 2) return start;
  Value step = (end - start) / static_cast<double>(steps - 1);
  Value first_half = lt(place, static_cast<double>(steps / 2));
  return select(first_half, start + step * index, end - step * (static_cast<double>(steps - 1) - index));
}

// (start, end, steps, base, out)
Value logspace(Args& a) {
  Value exponent = even_steps(a, a.dtype(4));
  return power(a.scalar_like(3, exponent), exponent);
}

// ---- matrices

Value eye(Args& a, int64_t rows, int64_t columns) {
  Type type = {DType::kS32, {rows, columns}};
  return eq(iota(a.program(), type, 0), iota(a.program(), type, 1));
}

// (self, diagonal): keeps what is at or above the diagonal, or at or below. The diagonal is an operand.
Value triangle(Args& a, Direction keep) {
  Value x = a[0];
  Value row = iota_like(x, x.rank() - 2, DType::kS32), column = iota_like(x, x.rank() - 1, DType::kS32);
  Value diagonal = minimum(maximum(a.scalar(1, DType::kS64), -0x1p30), 0x1p30);
  Value limit = row + broadcast_to(convert(diagonal, DType::kS32), row.dims());
  return select(compare(column, limit, keep), x, zeros_like(x));
}

// (rows, columns, offset): row and column numbers of a triangle, row by row. Row r begins at entry starts[r].
Value triangle_indices(Args& a, bool upper) {
  int64_t rows = a.integer(0), columns = a.integer(1), offset = a.integer(2), total = 0;
  std::vector<int64_t> starts, first_columns;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t first = upper ? std::clamp<int64_t>(r + offset, 0, columns) : 0;
    int64_t limit = upper ? columns : std::clamp<int64_t>(r + offset + 1, 0, columns);
    starts.push_back(total);
    first_columns.push_back(first);
    total += limit - first;
  }
  if (total == 0) return constant(a.program(), {DType::kS64, {2, 0}}, 0);
  Value begin = constant(a.program(), {rows}, std::move(starts));
  Value entry = iota(a.program(), {DType::kS64, {total}}, 0);
  Value row = squeeze(count_up_to(unsqueeze(begin, 0), unsqueeze(entry, 0)), 0) - 1;
  Value first = constant(a.program(), {rows}, std::move(first_columns));
  Value column = entry + take(first - begin, row, 0);
  return concatenate({unsqueeze(convert(row, DType::kS64), 0), unsqueeze(column, 0)}, 0);
}

// ---- complex numbers from two reals

Value complex_rule(Args& a) {
  auto xs = a.promoted_floating({0, 1});
  return complex(xs[0], xs[1]);
}

Value polar(Args& a) {
  auto xs = a.promoted_floating({0, 1});
  return complex(xs[0] * cosine(xs[1]), xs[0] * sine(xs[1]));
}

}  // namespace

const Table create_table = {
    {"arange.start_out", [](Args& a) { return range(a, false); }},
    {"complex", complex_rule},
    {"eye.m_out", [](Args& a) { return eye(a, a.integer(0), a.integer(1)); }},
    {"eye.out", [](Args& a) { return eye(a, a.integer(0), a.integer(0)); }},
    {"fill.Scalar", fill},
    {"fill.Tensor", fill},
    {"fill_.Scalar", fill},
    {"fill_.Tensor", fill},
    {"linspace.out", [](Args& a) { return even_steps(a, a.dtype(3)); }},
    {"logspace.out", logspace},
    {"polar", polar},
    {"range.out", [](Args& a) { return range(a, true); }},
    {"tril", [](Args& a) { return triangle(a, Direction::kLe); }},
    {"tril_indices", [](Args& a) { return triangle_indices(a, false); }},
    {"triu", [](Args& a) { return triangle(a, Direction::kGe); }},
    {"triu_indices", [](Args& a) { return triangle_indices(a, true); }},
    {"zero", zero},
    {"zero_", zero},
};

}  // namespace tpu::lower
