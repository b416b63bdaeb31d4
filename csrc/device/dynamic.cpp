// SPDX-License-Identifier: Apache-2.0
// Ops whose result's size depends on values: the size is fetched first, then the result is computed by
// ordinary ops. Also the preparation of index tensors, because masks are such ops.
#include <ATen/ExpandUtils.h>
#include <ATen/core/List.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/moveaxis.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>

#include "device/operators.h"
#include "runtime/storage.h"

namespace tpu::device {
namespace {

using Optional = std::optional<at::Tensor>;

// Flat places of the true elements, in order.
at::Tensor true_places(const at::Tensor& mask) {
  at::Tensor flat = mask.reshape({-1}).to(at::kInt);
  const int64_t count = flat.numel() == 0 ? 0 : flat.sum().item<int64_t>();
  if (count == 0) return at::empty({0}, mask.options().dtype(at::kLong));
  // The k-th true element is where the running count of true elements first reaches k.
  return at::searchsorted(flat.cumsum(0), at::arange(1, count + 1, mask.options().dtype(at::kLong)));
}

at::Tensor find_nonzero(const at::Tensor& self) {
  at::Tensor mask = self.scalar_type() == at::kBool ? self : self.ne(0);
  at::Tensor places = true_places(mask);
  if (self.dim() == 0) return at::empty({places.numel(), 0}, places.options());
  std::vector<at::Tensor> columns(self.dim());
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = std::max<int64_t>(self.size(d), 1);
    columns[d] = d == 0 ? places : places.remainder(size);
    if (d > 0) places = places.div(size, "floor");
  }
  return at::stack(columns, 0).t();  // strides (1, n), as on the CPU and CUDA
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  at::Tensor result = find_nonzero(self);
  out.resize_(result.sizes());
  return out.copy_(result);
}

at::Tensor select_masked(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  auto [m, s] = at::expand_outplace(mask, self);
  return s->reshape({-1}).index_select(0, true_places(*m));
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::Tensor result = select_masked(self, mask);
  out.resize_(result.sizes());
  return out.copy_(result);
}

// The places along dim 0 where `differs` begins a group of equal neighbours, the group of each one (in the
// order that `order` undoes, if there is one), and the sizes of the groups.
std::tuple<at::Tensor, at::Tensor, at::Tensor> groups(const at::Tensor& differs, int64_t count,
                                                      const at::Tensor& order) {
  at::Tensor first = at::cat({at::ones({1}, differs.options()), differs});
  at::Tensor places = true_places(first);
  at::Tensor group = first.to(at::kLong).cumsum(0).sub(1);
  at::Tensor inverse = order.defined() ? at::empty_like(group).scatter(0, order, group) : group;
  at::Tensor ends = at::cat({places.slice(0, 1), at::empty({1}, places.options()).fill_(count)});
  return {places, inverse, ends.sub(places)};
}

// Sorted unique elements of a 1-d tensor; equal neighbours are dropped.
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_of_sorted(const at::Tensor& sorted,
                                                                const at::Tensor& order) {
  const int64_t count = sorted.numel();
  if (count == 0) {
    at::Tensor none = at::empty({0}, sorted.options().dtype(at::kLong));
    return {sorted, none, none};
  }
  auto [places, inverse, counts] = groups(sorted.slice(0, 1).ne(sorted.slice(0, 0, count - 1)), count, order);
  return {sorted.index_select(0, places), inverse, counts};
}

// unique_dim and, where neighbours only count, unique_consecutive along a dim: slices of self are compared
// whole.
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_slices(const at::Tensor& self, int64_t dim, bool sorts,
                                                             bool return_inverse, bool return_counts) {
  at::Tensor none = at::empty({0}, self.options().dtype(at::kLong));
  const int64_t zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.size(dim) == 0) {
    TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return {self.clone(), none, none};
  }
  TORCH_CHECK(zeros == 0,
              "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  at::Tensor moved = self.moveaxis(dim, 0);
  const int64_t count = moved.size(0);
  at::Tensor rows = moved.reshape({count, -1}), order;
  if (sorts) {  // by the last column first: a stable sort keeps its order among equal elements of the others
    order = at::arange(count, none.options());
    for (int64_t column = rows.size(1); column-- > 0;) {
      at::Tensor keys = rows.select(1, column).index_select(0, order);
      order = order.index_select(0, std::get<1>(keys.sort(/*stable=*/true, 0, false)));
    }
    rows = rows.index_select(0, order);
  }
  auto [places, inverse, counts] =
      groups(rows.slice(0, 1).ne(rows.slice(0, 0, count - 1)).any(1), count, order);
  at::Tensor kept = moved.index_select(0, sorts ? order.index_select(0, places) : places);
  return {kept.moveaxis(0, dim).contiguous(), return_inverse ? inverse : none, return_counts ? counts : none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> find_unique_dim(const at::Tensor& self, int64_t dim, bool,
                                                               bool return_inverse, bool return_counts) {
  return unique_slices(self, c10::maybe_wrap_dim(dim, self.dim()), true, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> find_unique_dim_consecutive(const at::Tensor& self,
                                                                           int64_t dim, bool return_inverse,
                                                                           bool return_counts) {
  return unique_slices(self, c10::maybe_wrap_dim(dim, self.dim()), false, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> find_unique(const at::Tensor& self, bool, bool return_inverse,
                                                           bool return_counts) {
  at::Tensor flat = self.reshape({-1});
  auto [sorted, order] = flat.sort(/*stable=*/true, 0, false);
  auto [values, inverse, counts] = unique_of_sorted(sorted, order);
  at::Tensor none = at::empty({0}, self.options().dtype(at::kLong));
  return {values, return_inverse ? inverse.reshape(self.sizes()) : none, return_counts ? counts : none};
}

std::tuple<at::Tensor, at::Tensor> find_unique_pair(const at::Tensor& self, bool sorted,
                                                    bool return_inverse) {
  auto [values, inverse, counts] = find_unique(self, sorted, return_inverse, false);
  return {values, inverse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> find_unique_consecutive(const at::Tensor& self,
                                                                       bool return_inverse,
                                                                       bool return_counts,
                                                                       std::optional<int64_t> dim) {
  if (dim && self.dim() != 1) return find_unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  auto [values, inverse, counts] = unique_of_sorted(self.reshape({-1}), {});
  at::Tensor none = at::empty({0}, self.options().dtype(at::kLong));
  return {values, return_inverse ? inverse.reshape(self.sizes()) : none, return_counts ? counts : none};
}

at::Tensor repeated_places(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  at::Tensor ends = repeats.cumsum(0);
  const int64_t count = output_size ? *output_size : ends.select(0, -1).item<int64_t>();
  return at::searchsorted(ends, at::arange(count, repeats.options().dtype(at::kLong)), /*out_int32=*/false,
                          /*right=*/true)
      .to(repeats.scalar_type());
}

at::Tensor count_values(const at::Tensor& self, const Optional& weights, int64_t minlength) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), /*includeBool=*/false),
                              "\"bincount\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const bool weighted = weights.has_value() && weights->defined();
  const auto type = !weighted || self.numel() == 0         ? at::kLong
                    : weights->scalar_type() == at::kFloat ? at::kFloat
                                                           : at::kDouble;
  int64_t count = minlength;
  if (self.dim() == 1 && self.numel() > 0) {
    auto [least, most] = self.to(at::kLong).aminmax();
    at::Tensor ends = at::stack({least, most}).cpu();
    TORCH_CHECK(ends[0].item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    count = std::max(count, ends[1].item<int64_t>() + 1);
  } else {
    TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  }
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  at::Tensor added = weighted ? weights->to(type) : at::ones(self.sizes(), self.options().dtype(at::kLong));
  return at::zeros({count}, self.options().dtype(type)).scatter_add(0, self.to(at::kLong), added);
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || self.eq(other).all().item<bool>();
}

// Masks become the places of their true elements; index tensors on the CPU move to the device.
c10::IValue prepared(const at::Tensor& self, const c10::List<Optional>& indices) {
  c10::List<Optional> result;
  for (const Optional& index : indices) {
    if (!index.has_value() || !index->defined()) {
      result.push_back(std::nullopt);
      continue;
    }
    const at::Tensor& given = *index;
    if (given.scalar_type() != at::kBool && given.scalar_type() != at::kByte) {
      TORCH_CHECK_INDEX(given.scalar_type() == at::kLong || given.scalar_type() == at::kInt,
                        "tensors used as indices must be long, int, byte or bool tensors");
      result.push_back(given.device() == self.device() ? given : given.to(self.device()));
      continue;
    }
    for (int64_t d = 0; d < given.dim(); ++d) {
      const auto at = static_cast<int64_t>(result.size()) + d;
      TORCH_CHECK_INDEX(at < self.dim() && given.size(d) == self.size(at), "The shape of the mask ",
                        given.sizes(), " at index ", d, " does not match the shape of the indexed tensor ",
                        self.sizes(), " at index ", at);
    }
    at::Tensor there = given.device() == self.device() ? given : given.to(self.device());
    at::Tensor places = find_nonzero(there);
    if (given.dim() == 0) {  // a 0-d mask adds a dimension of size 0 or 1; the rule has no index for it
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, "index: a mask without dimensions is not supported on tpu; use torch.where");
    }
    for (int64_t d = 0; d < given.dim(); ++d) result.push_back(places.select(1, d));
  }
  return result;
}

// x[mask] = number: the rule selects with the mask itself, so that no places are needed.
bool single_mask(const at::Tensor& self, const c10::List<Optional>& indices, const at::Tensor& values) {
  at::Tensor mask;
  int64_t first = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Optional index = indices.get(i);
    if (!index.has_value() || !index->defined()) continue;
    if (mask.defined() || index->scalar_type() != at::kBool) return false;
    mask = *index;
    first = static_cast<int64_t>(i);
  }
  return mask.defined() && mask.dim() > 0 && mask.device() == self.device() && values.numel() == 1 &&
         first + mask.dim() <= self.dim() && mask.sizes() == self.sizes().slice(first, mask.dim());
}

bool plain(const at::Tensor& self, const c10::List<Optional>& indices) {
  for (const Optional& index : indices)
    if (index.has_value() && index->defined() &&
        (index->device() != self.device() ||
         (index->scalar_type() != at::kLong && index->scalar_type() != at::kInt)))
      return false;
  return true;
}

// A boxed kernel that prepares the indices (argument 1) and then runs the op's rule.
struct IndexKernel final : c10::OperatorKernel {
  explicit IndexKernel(runtime::Operator* op) : op(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op->arguments.size();
    const c10::IValue& self = torch::jit::peek(*stack, 0, count);
    c10::IValue& indices = torch::jit::peek(*stack, 1, count);
    if (self.toTensor().device().type() == runtime::kDevice) {
      const auto list = indices.to<c10::List<Optional>>();
      const bool selects = op->row->op != std::string_view("index.Tensor") && count > 2 &&
                           torch::jit::peek(*stack, 2, count).isTensor() &&
                           single_mask(self.toTensor(), list, torch::jit::peek(*stack, 2, count).toTensor());
      if (!selects && !plain(self.toTensor(), list)) indices = prepared(self.toTensor(), list);
    }
    runtime::call_operator(*op, stack);
  }
  runtime::Operator* op;
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("bincount", &count_values);
  m.impl("equal", &equal);
  m.impl("nonzero", &find_nonzero);
  m.impl("nonzero.out", &nonzero_out);
  m.impl("masked_select", &select_masked);
  m.impl("masked_select.out", &masked_select_out);
  m.impl("_unique", &find_unique_pair);
  m.impl("_unique2", &find_unique);
  m.impl("unique_dim", &find_unique_dim);
  m.impl("unique_dim_consecutive", &find_unique_dim_consecutive);
  m.impl("unique_consecutive", &find_unique_consecutive);
  m.impl("repeat_interleave.Tensor", &repeated_places);
}

}  // namespace

void register_index_ops(torch::Library& library) {
  for (const char* name :
       {"index.Tensor", "index.Tensor_out", "index_put", "index_put_", "index_put.out", "_index_put_impl_",
        "_index_put_impl", "_index_put_impl.out", "_unsafe_index.Tensor", "_unsafe_index_put"})
    if (runtime::Operator* op = find_operator(name))
      library.impl(name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<IndexKernel>(op)));
}

}  // namespace tpu::device
