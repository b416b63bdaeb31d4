// SPDX-License-Identifier: Apache-2.0
// Comparisons, tests of numbers, and choices by a mask.
#include <c10/util/Exception.h>

#include <limits>

#include "lower/pointwise.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Value all_false(Value x) { return constant(x.program(), {DType::kPred, x.dims()}, 0); }

Value is_nan_rule(Value x) { return is_complex(x.dtype()) ? is_nan(real(x)) | is_nan(imag(x)) : is_nan(x); }

Value is_inf(Value x) {
  if (is_complex(x.dtype())) return is_inf(real(x)) | is_inf(imag(x));
  return is_floating(x.dtype()) ? eq(abs(x), kInf) : all_false(x);
}

Value is_positive_inf(Value x) { return is_floating(x.dtype()) ? eq(x, kInf) : all_false(x); }

Value is_negative_inf(Value x) { return is_floating(x.dtype()) ? eq(x, -kInf) : all_false(x); }

// (self, mask, value): self keeps its dtype; the value is a Scalar or a 0-d tensor.
Value masked_fill(Args& a) {
  Value x = a[0], mask = as_bool(a[1]);
  Dims dims = broadcast_dims(x.dims(), mask.dims());
  return select(broadcast_to(mask, dims), broadcast_to(a.scalar(2, x.dtype()), dims), broadcast_to(x, dims));
}

// (self, message?): an error at run time unless the one element of self is true.
void check_later(Args& a, const std::string& message) {
  Value x = as_bool(a[0]);
  TORCH_CHECK(x.numel() == 1, "_assert_async: expected a tensor of one element, got ", x.type().str());
  a.source().require(reshape(x, {}), "runtime", message);
}

}  // namespace

const Table compare_table = {
    {"_assert_async",
     [](Args& a) -> Results {
       check_later(a, "Expected Tensor with single nonzero value, but got zero");
       return {};
     }},
    {"_assert_async.msg",
     [](Args& a) -> Results {
       check_later(a, a.string(1));
       return {};
     }},
    {"_functional_assert_async.msg",
     [](Args& a) {
       check_later(a, a.string(1));
       return a[2];
     }},
    {"eq.Scalar", comparison(Direction::kEq)},
    {"eq.Tensor", comparison(Direction::kEq)},
    {"ge.Scalar", comparison(Direction::kGe)},
    {"ge.Tensor", comparison(Direction::kGe)},
    {"gt.Scalar", comparison(Direction::kGt)},
    {"gt.Tensor", comparison(Direction::kGt)},
    {"isinf", unary(is_inf)},
    {"isnan", unary(is_nan_rule)},
    {"isneginf", unary(is_negative_inf)},
    {"isposinf", unary(is_positive_inf)},
    {"le.Scalar", comparison(Direction::kLe)},
    {"le.Tensor", comparison(Direction::kLe)},
    {"lt.Scalar", comparison(Direction::kLt)},
    {"lt.Tensor", comparison(Direction::kLt)},
    {"masked_fill.Scalar", masked_fill},
    {"masked_fill.Tensor", masked_fill},
    {"ne.Scalar", comparison(Direction::kNe)},
    {"ne.Tensor", comparison(Direction::kNe)},
};

}  // namespace tpu::lower
