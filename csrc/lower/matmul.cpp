// SPDX-License-Identifier: Apache-2.0
// Matrix products. A row computes in the accumulation type; dispatch rounds to the dtype of the result.
#include <c10/util/Exception.h>

#include <algorithm>

#include "lower/contract.h"
#include "lower/gelu.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

// beta * input + alpha * product. A beta of zero ignores the input, NaN included.
static Value blend(Args& a, size_t beta, size_t alpha, Value product) {
  Value input = broadcast_to(convert(a[0], product.dtype()), product.dims());
  if (!a.is_default(alpha)) product = product * a.scalar_like(alpha, product);
  if (!a.is_default(beta)) {
    Value factor = a.scalar_like(beta, product);
    input = select(eq(factor, 0), zeros_like(input), input * factor);
  }
  return input + product;
}

// f of the arguments at places i and i + 1; PyTorch's products do not promote.
static Value product(Args& a, size_t i, Value (*f)(Value, Value)) {
  TORCH_CHECK(a.dtype(i) == a.dtype(i + 1),
              "expected m1 and m2 to have the same dtype, but got: ", scalar_type_of(a.dtype(i)),
              " != ", scalar_type_of(a.dtype(i + 1)));
  return f(a[i], a[i + 1]);
}

static Value dot(Value x, Value y) { return contract(x, y, {{}, {}, {0}, {0}}); }

static Value matrix_vector(Value x, Value y) { return contract(x, y, {{}, {}, {1}, {0}}); }

// The sum over the batch of x [b, m, k] times y [b, k, n] is one contraction over b and k.
static Value summed_matmul(Value x, Value y) { return contract(x, y, {{}, {}, {0, 2}, {0, 1}}); }

static Value outer(Value x, Value y) {
  Dims dims = {x.dim(0), y.dim(0)};
  return broadcast_in_dim(x, dims, {0}) * broadcast_in_dim(y, dims, {1});
}

static Value addr(Args& a) {
  DType dtype = wide(a.result_type({0, 1, 2}));
  return blend(a, 3, 4, outer(convert(a[1], dtype), convert(a[2], dtype)));
}

static Value activated(Args& a) {
  Value x = blend(a, 3, 4, product(a, 1, matmul));
  return a.flag(5) ? gelu(x) : maximum(x, zeros_like(x));
}

// Element `group` of x [g, ...].
static Value element(Value x, Value group) {
  Dims sizes = x.dims();
  sizes[0] = 1;
  std::vector<Value> starts(x.rank(), zeros_like(group));
  starts[0] = group;
  return reshape(dynamic_slice(x, starts, sizes), Dims(sizes.begin() + 1, sizes.end()));
}

// Runs over the groups of a dim of `count` places, a tile of it at a time: `visit` gets (group, start, end of
// the group, carried values) and returns the carried values. About count / tile + groups turns, however
// uneven the groups are.
static std::vector<Value> for_each_tile(
    Value offsets, int64_t tile, std::vector<Value> carried,
    const std::function<std::vector<Value>(Value, Value, Value, std::vector<Value>)>& visit) {
  int64_t groups = offsets.dim(0);
  Value zero = constant(offsets.program(), {DType::kS32, {}}, 0);
  carried.insert(carried.begin(), {zero, zero, offsets});
  auto more = [=](const std::vector<Value>& s) { return lt(s[0], static_cast<double>(groups)); };
  auto turn = [=](const std::vector<Value>& s) {
    Value group = s[0], start = s[1], end = element(s[2], group);
    Value next = start + static_cast<double>(tile);
    Value done = ge(next, end);
    std::vector<Value> out = {group + convert(done, DType::kS32), select(done, end, next), s[2]};
    for (Value v : visit(group, start, end, {s.begin() + 3, s.end()})) out.push_back(v);
    return out;
  };
  auto result = while_loop(carried, more, turn);
  return {result.begin() + 3, result.end()};
}

// A tile holds about one group of even size: less wastes turns, more wastes products.
static int64_t tile_size(int64_t count, int64_t groups) {
  int64_t even = (count / std::max<int64_t>(groups, 1) + 7) / 8 * 8;
  return std::clamp<int64_t>(even, 8, 512);
}

static Value pad_end(Value x, int dim, int64_t count) {
  Dims none(x.rank(), 0), high = none;
  high[dim] = count;
  return pad(x, constant(x.program(), {x.dtype(), {}}, 0), none, high);
}

// Rows of x [m, k] times the matrix of their group in y [g, k, n].
static Value grouped_rows(Value x, Value y, Value offsets) {
  int64_t m = x.dim(0), k = x.dim(1), n = y.dim(2), tile = tile_size(m, y.dim(0));
  DType dtype = wide(x.dtype());
  // A tile may reach past its group: the groups come in order, so the next one overwrites what is too much.
  auto visit = [=](Value group, Value start, Value, std::vector<Value> s) -> std::vector<Value> {
    Value column = zeros_like(start);
    Value rows = dynamic_slice(s[0], {start, column}, {tile, k});
    Value product = matmul(rows, element(s[1], group));
    return {s[0], s[1], dynamic_update_slice(s[2], product, {start, column})};
  };
  Value out = constant(x.program(), {dtype, {m + tile, n}}, 0);
  out = for_each_tile(offsets, tile, {pad_end(x, 0, tile), y, out}, visit)[2];
  out = slice_in_dim(out, 0, m, 1, 0);
  Value last = reshape(slice_in_dim(offsets, offsets.dim(0) - 1, offsets.dim(0), 1, 0), {});
  Value row = iota_like(out, 0, DType::kS32);
  return select(lt(row, broadcast_to(last, row.dims())), out, zeros_like(out));
}

// x [m, k] times y [k, n], one product for each group of places of k: [g, m, n].
static Value grouped_contraction(Value x, Value y, Value offsets) {
  int64_t m = x.dim(0), k = x.dim(1), n = y.dim(1), groups = offsets.dim(0), tile = tile_size(k, groups);
  auto visit = [=](Value group, Value start, Value end, std::vector<Value> s) -> std::vector<Value> {
    Value zero = zeros_like(start);
    Value columns = dynamic_slice(s[0], {zero, start}, {m, tile});
    Value rows = dynamic_slice(s[1], {start, zero}, {tile, n});
    auto inside = [&](Value part, int dim) {
      Value place = iota_like(part, dim, DType::kS32);
      return select(lt(place, broadcast_to(end - start, place.dims())), part, zeros_like(part));
    };
    Value product = matmul(inside(columns, 1), inside(rows, 0));
    Value sum = element(s[2], group) + product;
    return {s[0], s[1], dynamic_update_slice(s[2], reshape(sum, {1, m, n}), {group, zero, zero})};
  };
  Value out = constant(x.program(), {wide(x.dtype()), {groups, m, n}}, 0);
  return for_each_tile(offsets, tile, {pad_end(x, 1, tile), pad_end(y, 0, tile), out}, visit)[2];
}

// _grouped_mm(self, mat2, offs, bias, out_dtype). PyTorch's meta kernel takes bf16 only, so the checks are
// here.
static Value grouped_mm(Args& a) {
  Value x = a[0], y = a[1];
  TORCH_CHECK(x.rank() >= 2 && x.rank() <= 3 && y.rank() >= 2 && y.rank() <= 3,
              "_grouped_mm: expected self and mat2 of 2 or 3 dims, got ", x.rank(), " and ", y.rank());
  TORCH_CHECK(x.dtype() == y.dtype(), "_grouped_mm: expected self and mat2 of one dtype");
  TORCH_CHECK(a.has(2) == (x.rank() == 2 || y.rank() == 2),
              "_grouped_mm: expected offs just if self or mat2 has 2 dims");
  TORCH_CHECK(x.dim(x.rank() - 1) == y.dim(y.rank() - 2), "_grouped_mm: contraction dimension of self (",
              x.dim(x.rank() - 1), ") and mat2 (", y.dim(y.rank() - 2), ") must match");
  TORCH_CHECK(!a.has(3), "_grouped_mm: bias is not supported yet");
  int groups_at = x.rank() == 3 ? 0 : y.rank() == 3 ? 1 : 2;
  int64_t groups = a.dims(groups_at)[0];
  TORCH_CHECK(groups > 0, "_grouped_mm: expected at least one group");
  if (a.has(2))
    TORCH_CHECK(a.dims(2) == Dims{groups}, "_grouped_mm: expected one offset for each of ", groups,
                " groups");
  std::optional<Value> offsets = a.maybe(2);
  if (offsets) offsets = convert(*offsets, DType::kS32);
  DType dtype = a.maybe_dtype(4).value_or(x.dtype());
  Value out;
  if (!offsets)
    out = matmul(x, y);
  else if (y.rank() == 3)
    out = grouped_rows(x, y, *offsets);
  else if (x.rank() == 3)
    out = transposed(grouped_rows(transposed(y), transposed(x), *offsets));
  else
    out = grouped_contraction(x, y, *offsets);
  return convert(out, dtype);
}

static Value int_mm(Args& a) {
  Value x = a[0], y = a[1];
  if (x.dtype() != y.dtype()) x = convert(x, DType::kS32), y = convert(y, DType::kS32);
  return dot_general(x, y, {{}, {}, {1}, {0}}, Precision::kDefault, DType::kS32);
}

// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum): one scale for a
// tensor or a row.
static Value scaled_mm(Args& a) {
  auto scaled = [&](size_t i) {
    Value x = convert(a[i], DType::kF32);
    return x * broadcast_to(convert(a[i + 2], DType::kF32), x.dims());
  };
  Value out = contract(scaled(0), scaled(1), {{}, {}, {1}, {0}});
  if (auto bias = a.maybe(4)) out = out + broadcast_to(convert(*bias, DType::kF32), out.dims());
  auto type = a.maybe_dtype(6).value_or(a.dtype(0));
  bool narrow = type == DType::kF8E4M3FN || type == DType::kF8E5M2;
  if (a.has(5) && narrow) out = out * broadcast_to(convert(a[5], DType::kF32), out.dims());
  return out;
}

const Table matmul_table = {
    {"_addmm_activation", activated},
    {"_grouped_mm", grouped_mm, kNoMeta | kKeepsDtype},
    {"_int_mm", int_mm},
    {"_scaled_mm", scaled_mm},
    {"addbmm", [](Args& a) { return blend(a, 3, 4, summed_matmul(a[1], a[2])); }},
    {"addmm", [](Args& a) { return blend(a, 3, 4, product(a, 1, matmul)); }},
    {"addmm.dtype", [](Args& a) { return blend(a, 4, 5, matmul(a[1], a[2])); }},
    {"addmv", [](Args& a) { return blend(a, 3, 4, product(a, 1, matrix_vector)); }},
    {"addr", addr},
    {"baddbmm", [](Args& a) { return blend(a, 3, 4, product(a, 1, matmul)); }},
    {"baddbmm.dtype", [](Args& a) { return blend(a, 4, 5, matmul(a[1], a[2])); }},
    {"bmm", [](Args& a) { return product(a, 0, matmul); }},
    {"bmm.dtype", [](Args& a) { return product(a, 0, matmul); }},
    {"dot", [](Args& a) { return product(a, 0, dot); }},
    {"mm", [](Args& a) { return product(a, 0, matmul); }},
    {"mm.dtype", [](Args& a) { return product(a, 0, matmul); }},
    {"mv", [](Args& a) { return product(a, 0, matrix_vector); }},
    {"vdot", [](Args& a) { return dot(is_complex(a.dtype(0)) ? conj(a[0]) : a[0], a[1]); }},
};

}  // namespace tpu::lower
