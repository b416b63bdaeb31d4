// SPDX-License-Identifier: Apache-2.0
// Result shapes of the ops with windows and index maps, checks, and the text of attributes.
#include "hlo/infer.h"

namespace tpu::hlo {

bool distinct(const std::vector<int>& dims, int rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank) return false;
    for (size_t j = 0; j < i; ++j)
      if (dims[j] == dims[i]) return false;
  }
  return true;
}

bool contains(const std::vector<int>& dims, int dim) {
  for (int d : dims)
    if (d == dim) return true;
  return false;
}

bool all_values(const std::vector<Value>& xs) {
  for (const Value& x : xs)
    if (!x) return false;
  return !xs.empty();
}

int64_t window_extent(int64_t dim, int64_t size, int64_t stride, int64_t base_dilation,
                      int64_t window_dilation, std::pair<int64_t, int64_t> padding) {
  if (size < 1 || stride < 1 || base_dilation < 1 || window_dilation < 1) return -1;
  int64_t base = dim == 0 ? 0 : (dim - 1) * base_dilation + 1;
  int64_t padded = base + padding.first + padding.second;
  int64_t window = (size - 1) * window_dilation + 1;
  if (padded < 0) return -1;
  return padded < window ? 0 : (padded - window) / stride + 1;
}

Window filled(const Window& window, const char* op, Value x) {
  size_t rank = x.dims().size();
  Window result = window;
  for (Dims* dims : {&result.stride, &result.base_dilation, &result.window_dilation})
    if (dims->empty()) dims->assign(rank, 1);
  if (result.padding.empty()) result.padding.assign(rank, {0, 0});
  check(result.size.size() == rank && result.stride.size() == rank && result.base_dilation.size() == rank &&
            result.window_dilation.size() == rank && result.padding.size() == rank,
        op, "a window with a size, stride, dilation and padding for each dim", {x});
  return result;
}

Dims window_dims(const Window& window, const char* op, Value x) {
  Dims dims(x.dims().size());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = window_extent(x.dims()[i], window.size[i], window.stride[i], window.base_dilation[i],
                            window.window_dilation[i], window.padding[i]);
    check(dims[i] >= 0, op,
          "a window with positive sizes, strides and dilations, and a padding that leaves something", {x});
  }
  return dims;
}

Dims gather_shape(Value x, Value indices, const GatherDims& dims, const Dims& slice_sizes) {
  const char* op = "gather";
  check(x && indices && is_integral(indices.dtype()), op, "an operand and integer indices", {x, indices});
  int rank = x.rank(), index_rank = indices.rank(), vector = dims.index_vector_dim;
  check(vector >= 0 && vector <= index_rank, op, "index_vector_dim within the rank of the indices",
        {x, indices});
  int64_t vector_size = vector == index_rank ? 1 : indices.dim(vector);
  check(static_cast<int64_t>(dims.start_index_map.size()) == vector_size &&
            distinct(dims.start_index_map, rank),
        op, "a start_index_map with a different dim of the operand for each index of a vector", {x, indices});
  std::vector<int> gone = dims.collapsed_slice_dims;
  gone.insert(gone.end(), dims.operand_batching_dims.begin(), dims.operand_batching_dims.end());
  check(distinct(gone, rank) && static_cast<int>(slice_sizes.size()) == rank, op,
        "different collapsed and batching dims, and a slice size for each dim of the operand", {x, indices});
  check(dims.operand_batching_dims.size() == dims.start_indices_batching_dims.size() &&
            distinct(dims.start_indices_batching_dims, index_rank),
        op, "as many batching dims of the operand as of the indices", {x, indices});
  for (size_t i = 0; i < dims.operand_batching_dims.size(); ++i)
    check(x.dim(dims.operand_batching_dims[i]) == indices.dim(dims.start_indices_batching_dims[i]), op,
          "batching dims of equal size", {x, indices});
  Dims offsets;
  for (int i = 0; i < rank; ++i) {
    bool collapsed = contains(gone, i);
    check(slice_sizes[i] >= 0 && slice_sizes[i] <= x.dim(i) && (!collapsed || slice_sizes[i] <= 1), op,
          "slice sizes within the operand, and at most 1 where collapsed", {x, indices});
    if (!collapsed) offsets.push_back(slice_sizes[i]);
  }
  int result_rank = index_rank - (vector < index_rank) + static_cast<int>(offsets.size());
  check(dims.offset_dims.size() == offsets.size() && distinct(dims.offset_dims, result_rank), op,
        "an offset dim for each dim of the operand that is not collapsed", {x, indices});
  Dims shape(result_rank);
  int offset = 0, batch = 0;
  for (int i = 0; i < result_rank; ++i) {
    if (contains(dims.offset_dims, i)) {
      shape[i] = offsets[offset++];
    } else {
      batch += batch == vector;
      shape[i] = indices.dim(batch++);
    }
  }
  return shape;
}

void check_scatter(Value x, Value indices, Value updates, const ScatterDims& dims) {
  const char* op = "scatter";
  check(x && indices && updates && is_integral(indices.dtype()) && x.dtype() == updates.dtype(), op,
        "an operand, integer indices, and updates of the operand's dtype", {x, indices, updates});
  int rank = x.rank(), index_rank = indices.rank(), vector = dims.index_vector_dim;
  check(vector >= 0 && vector <= index_rank, op, "index_vector_dim within the rank of the indices",
        {x, indices, updates});
  int64_t vector_size = vector == index_rank ? 1 : indices.dim(vector);
  check(static_cast<int64_t>(dims.scatter_dims_to_operand_dims.size()) == vector_size &&
            distinct(dims.scatter_dims_to_operand_dims, rank),
        op, "scatter_dims_to_operand_dims with a different dim of the operand for each index of a vector",
        {x, indices, updates});
  std::vector<int> gone = dims.inserted_window_dims;
  gone.insert(gone.end(), dims.input_batching_dims.begin(), dims.input_batching_dims.end());
  check(distinct(gone, rank) && dims.update_window_dims.size() + gone.size() == x.dims().size(), op,
        "window, inserted and batching dims that together are the dims of the operand",
        {x, indices, updates});
  check(dims.input_batching_dims.size() == dims.scatter_indices_batching_dims.size() &&
            distinct(dims.scatter_indices_batching_dims, index_rank),
        op, "as many batching dims of the operand as of the indices", {x, indices, updates});
  int batch_rank = index_rank - (vector < index_rank);
  check(updates.rank() == batch_rank + static_cast<int>(dims.update_window_dims.size()) &&
            distinct(dims.update_window_dims, updates.rank()),
        op, "updates with the dims of the indices and of the window", {x, indices, updates});
  int window = 0, batch = 0;
  for (int i = 0; i < updates.rank(); ++i) {
    if (contains(dims.update_window_dims, i)) {
      while (contains(gone, window)) ++window;
      check(updates.dim(i) <= x.dim(window++), op, "updates with windows within the operand",
            {x, indices, updates});
    } else {
      batch += batch == vector;
      check(updates.dim(i) == indices.dim(batch++), op, "updates with the dims of the indices",
            {x, indices, updates});
    }
  }
}

Dims dot_shape(Value x, Value y, const DotDims& dims) {
  const char* op = "dot_general";
  check(x && y, op, "two operands", {x, y});
  std::vector<int> lhs = dims.lhs_batch, rhs = dims.rhs_batch;
  lhs.insert(lhs.end(), dims.lhs_contract.begin(), dims.lhs_contract.end());
  rhs.insert(rhs.end(), dims.rhs_contract.begin(), dims.rhs_contract.end());
  check(dims.lhs_batch.size() == dims.rhs_batch.size() && lhs.size() == rhs.size() &&
            distinct(lhs, x.rank()) && distinct(rhs, y.rank()),
        op, "as many batch and contracting dims at the left as at the right, all different", {x, y});
  for (size_t i = 0; i < lhs.size(); ++i)
    check(x.dim(lhs[i]) == y.dim(rhs[i]), op, "batch and contracting dims of equal size", {x, y});
  Dims shape;
  for (int dim : dims.lhs_batch) shape.push_back(x.dim(dim));
  for (int i = 0; i < x.rank(); ++i)
    if (!contains(lhs, i)) shape.push_back(x.dim(i));
  for (int i = 0; i < y.rank(); ++i)
    if (!contains(rhs, i)) shape.push_back(y.dim(i));
  return shape;
}

std::string& Attributes::begin(const char* name) {
  if (!first_) text_ += ", ";
  first_ = false;
  text_ += name;
  return text_ += " = ";
}

Attributes& Attributes::integer(const char* name, int64_t value) {
  append_int(begin(name), value);
  text_ += " : i64";
  return *this;
}

Attributes& Attributes::number(const char* name, int64_t value) {
  append_int(begin(name), value);
  return *this;
}

Attributes& Attributes::flag(const char* name, bool value) {
  begin(name) += value ? "true" : "false";
  return *this;
}

Attributes& Attributes::verbatim(const char* name, const std::string& value) {
  begin(name) += value;
  return *this;
}

Attributes& Attributes::string(const char* name, const std::string& value) {
  begin(name) += '"';
  constexpr char kHex[] = "0123456789ABCDEF";
  for (unsigned char c : value) {
    if (c < 0x20 || c >= 0x7F || c == '"' || c == '\\') {
      text_ += '\\';
      text_ += kHex[c >> 4];
      text_ += kHex[c & 15];
    } else {
      text_ += static_cast<char>(c);
    }
  }
  text_ += '"';
  return *this;
}

Attributes& Attributes::padding(const char* name, const std::vector<std::pair<int64_t, int64_t>>& values) {
  begin(name) += "dense<";
  if (!values.empty()) {
    text_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      text_ += i ? ", [" : "[";
      append_int(text_, values[i].first);
      text_ += ", ";
      append_int(text_, values[i].second);
      text_ += ']';
    }
    text_ += ']';
  }
  text_ += "> : tensor<";
  append_int(text_, static_cast<int64_t>(values.size()));
  text_ += "x2xi64>";
  return *this;
}

Attributes& Attributes::open(const char* name, const char* prefix) {
  begin(name) += prefix;
  first_ = true;
  return *this;
}

Attributes& Attributes::list(const char* name, const std::vector<int>& values) {
  begin(name) += '[';
  join(values);
  text_ += ']';
  return *this;
}

Attributes& Attributes::shut() {
  text_ += '>';
  first_ = false;
  return *this;
}

std::vector<Value> results_of(Value first, size_t count) {
  std::vector<Value> results;
  results.reserve(count);
  for (size_t i = 0; i < count; ++i)
    results.emplace_back(&first.program(), first.op(), static_cast<int32_t>(i));
  return results;
}

}  // namespace tpu::hlo
