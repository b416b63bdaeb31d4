// SPDX-License-Identifier: Apache-2.0
// Reductions over whole dims and over windows, and sorting.
#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

// Checks the operands of a reduction, and gives their dtypes.
std::vector<DType> reduced_dtypes(const char* op, const std::vector<Value>& xs,
                                  const std::vector<Value>& inits) {
  check(all_values(xs) && inits.size() == xs.size(), op, "operands, and an initial value for each", xs);
  std::vector<DType> dtypes;
  for (size_t i = 0; i < xs.size(); ++i) {
    check(
        inits[i] && inits[i].rank() == 0 && inits[i].dtype() == xs[i].dtype() && xs[i].dims() == xs[0].dims(),
        op, "operands of equal dims, and 0-d initial values of their dtypes", {xs[i], inits[i]});
    dtypes.push_back(xs[i].dtype());
  }
  return dtypes;
}

void check_body(const char* op, const Program& region, const std::vector<DType>& dtypes) {
  bool fits = region.returned().size() == dtypes.size();
  for (size_t i = 0; fits && i < dtypes.size(); ++i)
    fits = region.returned()[i].type() == Type{dtypes[i], {}};
  check(fits, op, "a body that returns a 0-d value of each operand's dtype", region.returned());
}

std::vector<Value> add_reduction(const char* name, const std::vector<Value>& xs,
                                 const std::vector<Value>& inits, std::string attributes,
                                 std::shared_ptr<const Program> region, const Dims& dims) {
  std::vector<Value> operands = xs;
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<Type> results;
  for (const Value& x : xs) results.push_back({x.dtype(), dims});
  return results_of(
      xs[0].program().add(
          {name, std::move(operands), std::move(attributes), {std::move(region)}, std::move(results)}),
      xs.size());
}

std::vector<Value> reduce_with(const std::vector<Value>& xs, const std::vector<Value>& inits,
                               const std::vector<int>& dims, std::shared_ptr<const Program> region) {
  check(distinct(dims, xs[0].rank()), "reduce", "operands that have the reduced dims, each once", xs);
  Dims shape;
  for (int i = 0; i < xs[0].rank(); ++i)
    if (!contains(dims, i)) shape.push_back(xs[0].dim(i));
  return add_reduction("stablehlo.reduce", xs, inits, Attributes().array("dimensions", dims).take(),
                       std::move(region), shape);
}

std::vector<Value> window_with(const std::vector<Value>& xs, const std::vector<Value>& inits,
                               const Window& window, std::shared_ptr<const Program> region) {
  Window all = filled(window, "reduce_window", xs[0]);
  std::string text = Attributes()
                         .array("window_dimensions", all.size)
                         .array("window_strides", all.stride)
                         .array("base_dilations", all.base_dilation)
                         .array("window_dilations", all.window_dilation)
                         .padding("padding", all.padding)
                         .take();
  return add_reduction("stablehlo.reduce_window", xs, inits, std::move(text), std::move(region),
                       window_dims(all, "reduce_window", xs[0]));
}

}  // namespace

std::vector<Value> reduce(const std::vector<Value>& xs, const std::vector<Value>& inits,
                          const std::vector<int>& dims, const Body& body) {
  std::vector<DType> dtypes = reduced_dtypes("reduce", xs, inits);
  std::shared_ptr<const Program> region = make_region(dtypes, body);
  check_body("reduce", *region, dtypes);
  return reduce_with(xs, inits, dims, std::move(region));
}

Value reduce(Value x, Value init, const std::vector<int>& dims, Binary body) {
  reduced_dtypes("reduce", {x}, {init});
  return reduce_with({x}, {init}, dims, binary_region(x.dtype(), body))[0];
}

std::vector<Value> reduce_window(const std::vector<Value>& xs, const std::vector<Value>& inits,
                                 const Window& window, const Body& body) {
  std::vector<DType> dtypes = reduced_dtypes("reduce_window", xs, inits);
  std::shared_ptr<const Program> region = make_region(dtypes, body);
  check_body("reduce_window", *region, dtypes);
  return window_with(xs, inits, window, std::move(region));
}

Value reduce_window(Value x, Value init, const Window& window, Binary body) {
  reduced_dtypes("reduce_window", {x}, {init});
  return window_with({x}, {init}, window, binary_region(x.dtype(), body))[0];
}

Value select_and_scatter(Value x, Value source, Value init, const Window& window, Direction select,
                         Binary scatter) {
  const char* op = "select_and_scatter";
  check(x && source && init && source.dtype() == x.dtype() && init.type() == Type{x.dtype(), {}}, op,
        "an operand, a source and a 0-d initial value of one dtype", {x, source, init});
  Window all = filled(window, op, x);
  for (size_t i = 0; i < all.size.size(); ++i)
    check(all.base_dilation[i] == 1 && all.window_dilation[i] == 1, op, "a window without dilation",
          {x, source});
  check(window_dims(all, op, x) == source.dims(), op, "a source with one element for each window",
        {x, source});
  std::string text = Attributes()
                         .array("window_dimensions", all.size)
                         .array("window_strides", all.stride)
                         .padding("padding", all.padding)
                         .take();
  return x.program().add({"stablehlo.select_and_scatter",
                          {x, source, init},
                          std::move(text),
                          {compare_region(x.dtype(), select), binary_region(x.dtype(), scatter)},
                          {x.type()}});
}

std::vector<Value> sort(const std::vector<Value>& xs, int dim, bool stable, const Body& less) {
  check(all_values(xs) && dim >= 0 && dim < xs[0].rank(), "sort", "operands, and a dim that they have", xs);
  std::vector<DType> dtypes;
  std::vector<Type> results;
  for (const Value& x : xs) {
    check(x.dims() == xs[0].dims(), "sort", "operands of equal dims", xs);
    dtypes.push_back(x.dtype());
    results.push_back(x.type());
  }
  std::shared_ptr<const Program> region = make_region(dtypes, less, /*interleaved=*/true);
  check(region->returned().size() == 1 && region->returned()[0].type() == Type{DType::kPred, {}}, "sort",
        "a comparison that returns one 0-d boolean", region->returned());
  std::string text = Attributes().integer("dimension", dim).flag("is_stable", stable).take();
  return results_of(
      xs[0].program().add({"stablehlo.sort", xs, std::move(text), {std::move(region)}, std::move(results)}),
      xs.size());
}

std::pair<Value, Value> top_k(Value x, int64_t k) {
  check(x && x.rank() > 0 && k >= 0 && k <= x.dims().back() && !is_complex(x.dtype()), "top_k",
        "an ordered operand with at least k elements in its last dim", {x});
  Dims dims = x.dims();
  dims.back() = k;
  Value values = x.program().add(
      {"chlo.top_k", {x}, Attributes().integer("k", k).take(), {}, {{x.dtype(), dims}, {DType::kS32, dims}}});
  return {values, Value(&x.program(), values.op(), 1)};
}

}  // namespace tpu::hlo
