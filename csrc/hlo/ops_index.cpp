// SPDX-License-Identifier: Apache-2.0
// Gather and scatter.
#include "hlo/infer.h"

namespace tpu::hlo {

Value gather(Value x, Value indices, const GatherDims& dims, Dims slice_sizes, bool indices_are_sorted) {
  Dims shape = gather_shape(x, indices, dims, slice_sizes);
  std::string text = Attributes()
                         .open("dimension_numbers", "#stablehlo.gather<")
                         .list("offset_dims", dims.offset_dims)
                         .list("collapsed_slice_dims", dims.collapsed_slice_dims)
                         .list("operand_batching_dims", dims.operand_batching_dims)
                         .list("start_indices_batching_dims", dims.start_indices_batching_dims)
                         .list("start_index_map", dims.start_index_map)
                         .number("index_vector_dim", dims.index_vector_dim)
                         .shut()
                         .flag("indices_are_sorted", indices_are_sorted)
                         .array("slice_sizes", slice_sizes)
                         .take();
  return x.program().add(
      {"stablehlo.gather", {x, indices}, std::move(text), {}, {{x.dtype(), std::move(shape)}}});
}

Value scatter(Value x, Value indices, Value updates, const ScatterDims& dims, Binary body,
              bool indices_are_sorted, bool unique_indices) {
  check_scatter(x, indices, updates, dims);
  std::string text = Attributes()
                         .flag("indices_are_sorted", indices_are_sorted)
                         .open("scatter_dimension_numbers", "#stablehlo.scatter<")
                         .list("update_window_dims", dims.update_window_dims)
                         .list("inserted_window_dims", dims.inserted_window_dims)
                         .list("input_batching_dims", dims.input_batching_dims)
                         .list("scatter_indices_batching_dims", dims.scatter_indices_batching_dims)
                         .list("scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims)
                         .number("index_vector_dim", dims.index_vector_dim)
                         .shut()
                         .flag("unique_indices", unique_indices)
                         .take();
  auto region = body ? binary_region(x.dtype(), body) : replace_region(x.dtype());
  return x.program().add(
      {"stablehlo.scatter", {x, indices, updates}, std::move(text), {std::move(region)}, {x.type()}});
}

}  // namespace tpu::hlo
