// SPDX-License-Identifier: Apache-2.0
// Lists of tensors, all in one program: each element goes through the rule of the op for one tensor.
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// Where an argument of the op for one tensor comes from: argument `place` of the foreach op (its element, if
// it is a list), or always `standard` if place is -1. `standard` is also what counts as the default.
struct From {
  int place;
  std::optional<c10::IValue> standard = {};
};

// Gives run-time operands the place that they have among the arguments of the foreach op.
class ElementSource : public Source {
 public:
  ElementSource(Args& all, const std::vector<From>& from, size_t element)
      : all_(all), from_(from), element_(element) {}
  Program& program() override { return all_.program(); }
  Value tensor(const at::Tensor& tensor) override { return all_.source().tensor(tensor); }
  Value scalar(const c10::IValue& number, size_t arg, size_t, DType dtype) override {
    size_t place = outer(arg);
    return all_.source().scalar(number, place, all_.ivalue(place).isList() ? element_ : 0, dtype);
  }
  void depends_on(size_t arg) override { all_.source().depends_on(outer(arg)); }
  Value rng_state(const c10::IValue& generator, uint64_t count) override {
    return all_.source().rng_state(generator, count);
  }
  void require(Value ok, const char* what, const std::string& message) override {
    all_.source().require(ok, what, message);
  }

 private:
  size_t outer(size_t arg) const {
    TORCH_INTERNAL_ASSERT(from_[arg].place >= 0,
                          "a rule asked for the number of an argument that a foreach op lacks");
    return static_cast<size_t>(from_[arg].place);
  }

  Args& all_;
  const std::vector<From>& from_;
  size_t element_;
};

// The foreach op whose elements the row `op` computes from the arguments named by `from`.
Rule each(const char* op, std::vector<From> from) {
  std::vector<c10::Argument> arguments;
  for (const From& f : from)
    arguments.emplace_back("x", c10::AnyType::get(), std::nullopt, f.standard, /*kwarg_only=*/true);
  auto schema =
      std::make_shared<c10::FunctionSchema>(op, "", std::move(arguments), std::vector<c10::Argument>{});
  return [=](Args& a) {
    const Row* row = find(op);
    TORCH_INTERNAL_ASSERT(row, "no rule for ", op);
    size_t count = a.ivalue(a.ivalue(0).isList() ? 0 : 1).toListRef().size();
    Results results;
    for (size_t i = 0; i < count; ++i) {
      std::vector<c10::IValue> element;
      for (const From& f : from) {
        if (f.place < 0)
          element.push_back(*f.standard);
        else if (const auto& whole = a.ivalue(f.place); whole.isList())
          element.push_back(whole.toListRef()[i]);
        else
          element.push_back(whole);
      }
      ElementSource source(a, from, i);
      Args args(*schema, element, source);
      results.push_back(row->rule(args)[0]);
    }
    return results;
  };
}

Rule unary_each(const char* op) { return each(op, {{0}}); }
Rule binary_each(const char* op) { return each(op, {{0}, {1}}); }

const c10::IValue kOne(1);

// self + alpha * other, where alpha is argument 2; or without an alpha.
Rule scaled_each(const char* op) { return each(op, {{0}, {1}, {2, kOne}}); }
Rule unscaled_each(const char* op) { return each(op, {{0}, {1}, {-1, kOne}}); }

// addcmul, addcdiv: (self, tensor1, tensor2, value).
Rule product_each(const char* op) { return each(op, {{0}, {1}, {2}, {3, kOne}}); }
Rule products_each(const char* op) { return each(op, {{0}, {1}, {2}, {3}}); }

// (self, src)
Results copy(Args& a) {
  auto to = a.list(0), from = a.list(1);
  for (size_t i = 0; i < to.size(); ++i) to[i] = broadcast_to(convert(from[i], to[i].dtype()), to[i].dims());
  return to;
}

Results zero(Args& a) {
  auto xs = a.list(0);
  for (Value& x : xs) x = zeros_like(x);
  return xs;
}

}  // namespace

const Table foreach_table = {
    {"_foreach_abs", unary_each("abs")},
    {"_foreach_acos", unary_each("acos")},
    {"_foreach_add.List", scaled_each("add.Tensor")},
    {"_foreach_add.Scalar", unscaled_each("add.Tensor")},
    {"_foreach_add.ScalarList", unscaled_each("add.Tensor")},
    {"_foreach_add.Tensor", scaled_each("add.Tensor")},
    {"_foreach_addcdiv.Scalar", product_each("addcdiv")},
    {"_foreach_addcdiv.ScalarList", products_each("addcdiv")},
    {"_foreach_addcmul.Scalar", product_each("addcmul")},
    {"_foreach_addcmul.ScalarList", products_each("addcmul")},
    {"_foreach_asin", unary_each("asin")},
    {"_foreach_atan", unary_each("atan")},
    {"_foreach_ceil", unary_each("ceil")},
    {"_foreach_clamp_max.List", binary_each("minimum")},
    {"_foreach_clamp_max.Scalar", binary_each("minimum")},
    {"_foreach_clamp_max.ScalarList", binary_each("minimum")},
    {"_foreach_clamp_min.List", binary_each("maximum")},
    {"_foreach_clamp_min.Scalar", binary_each("maximum")},
    {"_foreach_clamp_min.ScalarList", binary_each("maximum")},
    {"_foreach_copy_", copy},
    {"_foreach_cos", unary_each("cos")},
    {"_foreach_cosh", unary_each("cosh")},
    {"_foreach_div.List", binary_each("div.Tensor")},
    {"_foreach_div.Scalar", binary_each("div.Tensor")},
    {"_foreach_div.ScalarList", binary_each("div.Tensor")},
    {"_foreach_div.Tensor", binary_each("div.Tensor")},
    {"_foreach_erf", unary_each("erf")},
    {"_foreach_erfc", unary_each("erfc")},
    {"_foreach_exp", unary_each("exp")},
    {"_foreach_expm1", unary_each("expm1")},
    {"_foreach_floor", unary_each("floor")},
    {"_foreach_frac", unary_each("frac")},
    {"_foreach_lerp.List", each("lerp.Tensor", {{0}, {1}, {2}})},
    {"_foreach_lerp.Scalar", each("lerp.Scalar", {{0}, {1}, {2}})},
    {"_foreach_lerp.ScalarList", each("lerp.Scalar", {{0}, {1}, {2}})},
    {"_foreach_lgamma", unary_each("lgamma")},
    {"_foreach_log", unary_each("log")},
    {"_foreach_log10", unary_each("log10")},
    {"_foreach_log1p", unary_each("log1p")},
    {"_foreach_log2", unary_each("log2")},
    {"_foreach_max", unary_each("max")},
    {"_foreach_maximum.List", binary_each("maximum")},
    {"_foreach_maximum.Scalar", binary_each("maximum")},
    {"_foreach_maximum.ScalarList", binary_each("maximum")},
    {"_foreach_minimum.List", binary_each("minimum")},
    {"_foreach_minimum.Scalar", binary_each("minimum")},
    {"_foreach_minimum.ScalarList", binary_each("minimum")},
    {"_foreach_mul.List", binary_each("mul.Tensor")},
    {"_foreach_mul.Scalar", binary_each("mul.Tensor")},
    {"_foreach_mul.ScalarList", binary_each("mul.Tensor")},
    {"_foreach_mul.Tensor", binary_each("mul.Tensor")},
    {"_foreach_neg", unary_each("neg")},
    {"_foreach_norm.Scalar",
     each("linalg_vector_norm", {{0}, {1}, {-1, c10::IValue()}, {-1, c10::IValue(false)}, {2}})},
    {"_foreach_pow.List", binary_each("pow.Tensor_Tensor")},
    {"_foreach_pow.Scalar", binary_each("pow.Tensor_Scalar")},
    {"_foreach_pow.ScalarAndTensor", binary_each("pow.Scalar")},
    {"_foreach_pow.ScalarList", binary_each("pow.Tensor_Scalar")},
    {"_foreach_reciprocal", unary_each("reciprocal")},
    {"_foreach_round", unary_each("round")},
    {"_foreach_rsqrt", unary_each("rsqrt")},
    {"_foreach_sigmoid", unary_each("sigmoid")},
    {"_foreach_sign", unary_each("sign")},
    {"_foreach_sin", unary_each("sin")},
    {"_foreach_sinh", unary_each("sinh")},
    {"_foreach_sqrt", unary_each("sqrt")},
    {"_foreach_sub.List", scaled_each("sub.Tensor")},
    {"_foreach_sub.Scalar", unscaled_each("sub.Tensor")},
    {"_foreach_sub.ScalarList", unscaled_each("sub.Tensor")},
    {"_foreach_tan", unary_each("tan")},
    {"_foreach_tanh", unary_each("tanh")},
    {"_foreach_trunc", unary_each("trunc")},
    {"_foreach_zero_", zero},
};

}  // namespace tpu::lower
