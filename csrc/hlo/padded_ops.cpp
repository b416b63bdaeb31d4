// SPDX-License-Identifier: Apache-2.0
// What each op does about padding in its operands.
#include <algorithm>
#include <limits>

#include "hlo/padder.h"

namespace tpu::hlo {
namespace {

// The ops of a region over other arguments; what it returns.
std::vector<Value> inlined(const Program& region, const std::vector<Value>& arguments, Program& into) {
  std::vector<Value> moved(static_cast<size_t>(region.op_count()));  // first results
  const auto move = [&](const Value& value) {
    const Value first = moved[value.op()];
    return value.result() == 0 ? first : Value(&into, first.op(), value.result());
  };
  for (int32_t i = 0; i < region.op_count(); ++i) {
    const Op& op = region.op(i);
    if (const int parameter = parameter_at(region, i); parameter >= 0) {
      moved[i] = arguments[static_cast<size_t>(parameter)];
      continue;
    }
    Op copy = op;
    for (Value& value : copy.operands) value = move(value);
    moved[i] = into.add(std::move(copy));
  }
  std::vector<Value> returned;
  for (const Value& value : region.returned()) returned.push_back(move(value));
  return returned;
}

bool is_scalar_zero(Affine affine) { return affine == Affine{0, 0}; }

}  // namespace

const std::unordered_map<std::string_view, Padder::Handler>& Padder::handlers() {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string_view, Handler>{
        {"stablehlo.constant", &Padder::constant},
        {"stablehlo.iota", &Padder::iota},
        {"stablehlo.broadcast_in_dim", &Padder::broadcast},
        {"stablehlo.reshape", &Padder::reshape},
        {"stablehlo.transpose", &Padder::transpose},
        {"stablehlo.reduce", &Padder::reduce},
        {"stablehlo.dot_general", &Padder::dot},
        {"stablehlo.concatenate", &Padder::concatenate},
        {"stablehlo.slice", &Padder::slice},
        {"stablehlo.dynamic_slice", &Padder::dynamic_slice},
        {"stablehlo.dynamic_update_slice", &Padder::dynamic_update_slice},
        {"stablehlo.pad", &Padder::pad},
        {"stablehlo.gather", &Padder::gather},
        {"stablehlo.scatter", &Padder::scatter},
        {"stablehlo.reduce_window", &Padder::reduce_window},
        {"stablehlo.sort", &Padder::sort},
        {"chlo.top_k", &Padder::top_k},
        {"stablehlo.reverse", &Padder::reverse},
        {"stablehlo.convolution", &Padder::convolution},
    };
    static const char* const kElementwise[] = {
#define TPU_NAME(name) "stablehlo." #name, "chlo." #name,
        TPU_UNARY(TPU_NAME) TPU_BINARY(TPU_NAME)
#undef TPU_NAME
            "stablehlo.not",
        "stablehlo.and",
        "stablehlo.or",
        "stablehlo.xor",
        "stablehlo.compare",
        "stablehlo.select",
        "stablehlo.clamp",
        "stablehlo.convert",
        "stablehlo.bitcast_convert",
        "stablehlo.optimization_barrier",
    };
    for (const char* name : kElementwise) made->emplace(name, &Padder::elementwise);
    return made;
  }();
  return *table;
}

void Padder::elementwise() {
  const int rank = now_.op->results[0].rank();
  PaddedDims layout = simple(result_dims(), true);
  std::vector<Value> operands;
  for (size_t i = 0; i < now_.op->operands.size(); ++i) {
    const Item& x = operand(i);
    operands.push_back(x.value);
    if (x.value.rank() == 0) continue;
    if (x.value.rank() != rank) refuse("changes the number of dims");
    for (int d = 0; d < rank; ++d) layout[d] = merged(layout[d], x.layout[d]);
  }
  if (now_.op->results.size() != 1 && rank > 0) refuse("has several results");
  emit(std::move(operands), {std::move(layout)});
}

void Padder::constant() {
  const std::string_view text = sizes_in(*now_.op);
  bool runtime = false;
  size_t numbers = 0;
  scan_attributes(
      text, [&](int64_t) { runtime |= !fit_.numbers[now_.numbers + numbers++].fixed(); },
      [](std::string_view) {});
  const PaddedDims layout = simple(result_dims(), text.find('[') == std::string_view::npos);
  if (!runtime) {
    if (text.find('[') != std::string_view::npos) refuse("lists elements");
    return emit({}, {layout});
  }
  const DType dtype = now_.op->results[0].dtype;
  if (numbers != 1 || !is_integral(dtype)) refuse("holds a number that is not plainly a size");
  Value value = hlo::convert(size(fit_.numbers[now_.numbers]), dtype);
  put(whole(value, type_at_bound({nullptr, now_.index, 0}).dims), layout);
}

void Padder::iota() { emit({}, {simple(result_dims())}); }

void Padder::broadcast() {
  const std::vector<int> positions = fixed("broadcast_dimensions");
  const std::vector<Affine> sizes = result_dims(), before = dims(now_.op->operands[0]);
  PaddedDims layout = simple(sizes, true);
  for (size_t i = 0; i < positions.size(); ++i) {
    const Affine to = sizes[positions[i]];
    if (before[i] == to)
      layout[positions[i]] = operand(0).layout[i];
    else if (before[i] != Affine{0, 1})
      refuse("spreads a dim that is 1 for some sizes only");
  }
  emit({operand(0).value}, {std::move(layout)});
}

void Padder::reshape() { emit({operand(0).value}, {reshaped(operand(0).layout, result_dims())}); }

void Padder::transpose() {
  PaddedDims layout;
  for (int dim : fixed("permutation")) layout.push_back(operand(0).layout[dim]);
  emit({operand(0).value}, {std::move(layout)});
}

void Padder::reduce() {
  const size_t count = now_.op->operands.size() / 2;
  const std::vector<int> reduced = fixed("dimensions");
  PaddedDims together = operand(0).layout;
  for (size_t i = 1; i < count; ++i)
    for (size_t d = 0; d < together.size(); ++d) together[d] = merged(together[d], operand(i).layout[d]);
  PaddedDims left;
  for (size_t d = 0; d < together.size(); ++d)
    if (!contains(reduced, static_cast<int>(d))) left.push_back(together[d]);
  std::vector<Value> operands;
  for (size_t i = 0; i < count; ++i)
    operands.push_back(masked({operand(i).value, together}, reduced, operand(count + i).value));
  for (size_t i = 0; i < count; ++i) operands.push_back(operand(count + i).value);
  emit(std::move(operands), std::vector<PaddedDims>(count, left));
}

void Padder::dot() {
  const std::vector<int> batch_x = fixed("lhs_batching_dimensions"),
                         batch_y = fixed("rhs_batching_dimensions");
  const std::vector<int> sum_x = fixed("lhs_contracting_dimensions"),
                         sum_y = fixed("rhs_contracting_dimensions");
  Item x = operand(0), y = operand(1);
  PaddedDims layout;
  for (size_t i = 0; i < batch_x.size(); ++i)
    layout.push_back(merged(x.layout[batch_x[i]], y.layout[batch_y[i]]));
  for (size_t i = 0; i < sum_x.size(); ++i) {
    PaddedDim& a = x.layout[sum_x[i]];
    PaddedDim& b = y.layout[sum_y[i]];
    a = b = merged(a, b);
  }
  const auto free = [&](const Item& item, const std::vector<int>& batch, const std::vector<int>& sum) {
    for (int d = 0; d < item.value.rank(); ++d)
      if (!contains(batch, d) && !contains(sum, d)) layout.push_back(item.layout[d]);
  };
  free(x, batch_x, sum_x);
  free(y, batch_y, sum_y);
  // Both sides: what lies in the padding may be NaN, and zero times NaN is not zero.
  const auto zeros = [&](const Item& item, const std::vector<int>& sum) {
    return masked(item, sum, hlo::constant(*made_, {item.value.dtype(), {}}, 0));
  };
  emit({zeros(x, sum_x), zeros(y, sum_y)}, {std::move(layout)});
}

void Padder::concatenate() {
  const int dim = fixed("dimension").at(0);
  const size_t count = now_.op->operands.size();
  PaddedDims layout = operand(0).layout;
  std::vector<Value> values;
  bool last_only = true;
  for (size_t i = 0; i < count; ++i) {
    const Item& x = operand(i);
    values.push_back(x.value);
    for (int d = 0; d < x.value.rank(); ++d)
      if (d != dim) layout[d] = merged(layout[d], x.layout[d]);
    if (!is_padded(x.layout[dim])) continue;
    if (x.layout[dim].size() > 1) refuse("has padding inside of the dim");
    last_only &= i + 1 == count;
  }
  layout[dim] = {{result_dims()[dim], false}};
  if (last_only) return emit(std::move(values), {std::move(layout)});
  // Each part covers the padding of the one before it.
  const Type type = type_at_bound({nullptr, now_.index, 0});
  Dims high(type.dims.size(), 0);
  high[dim] = type.dims[dim] - values[0].dim(dim);
  Value result = hlo::pad(values[0], hlo::constant(*made_, {type.dtype, {}}, 0), Dims(high.size(), 0), high);
  Affine at = dims(now_.op->operands[0])[dim];
  for (size_t i = 1; i < count; ++i) {
    std::vector<Value> starts(type.dims.size(), size({0, 0}));
    starts[dim] = size(at);
    if (values[i].numel() != 0) result = hlo::dynamic_update_slice(result, values[i], starts);
    const Affine extent = dims(now_.op->operands[i])[dim];
    at = {at.scale + extent.scale, at.offset + extent.offset};
  }
  put(result, std::move(layout));
}

void Padder::slice() {
  const std::vector<Affine> starts = attribute("start_indices"), limits = attribute("limit_indices"),
                            steps = attribute("strides");
  const std::vector<Affine> before = dims(now_.op->operands[0]), after = result_dims();
  Item x = operand(0);
  const int rank = x.value.rank();
  Dims low(rank, 0), high = x.value.dims(), step(rank, 1);
  // First what is fixed, or begins at a fixed place; then what begins at a place that depends on n.
  for (int d = 0; d < rank; ++d) {
    if (before[d] == after[d]) continue;
    if (is_padded(x.layout[d]) && x.layout[d].size() > 1) refuse("cuts a dim that has padding inside");
    if (!starts[d].fixed() || (!limits[d].fixed() && steps[d] != Affine{0, 1})) continue;
    if (!steps[d].fixed()) refuse("has a step that depends on the size");
    low[d] = starts[d].offset;
    step[d] = steps[d].offset;
    high[d] = std::min(limits[d].at(bound_), x.value.dim(d));
  }
  Value value = hlo::slice(x.value, low, high, step);
  PaddedDims layout = x.layout;
  for (int d = 0; d < rank; ++d) {
    if (before[d] == after[d]) continue;
    layout[d] = {{after[d], false}};
    const int64_t extent = after[d].at(bound_);
    if (starts[d].fixed()) {
      if (value.dim(d) < extent) {  // a part of a fixed dim that the bound reaches over
        Dims more(rank, 0);
        more[d] = extent - value.dim(d);
        value = hlo::pad(value, hlo::constant(*made_, {value.dtype(), {}}, 0), Dims(rank, 0), more);
      }
      continue;
    }
    if (steps[d] != Affine{0, 1}) refuse("has a step and a start that depends on the size");
    value = take(value, d, size(starts[d]), extent);
  }
  put(value, std::move(layout));
}

void Padder::dynamic_slice() {
  const std::vector<Affine> before = dims(now_.op->operands[0]), after = result_dims();
  PaddedDims layout = operand(0).layout;
  Value value = operand(0).value;
  for (int d = 0; d < value.rank(); ++d) {
    if (before[d] == after[d]) continue;
    if (is_padded(layout[d]) && layout[d].size() > 1) refuse("cuts a dim that has padding inside");
    // XLA clamps starts to the true size; so does this.
    const Value given = hlo::convert(operand(1 + static_cast<size_t>(d)).value, DType::kS32);
    const Affine last{before[d].scale - after[d].scale, before[d].offset - after[d].offset};
    value = take(value, d, hlo::clamp(size({0, 0}), given, size(last)), after[d].at(bound_));
    layout[d] = {{after[d], false}};
  }
  put(value, std::move(layout));
}

void Padder::dynamic_update_slice() {
  const std::vector<Affine> whole_dims = dims(now_.op->operands[0]), part = dims(now_.op->operands[1]);
  PaddedDims layout = operand(0).layout;
  std::vector<Value> starts;
  for (int d = 0; d < operand(0).value.rank(); ++d) {
    if (whole_dims[d] == part[d]) {
      layout[d] = merged(layout[d], operand(1).layout[d]);
      starts.push_back(size({0, 0}));
      continue;
    }
    if (!part[d].fixed()) refuse("writes a part whose size depends on the size");
    if (is_padded(layout[d]) && layout[d].size() > 1) refuse("writes into a dim that has padding inside");
    for (Factor& factor : layout[d]) factor.free = false;
    const Value given = hlo::convert(operand(2 + static_cast<size_t>(d)).value, DType::kS32);
    const Affine last{whole_dims[d].scale, whole_dims[d].offset - part[d].offset};
    starts.push_back(hlo::clamp(size({0, 0}), given, size(last)));
  }
  put(hlo::dynamic_update_slice(operand(0).value, operand(1).value, starts), std::move(layout));
}

void Padder::pad() {
  const std::vector<Affine> low = attribute("edge_padding_low"), high = attribute("edge_padding_high"),
                            interior = attribute("interior_padding");
  const std::vector<Affine> after = result_dims();
  Item x = operand(0);
  const Value fill = operand(1).value;
  const int rank = x.value.rank();
  Dims before_dim(rank, 0), behind_dim(rank, 0), between(rank, 0);
  PaddedDims layout = x.layout;
  for (int d = 0; d < rank; ++d) {
    if (is_scalar_zero(low[d]) && is_scalar_zero(high[d]) && is_scalar_zero(interior[d])) continue;
    if (!low[d].fixed() || !interior[d].fixed()) refuse("begins at a place that depends on the size");
    if (is_padded(x.layout[d])) {
      if (x.layout[d].size() > 1 || interior[d].offset != 0 || low[d].offset < 0)
        refuse("pads a dim in a way that moves its padding");
      x.value = masked(x, {d}, fill);
    }
    before_dim[d] = low[d].offset;
    between[d] = interior[d].offset;
    const int64_t spread = x.value.dim(d) + std::max<int64_t>(x.value.dim(d) - 1, 0) * between[d];
    behind_dim[d] = after[d].at(bound_) - spread - before_dim[d];
    layout[d] = {{after[d], false}};
  }
  put(hlo::pad(x.value, fill, before_dim, behind_dim, between), std::move(layout));
}

void Padder::gather() {
  const Item &x = operand(0), &indices = operand(1);
  const std::vector<int> offset = fixed("offset_dims"), collapsed = fixed("collapsed_slice_dims"),
                         batching = fixed("operand_batching_dims"),
                         index_batching = fixed("start_indices_batching_dims"),
                         map = fixed("start_index_map");
  const int vector_dim = fixed("index_vector_dim").at(0);
  const std::vector<Affine> sizes = attribute("slice_sizes"), before = dims(now_.op->operands[0]);
  PaddedDims layout = simple(result_dims());
  std::vector<int> batch;  // dims of the indices that the result has
  for (int d = 0; d < indices.value.rank(); ++d)
    if (d != vector_dim) batch.push_back(d);
  size_t next = 0;
  for (int d = 0; d < static_cast<int>(layout.size()); ++d)
    if (!contains(offset, d)) layout[d] = indices.layout[batch[next++]];
  if (vector_dim < indices.value.rank() && is_padded(indices.layout[vector_dim]))
    refuse("has padded index vectors");
  next = 0;
  for (int d = 0; d < x.value.rank(); ++d) {
    if (contains(batching, d)) {
      const auto place = std::ranges::find(batching, d) - batching.begin();
      (void)merged(x.layout[d], indices.layout[index_batching[static_cast<size_t>(place)]]);
      continue;
    }
    const bool full = sizes[d] == before[d];
    if (!full && !sizes[d].fixed()) refuse("takes slices whose size depends on the size");
    if (!full && is_padded(x.layout[d]) && x.layout[d].size() > 1)
      refuse("looks into a dim that has padding inside");
    if (full && contains(map, d) && is_padded(x.layout[d]))
      refuse("looks for the start of a whole padded dim");
    if (contains(collapsed, d)) continue;
    if (full) layout[offset[next]] = x.layout[d];
    ++next;
  }
  emit({x.value, indices.value}, {std::move(layout)});
}

void Padder::scatter() {
  const std::vector<int> window = fixed("update_window_dims"), inserted = fixed("inserted_window_dims"),
                         batching = fixed("input_batching_dims"), map = fixed("scatter_dims_to_operand_dims");
  const int vector_dim = fixed("index_vector_dim").at(0);
  Item x = operand(0), indices = operand(1), updates = operand(2);
  const std::vector<int> index_batching = fixed("scatter_indices_batching_dims");
  const std::vector<Affine> before = dims(now_.op->operands[0]), part = dims(now_.op->operands[2]);
  size_t next = 0;
  for (int d = 0; d < x.value.rank(); ++d) {
    if (contains(batching, d)) {
      const auto place = static_cast<size_t>(std::ranges::find(batching, d) - batching.begin());
      x.layout[d] = merged(x.layout[d], indices.layout[index_batching[place]]);
      continue;
    }
    if (contains(inserted, d)) {
      if (is_padded(x.layout[d]) && x.layout[d].size() > 1)
        refuse("writes into a dim that has padding inside");
      continue;
    }
    const int from = window[next++];
    if (part[from] == before[d]) {
      if (contains(map, d) && is_padded(x.layout[d])) refuse("looks for the start of a whole padded dim");
      x.layout[d] = merged(x.layout[d], updates.layout[from]);
    } else if (!part[from].fixed() || is_padded(x.layout[d])) {
      refuse("writes windows whose size depends on the size");
    }
  }
  // Updates in the padding are sent to an index that does not exist.
  std::vector<int> batch;
  for (int d = 0; d < indices.value.rank(); ++d)
    if (d != vector_dim) batch.push_back(d);
  next = 0;
  for (int d = 0; d < updates.value.rank(); ++d)
    if (!contains(window, d)) {
      PaddedDim& dim = indices.layout[batch[next++]];
      dim = merged(dim, updates.layout[d]);
    }
  if (vector_dim < indices.value.rank() && is_padded(indices.layout[vector_dim]))
    refuse("has padded index vectors");
  const Value nowhere = hlo::constant(*made_, {indices.value.dtype(), {}}, int64_t{-1});
  const Value places =
      is_unsigned(indices.value.dtype()) && mask(indices, batch) ? Value() : masked(indices, batch, nowhere);
  if (!places) refuse("has unsigned indices");
  for (PaddedDim& dim : x.layout)
    for (Factor& factor : dim) factor.free = false;
  emit({x.value, places, updates.value}, {x.layout});
}

void Padder::reduce_window() {
  const std::vector<Affine> size = attribute("window_dimensions"), padding = attribute("padding");
  const std::vector<int> stride = fixed("window_strides"), base = fixed("base_dilations"),
                         dilation = fixed("window_dilations");
  const size_t count = now_.op->operands.size() / 2;
  std::vector<Value> operands;
  PaddedDims layout = operand(0).layout;
  const std::vector<Affine> after = result_dims();
  std::vector<int> slid;
  for (int d = 0; d < operand(0).value.rank(); ++d) {
    const bool still = size[d] == Affine{0, 1} && stride[d] == 1 && is_scalar_zero(padding[2 * d]) &&
                       is_scalar_zero(padding[2 * d + 1]) && base[d] == 1;
    if (still) continue;
    slid.push_back(d);
    if (!is_padded(layout[d])) {
      if (!size[d].fixed() || !padding[2 * d].fixed() || !padding[2 * d + 1].fixed())
        refuse("slides a window of such a size over a fixed dim");
      layout[d] = {{after[d], false}};
      continue;
    }
    // A window that grows with the dim must look only one way: what it sees more of is padding then.
    const bool grows = !size[d].fixed() || !padding[2 * d].fixed() || !padding[2 * d + 1].fixed();
    const bool one_way = is_scalar_zero(padding[2 * d]) || is_scalar_zero(padding[2 * d + 1]);
    if (layout[d].size() > 1 || stride[d] != 1 || base[d] != 1 || dilation[d] != 1 || (grows && !one_way))
      refuse("slides such a window over a padded dim");
    layout[d] = {{after[d], false}};
  }
  for (size_t i = 0; i < count; ++i) operands.push_back(masked(operand(i), slid, operand(count + i).value));
  for (size_t i = 0; i < count; ++i) operands.push_back(operand(count + i).value);
  emit(std::move(operands), std::vector<PaddedDims>(count, layout));
}

void Padder::sort() {
  const int dim = fixed("dimension").at(0);
  PaddedDims together = operand(0).layout;
  std::vector<Value> operands;
  for (size_t i = 0; i < now_.op->operands.size(); ++i) {
    operands.push_back(operand(i).value);
    for (size_t d = 0; d < together.size(); ++d) together[d] = merged(together[d], operand(i).layout[d]);
  }
  const Value valid = mask({operands[0], together}, {dim});
  if (!valid) return emit(std::move(operands), std::vector<PaddedDims>(now_.op->results.size(), together));
  if (together[dim].size() > 1) refuse("sorts along a dim that has padding inside");
  // Padding goes to the end: whether an element is true becomes the first thing to compare.
  const Program& less = *now_.op->regions[0];
  const size_t count = operands.size();
  operands.push_back(valid);
  const std::vector<Value> sorted = hlo::sort(
      operands, dim, now_.op->attributes.find("is_stable = true") != std::string::npos,
      [&](const std::vector<Value>& left, const std::vector<Value>& right) {
        std::vector<Value> arguments;
        for (size_t i = 0; i < count; ++i) {
          arguments.push_back(left[i]);
          arguments.push_back(right[i]);
        }
        const Value before = inlined(less, arguments, left[0].program())[0];
        return std::vector<Value>{hlo::and_(left[count], hlo::or_(hlo::not_(right[count]), before))};
      });
  for (size_t i = 0; i < count; ++i) put(sorted[i], together);
}

void Padder::top_k() {
  Item x = operand(0);
  const int last = x.value.rank() - 1;
  if (is_padded(x.layout[last])) {
    const DType dtype = x.value.dtype();
    const auto width = static_cast<int>(8 * byte_width(dtype));
    Value least;
    if (is_floating(dtype))
      least = hlo::constant(*made_, {dtype, {}}, -std::numeric_limits<double>::infinity());
    else if (is_unsigned(dtype))
      least = hlo::constant(*made_, {dtype, {}}, 0);
    else
      least = hlo::constant(*made_, {dtype, {}}, std::numeric_limits<int64_t>::min() >> (64 - width));
    x.value = masked(x, {last}, least);
  }
  PaddedDims layout = x.layout;
  const Affine k = result_dims()[static_cast<size_t>(last)];
  if (!k.fixed()) refuse("takes a number of elements that depends on the size");
  layout[last] = {{k, false}};
  emit({x.value}, {layout, layout});
}

void Padder::reverse() {
  Value value = operand(0).value;
  const std::vector<int> dims_reversed = fixed("dimensions");
  const std::vector<Affine> sizes = result_dims();
  PaddedDims layout = operand(0).layout;
  value = hlo::reverse(value, dims_reversed);
  for (int d : dims_reversed) {
    if (!is_padded(layout[d])) continue;
    if (layout[d].size() > 1) refuse("reverses a dim that has padding inside");
    // The padding is in front now.
    const int64_t extent = sizes[d].at(bound_);
    value = take(value, d, size({-sizes[d].scale, extent - sizes[d].offset}), extent);
  }
  put(value, std::move(layout));
}

void Padder::convolution() {
  // #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>: the batch may be padded, and what is slid over.
  const std::string_view text = now_.op->attributes;
  const auto batch_in = [&](size_t list) {
    const size_t from = text.find('[', list);
    return static_cast<int>(std::ranges::count(text.substr(from, text.find('b', from) - from), ','));
  };
  const size_t conv = text.find("conv<");
  if (conv == std::string_view::npos) refuse("has no dimension numbers");
  const int in = batch_in(conv), out = batch_in(text.find("->", conv));
  const std::vector<int> stretched = fixed("lhs_dilation");
  if (std::ranges::any_of(stretched, [](int dilation) { return dilation != 1; }) &&
      std::ranges::count_if(operand(0).layout, is_padded) > is_padded(operand(0).layout[in]))
    refuse("stretches a padded dim");
  if (std::ranges::any_of(operand(1).layout, is_padded)) refuse("has a padded kernel");
  const std::vector<int> groups = fixed("batch_group_count");
  if (!groups.empty() && groups[0] != 1) refuse("has batch groups");
  PaddedDims layout = simple(result_dims());
  layout[out] = operand(0).layout[in];
  std::vector<int> slid;
  for (int d = 0; d < operand(0).value.rank(); ++d) {
    if (d == in) continue;
    if (operand(0).layout[d].size() > 1) refuse("slides over a dim that has padding inside");
    slid.push_back(d);
  }
  const Value zero = hlo::constant(*made_, {operand(0).value.dtype(), {}}, 0);
  emit({masked(operand(0), slid, zero), operand(1).value}, {std::move(layout)});
}

}  // namespace tpu::hlo
