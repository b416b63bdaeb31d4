// SPDX-License-Identifier: Apache-2.0
// Views in levels: resolving, reading, writing, bit casts.
#include "runtime/views.h"

#include <algorithm>
#include <numeric>

namespace tpu::runtime {
namespace {

using hlo::Dims;
using hlo::DType;
using hlo::Value;

struct Run {  // one tensor dim that has extent and stride
  int dim;
  int64_t size, stride;
};

// Fits the runs into levels with the given strides (descending, each dividing the one before, the last one
// 1).
bool fit(const std::vector<Run>& runs, const std::vector<int64_t>& level_strides, int64_t total,
         int64_t offset, View& view) {
  const size_t count = level_strides.size();
  view.levels.resize(count);
  view.starts.resize(count);
  view.sizes.assign(count, 1);
  view.steps.assign(count, 1);
  int64_t outer = total;
  for (size_t i = 0; i < count; ++i) {
    if (outer % level_strides[i]) return false;
    view.levels[i] = outer / level_strides[i];
    outer = level_strides[i];
    view.starts[i] = offset / level_strides[i];
    offset %= level_strides[i];
  }
  std::vector<bool> taken(count, false);
  for (const Run& run : runs) {
    size_t level = 0;
    while (level < count && (level_strides[level] > run.stride || run.stride % level_strides[level])) ++level;
    if (level == count || taken[level]) return false;
    taken[level] = true;
    view.sizes[level] = run.size;
    view.steps[level] = run.stride / level_strides[level];
    view.level_of[run.dim] = static_cast<int>(level);
  }
  for (size_t i = 0; i < count; ++i)
    if (view.starts[i] + (view.sizes[i] - 1) * view.steps[i] >= view.levels[i]) return false;
  return true;
}

// Elements from the first one seen to the end of the outermost dim's last step.
int64_t runs_outermost(const std::vector<Run>& runs) {
  int64_t window = 0;
  for (const Run& run : runs) window = std::max(window, run.size * run.stride);
  return window;
}

// Adds the strides of `more` that keep the chain descending and dividing.
std::vector<int64_t> chain(std::vector<int64_t> strides, const std::vector<int64_t>& more) {
  auto fits = [&](int64_t s) {
    return std::all_of(strides.begin(), strides.end(), [&](int64_t t) { return t % s == 0 || s % t == 0; });
  };
  for (int64_t s : more)
    if (fits(s)) strides.push_back(s);
  if (fits(1)) strides.push_back(1);
  std::sort(strides.begin(), strides.end(), std::greater<>());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  return strides;
}

void finish(View& view) {
  view.covers = true;
  for (size_t i = 0; i < view.levels.size(); ++i)
    view.covers &= view.starts_at_zero(i) || view.levels[i] == 1;
  for (size_t d = 0; d < view.level_of.size(); ++d)
    if (view.level_of[d] < 0 && view.tensor_sizes[d] != 1) view.covers = false;
  view.plain = view.covers;
  int last = -1;
  for (int level : view.level_of) {
    if (level < 0) continue;
    if (level < last) view.plain = false;
    last = level;
  }
}

std::vector<int64_t> row_major(const Dims& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

DType index_type(int64_t total) { return total < (int64_t{1} << 31) ? DType::kS32 : DType::kS64; }

// The starts as operands; those that can only be zero are constants.
std::vector<Value> starts_of(hlo::Program& p, const View& view, const StartOf& start) {
  const DType dtype = index_type(view.total);
  std::vector<Value> starts;
  for (size_t i = 0; i < view.levels.size(); ++i) {
    Value value = view.starts_at_zero(i) || !start ? Value() : start(i, view.starts[i], dtype);
    starts.push_back(value ? value : hlo::constant(p, {dtype, {}}, view.starts[i]));
  }
  return starts;
}

Value window_start(hlo::Program& p, const View& view, const StartOf& start) {
  const DType dtype = index_type(view.total);
  const size_t level = view.levels.size();
  Value value = start ? start(level, view.starts[level], dtype) : Value();
  return value ? value : hlo::constant(p, {dtype, {}}, view.starts[level]);
}

Dims slab(const View& view) {
  Dims extents(view.levels.size());
  for (size_t i = 0; i < extents.size(); ++i) extents[i] = (view.sizes[i] - 1) * view.steps[i] + 1;
  return extents;
}

bool stepped(const View& view) {
  return std::any_of(view.steps.begin(), view.steps.end(), [](int64_t s) { return s != 1; });
}

// Flat indices of the elements that an irregular view sees, with its sizes.
Value flat_indices(hlo::Program& p, const View& view, const StartOf& start) {
  const DType dtype = index_type(view.total);
  const hlo::Type type{dtype, view.tensor_sizes};
  Value offset = start ? start(0, view.starts[0], dtype) : Value();
  Value index = hlo::broadcast_to(offset ? offset : hlo::constant(p, {dtype, {}}, view.starts[0]), type.dims);
  for (size_t d = 0; d < view.tensor_sizes.size(); ++d)
    if (view.tensor_sizes[d] > 1 && view.tensor_strides[d] != 0)
      index =
          index + hlo::iota(p, type, static_cast<int>(d)) * hlo::constant(p, type, view.tensor_strides[d]);
  return index;
}

// Floats are moved as integers through ops that XLA may compute in another float type (scatter, select,
// gather): bits that a view of another dtype wrote may be denormal or NaN there.
DType moved_as(DType dtype) {
  if (!hlo::is_floating(dtype)) return dtype;
  switch (hlo::byte_width(dtype)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

// Level order -> tensor order: drops levels without a tensor dim, permutes, broadcasts.
Value to_tensor(Value x, const View& view) {
  std::vector<int> position(view.levels.size(), -1);
  for (size_t d = 0; d < view.level_of.size(); ++d)
    if (view.level_of[d] >= 0) position[view.level_of[d]] = static_cast<int>(d);
  Dims kept;
  std::vector<int> dims;  // tensor dim of each kept level
  for (size_t i = 0; i < position.size(); ++i) {
    if (position[i] < 0) continue;
    kept.push_back(view.sizes[i]);
    dims.push_back(position[i]);
  }
  x = hlo::reshape(x, kept);
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return dims[a] < dims[b]; });
  x = hlo::transpose(x, order);
  std::sort(dims.begin(), dims.end());
  bool broadcasts = false;
  for (size_t d = 0; d < view.level_of.size(); ++d)
    broadcasts |= view.level_of[d] < 0 && view.tensor_sizes[d] != 1;
  return broadcasts ? hlo::broadcast_in_dim(x, view.tensor_sizes, dims) : hlo::reshape(x, view.tensor_sizes);
}

// Tensor order -> level order. No tensor dim may be broadcast.
Value to_levels(Value x, const View& view) {
  std::vector<int> dims;
  for (size_t d = 0; d < view.level_of.size(); ++d)
    if (view.level_of[d] >= 0) dims.push_back(static_cast<int>(d));
  Dims kept;
  for (int d : dims) kept.push_back(view.tensor_sizes[d]);
  x = hlo::reshape(x, kept);
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return view.level_of[dims[a]] < view.level_of[dims[b]]; });
  return hlo::reshape(hlo::transpose(x, order), view.sizes);
}

// Floats of a complex value, real and imaginary parts next to each other.
Value split_complex(Value x) {
  Dims dims = x.dims();
  dims.push_back(1);
  Value parts =
      hlo::concatenate({hlo::reshape(hlo::real(x), dims), hlo::reshape(hlo::imag(x), dims)}, x.rank());
  return hlo::reshape(parts, bit_cast_dims(x.type(), hlo::real_of(x.dtype())));
}

Value join_complex(Value x, const Dims& dims) {
  Dims pairs = dims;
  pairs.push_back(2);
  x = hlo::reshape(x, pairs);
  const int last = x.rank() - 1;
  return hlo::complex(hlo::reshape(hlo::slice_in_dim(x, 0, 1, 1, last), dims),
                      hlo::reshape(hlo::slice_in_dim(x, 1, 2, 1, last), dims));
}

}  // namespace

View resolve(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, const Dims& array) {
  View view;
  view.total = hlo::product(array);
  view.tensor_sizes.assign(sizes.begin(), sizes.end());
  view.level_of.assign(sizes.size(), -1);
  std::vector<Run> runs;
  std::vector<int64_t> wanted;
  bool nothing = view.total == 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    nothing |= sizes[d] == 0;
    if (sizes[d] <= 1 || strides[d] == 0) continue;
    runs.push_back({static_cast<int>(d), sizes[d], strides[d]});
    wanted.push_back(strides[d]);
  }
  if (nothing) {  // sees no element; readers and writers look at tensor_sizes only
    view.irregular = true;
    view.covers = view.plain = view.total == 0;
    view.starts = {0};
    return view;
  }
  std::sort(wanted.begin(), wanted.end(), std::greater<>());
  const std::vector<int64_t> made = row_major(array);
  for (const auto& strides_of_levels : {chain(chain({}, wanted), made), chain(chain({}, made), wanted)}) {
    std::fill(view.level_of.begin(), view.level_of.end(), -1);
    if (fit(runs, strides_of_levels, view.total, offset, view)) {
      finish(view);
      return view;
    }
  }
  if (!runs.empty()) {
    const int64_t window = runs_outermost(runs);
    std::fill(view.level_of.begin(), view.level_of.end(), -1);
    if (offset + window <= view.total && fit(runs, chain({}, wanted), window, 0, view)) {
      finish(view);
      view.window = window;
      view.covers = view.plain = false;
      view.starts.push_back(offset);
      return view;
    }
  }
  view.irregular = true;
  view.levels.clear();
  view.sizes.clear();
  view.steps.clear();
  view.starts = {offset};
  view.tensor_strides.assign(strides.begin(), strides.end());
  return view;
}

Value read_view(Value array, const View& view, DType dtype, const StartOf& start) {
  hlo::Program& p = array.program();
  if (hlo::product(view.tensor_sizes) == 0) return hlo::constant(p, {dtype, view.tensor_sizes}, 0);
  Value x = bit_cast(array, view.irregular ? moved_as(dtype) : dtype);
  if (view.irregular) {
    const Dims sizes = view.tensor_sizes;
    Value index = hlo::reshape(flat_indices(p, view, start), {hlo::product(sizes), 1});
    Value picked = hlo::gather(hlo::reshape(x, {view.total}), index,
                               {.offset_dims = {},
                                .collapsed_slice_dims = {0},
                                .operand_batching_dims = {},
                                .start_indices_batching_dims = {},
                                .start_index_map = {0},
                                .index_vector_dim = 1},
                               {1});
    return bit_cast(hlo::reshape(picked, sizes), dtype);
  }
  if (view.window) {
    Value at = window_start(p, view, start);
    x = hlo::dynamic_slice(hlo::reshape(x, {view.total}), {at}, {view.window});
  }
  x = hlo::reshape(x, view.levels);
  if (!view.covers) {
    const Dims extents = slab(view);
    if (extents != view.levels) x = hlo::dynamic_slice(x, starts_of(p, view, start), extents);
    if (stepped(view)) x = hlo::slice(x, Dims(extents.size(), 0), extents, view.steps);
  }
  return to_tensor(x, view);
}

Value write_view(Value array, const hlo::Type& array_type, const View& view, Value elements,
                 const StartOf& start) {
  if (elements.numel() == 0) return array;
  const bool as_other = elements.dtype() != array_type.dtype;
  if (!view.covers && (view.irregular || stepped(view)))
    elements = bit_cast(elements, moved_as(elements.dtype()));
  const DType dtype = elements.dtype();
  hlo::Program& p = elements.program();
  if (view.covers) return hlo::reshape(to_levels(elements, view), bit_cast_dims(array_type, dtype));
  Value base = bit_cast(array, dtype);
  const int64_t seen = base.numel();
  if (view.irregular) {
    Value flat = hlo::reshape(base, {seen});
    Value index = hlo::reshape(flat_indices(p, view, start), {elements.numel(), 1});
    base = hlo::scatter(flat, index, hlo::reshape(elements, {elements.numel()}),
                        {.update_window_dims = {},
                         .inserted_window_dims = {0},
                         .input_batching_dims = {},
                         .scatter_indices_batching_dims = {},
                         .scatter_dims_to_operand_dims = {0},
                         .index_vector_dim = 1},
                        nullptr);
  } else {
    Value at, whole;
    if (view.window) {
      at = window_start(p, view, start);
      whole = hlo::reshape(base, {seen});
      base = hlo::dynamic_slice(whole, {at}, {view.window});
    }
    base = hlo::reshape(base, view.levels);
    Value update = to_levels(elements, view);
    const std::vector<Value> starts = starts_of(p, view, start);
    if (stepped(view)) {
      // The elements between the steps keep their old contents.
      const Dims extents = slab(view);
      Dims interior(extents.size()), none(extents.size(), 0);
      Value hit;
      for (size_t i = 0; i < extents.size(); ++i) {
        interior[i] = view.sizes[i] > 1 ? view.steps[i] - 1 : 0;
        if (interior[i] == 0) continue;
        Value at = hlo::iota(p, {DType::kS32, extents}, static_cast<int>(i));
        Value here =
            hlo::eq(hlo::remainder(at, hlo::constant(p, at.type(), view.steps[i])), hlo::zeros_like(at));
        hit = hit ? hlo::and_(hit, here) : here;
      }
      Value fill = hlo::constant(p, {dtype, {}}, 0);
      Value spread = hlo::pad(update, fill, none, none, interior);
      update = hit ? hlo::select(hit, spread, hlo::dynamic_slice(base, starts, extents)) : spread;
    }
    base = hlo::dynamic_update_slice(base, update, starts);
    if (view.window) base = hlo::dynamic_update_slice(whole, hlo::reshape(base, {view.window}), {at});
  }
  const hlo::Dims dims = bit_cast_dims(array_type, dtype);
  // Written as another dtype: the array keeps that dtype, for the bits may be no number that the old one
  // preserves.
  if (as_other && hlo::Type{dtype, dims}.bytes() == array_type.bytes()) return hlo::reshape(base, dims);
  Value bytes = bit_cast(hlo::reshape(base, dims), array_type.dtype);
  if (bytes.numel() != array_type.numel()) {  // bytes behind the last whole element of the tensor's dtype
    Value flat = hlo::reshape(array, {array_type.numel()});
    bytes = hlo::concatenate(
        {hlo::reshape(bytes, {bytes.numel()}), hlo::slice(flat, {bytes.numel()}, {array_type.numel()})}, 0);
  }
  return hlo::reshape(bytes, array_type.dims);
}

hlo::Dims bit_cast_dims(const hlo::Type& type, DType dtype) {
  const auto from = static_cast<int64_t>(hlo::byte_width(type.dtype)),
             to = static_cast<int64_t>(hlo::byte_width(dtype));
  Dims dims = type.dims;
  if (from == to) return dims;
  if (dims.empty()) dims = {1};
  if (dims.back() * from % to == 0) {
    dims.back() = dims.back() * from / to;
    return dims;
  }
  return {type.numel() * from / to};
}

Value bit_cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Dims dims = bit_cast_dims(x.type(), dtype);
  if (x.numel() == 0) return hlo::constant(x.program(), {dtype, dims}, 0);
  if (hlo::is_complex(x.dtype())) return bit_cast(split_complex(x), dtype);
  if (x.dtype() == DType::kPred) return bit_cast(hlo::convert(x, DType::kU8), dtype);
  if (dtype == DType::kPred) {
    Value bytes = bit_cast(x, DType::kU8);
    return hlo::ne(bytes, hlo::zeros_like(bytes));
  }
  if (hlo::is_complex(dtype)) {
    Value parts = bit_cast(x, hlo::real_of(dtype));
    const int64_t whole = hlo::product(dims) * 2;
    if (parts.numel() != whole) parts = hlo::slice(hlo::reshape(parts, {parts.numel()}), {0}, {whole});
    return join_complex(parts, dims);
  }
  const auto from = static_cast<int64_t>(hlo::byte_width(x.dtype())),
             to = static_cast<int64_t>(hlo::byte_width(dtype));
  if (from == to) return hlo::bitcast_convert(x, dtype);
  if (from > to) return hlo::reshape(hlo::bitcast_convert(x, dtype), dims);
  const int64_t group = to / from;
  const int64_t count = hlo::product(dims);
  if (x.numel() != count * group) x = hlo::slice(hlo::reshape(x, {x.numel()}), {0}, {count * group});
  Dims grouped = dims;
  grouped.push_back(group);
  return hlo::bitcast_convert(hlo::reshape(x, grouped), dtype);
}

}  // namespace tpu::runtime
