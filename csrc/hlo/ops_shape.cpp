// SPDX-License-Identifier: Apache-2.0
// Ops that move elements: broadcast, slices, padding, reshape, transpose.
#include <algorithm>
#include <string_view>

#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

bool is_iota(const std::vector<int>& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != static_cast<int>(i)) return false;
  return true;
}

// The op that made x if it is of this name, so that two moves become one.
const Op* made_by(Value x, const char* name) {
  const Op& op = x.program().op(x.op());
  return std::string_view(op.name) == name ? &op : nullptr;
}

void check_starts(const char* op, Value x, const std::vector<Value>& starts) {
  check(x && static_cast<int>(starts.size()) == x.rank(), op, "one start for each dim of the operand", {x});
  for (const Value& start : starts)
    check(start && start.rank() == 0 && is_integral(start.dtype()) && start.dtype() == starts[0].dtype(), op,
          "0-d integer starts of one dtype", starts);
}

}  // namespace

std::vector<int> permutation_of(const Op& op) {
  std::vector<int> permutation;
  const std::string& text = op.attributes;
  for (size_t at = text.find(':'); at < text.size() && text[at] != '>'; at = text.find_first_of(",>", at + 1))
    permutation.push_back(std::stoi(text.substr(at + 1)));
  return permutation;
}

Value broadcast_in_dim(Value x, Dims dims, const std::vector<int>& positions) {
  const char* op = "broadcast_in_dim";
  check(x && static_cast<int>(positions.size()) == x.rank() &&
            distinct(positions, static_cast<int>(dims.size())),
        op, "a different dim of the result for each dim of the operand", {x});
  for (int i = 0; i < x.rank(); ++i)
    check(x.dim(i) == 1 || x.dim(i) == dims[positions[i]], op, "dims of size 1 or of the size of the result",
          {x});
  if (dims == x.dims() && is_iota(positions)) return x;
  std::string text = Attributes().array("broadcast_dimensions", positions).take();
  return x.program().add(
      {"stablehlo.broadcast_in_dim", {x}, std::move(text), {}, {{x.dtype(), std::move(dims)}}});
}

Value concatenate(const std::vector<Value>& xs, int dim) {
  const char* op = "concatenate";
  check(all_values(xs) && dim >= 0 && dim < xs[0].rank(), op, "operands, and a dim that they have", xs);
  if (xs.size() == 1) return xs[0];
  Dims dims = xs[0].dims();
  dims[dim] = 0;
  for (const Value& x : xs) {
    bool fits = x.dtype() == xs[0].dtype() && x.rank() == xs[0].rank();
    for (int i = 0; fits && i < x.rank(); ++i) fits = i == dim || x.dim(i) == dims[i];
    check(fits, op, "operands of one dtype that differ in one dim only", xs);
    dims[dim] += x.dim(dim);
  }
  DType dtype = xs[0].dtype();
  return xs[0].program().add({"stablehlo.concatenate",
                              xs,
                              Attributes().integer("dimension", dim).take(),
                              {},
                              {{dtype, std::move(dims)}}});
}

Value dynamic_slice(Value x, const std::vector<Value>& starts, Dims sizes) {
  const char* op = "dynamic_slice";
  check_starts(op, x, starts);
  check(sizes.size() == x.dims().size(), op, "one size for each dim of the operand", {x});
  for (int i = 0; i < x.rank(); ++i)
    check(sizes[i] >= 0 && sizes[i] <= x.dim(i), op, "sizes within the operand", {x});
  if (sizes == x.dims()) return x;  // starts are clamped, here to 0
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  std::string text = Attributes().array("slice_sizes", sizes).take();
  return x.program().add(
      {"stablehlo.dynamic_slice", std::move(operands), std::move(text), {}, {{x.dtype(), std::move(sizes)}}});
}

Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& starts) {
  const char* op = "dynamic_update_slice";
  check_starts(op, x, starts);
  check(update && update.dtype() == x.dtype() && update.rank() == x.rank(), op,
        "an update of the operand's dtype and rank", {x, update});
  for (int i = 0; i < x.rank(); ++i)
    check(update.dim(i) <= x.dim(i), op, "an update that fits into the operand", {x, update});
  if (update.dims() == x.dims()) return update;  // starts are clamped, here to 0
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return x.program().add({"stablehlo.dynamic_update_slice", std::move(operands), {}, {}, {x.type()}});
}

Value pad(Value x, Value fill, Dims low, Dims high, Dims interior) {
  const char* op = "pad";
  check(x && fill && fill.rank() == 0 && fill.dtype() == x.dtype(), op,
        "an operand and a 0-d fill of its dtype", {x, fill});
  if (interior.empty()) interior.assign(x.dims().size(), 0);
  check(low.size() == x.dims().size() && high.size() == low.size() && interior.size() == low.size(), op,
        "low, high and interior padding for each dim", {x, fill});
  Dims dims = x.dims();
  bool nothing = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    nothing &= low[i] == 0 && high[i] == 0 && interior[i] == 0;
    dims[i] += low[i] + high[i] + std::max<int64_t>(dims[i] - 1, 0) * interior[i];
    check(interior[i] >= 0 && dims[i] >= 0, op, "padding that leaves something", {x, fill});
  }
  if (nothing) return x;
  std::string text = Attributes()
                         .array("edge_padding_low", low)
                         .array("edge_padding_high", high)
                         .array("interior_padding", interior)
                         .take();
  return x.program().add({"stablehlo.pad", {x, fill}, std::move(text), {}, {{x.dtype(), std::move(dims)}}});
}

Value reshape(Value x, Dims dims) {
  check(x && product(dims) == x.numel(), "reshape", "as many elements as the result has", {x});
  if (const Op* op = made_by(x, "stablehlo.reshape")) x = op->operands[0];
  if (dims == x.dims()) return x;
  return x.program().add({"stablehlo.reshape", {x}, {}, {}, {{x.dtype(), std::move(dims)}}});
}

Value reverse(Value x, const std::vector<int>& dims) {
  check(x && distinct(dims, x.rank()), "reverse", "an operand that has the reversed dims, each once", {x});
  bool nothing = true;
  for (int dim : dims) nothing &= x.dim(dim) <= 1;
  if (nothing) return x;
  return x.program().add(
      {"stablehlo.reverse", {x}, Attributes().array("dimensions", dims).take(), {}, {x.type()}});
}

Value slice(Value x, Dims starts, Dims limits, Dims steps) {
  const char* op = "slice";
  check(static_cast<bool>(x), op, "an operand", {x});
  if (steps.empty()) steps.assign(x.dims().size(), 1);
  check(starts.size() == x.dims().size() && limits.size() == starts.size() && steps.size() == starts.size(),
        op, "a start, limit and step for each dim", {x});
  Dims dims(starts.size());
  for (int i = 0; i < x.rank(); ++i) {
    check(starts[i] >= 0 && starts[i] <= limits[i] && limits[i] <= x.dim(i) && steps[i] > 0, op,
          "0 <= start <= limit <= size, and a positive step", {x});
    dims[i] = (limits[i] - starts[i] + steps[i] - 1) / steps[i];
  }
  if (dims == x.dims()) return x;
  std::string text = Attributes()
                         .array("start_indices", starts)
                         .array("limit_indices", limits)
                         .array("strides", steps)
                         .take();
  return x.program().add({"stablehlo.slice", {x}, std::move(text), {}, {{x.dtype(), std::move(dims)}}});
}

Value transpose(Value x, const std::vector<int>& permutation) {
  check(x && static_cast<int>(permutation.size()) == x.rank() && distinct(permutation, x.rank()), "transpose",
        "a permutation of the operand's dims", {x});
  if (is_iota(permutation)) return x;
  if (const Op* op = made_by(x, "stablehlo.transpose")) {
    const std::vector<int> first = permutation_of(*op);
    std::vector<int> both;
    for (int dim : permutation) both.push_back(first[dim]);
    return transpose(op->operands[0], both);
  }
  Dims dims;
  for (int dim : permutation) dims.push_back(x.dim(dim));
  std::string text = Attributes().array("permutation", permutation).take();
  return x.program().add({"stablehlo.transpose", {x}, std::move(text), {}, {{x.dtype(), std::move(dims)}}});
}

Value get_dimension_size(Value x, int dim) {
  check(x && dim >= 0 && dim < x.rank(), "get_dimension_size", "an operand that has the dim", {x});
  return x.program().add({"stablehlo.get_dimension_size",
                          {x},
                          Attributes().integer("dimension", dim).take(),
                          {},
                          {{DType::kS32, {}}}});
}

Value set_dimension_size(Value x, Value size, int dim) {
  check(x && size && dim >= 0 && dim < x.rank() && size.rank() == 0 && size.dtype() == DType::kS32,
        "set_dimension_size", "an operand that has the dim, and a 0-d i32 size", {x, size});
  return x.program().add({"stablehlo.set_dimension_size",
                          {x, size},
                          Attributes().integer("dimension", dim).take(),
                          {},
                          {x.type()}});
}

}  // namespace tpu::hlo
