// SPDX-License-Identifier: Apache-2.0
// The arguments of a rule: reading, promotion and attributes; and the combinators for regular ops.
#include "lower/rule.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/Scalar.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

namespace tpu::lower {

using c10::ScalarType;

DType dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
      return DType::kPred;
    case ScalarType::Char:
      return DType::kS8;
    case ScalarType::Short:
      return DType::kS16;
    case ScalarType::Int:
      return DType::kS32;
    case ScalarType::Long:
      return DType::kS64;
    case ScalarType::Byte:
      return DType::kU8;
    case ScalarType::UInt16:
      return DType::kU16;
    case ScalarType::UInt32:
      return DType::kU32;
    case ScalarType::UInt64:
      return DType::kU64;
    case ScalarType::Half:
      return DType::kF16;
    case ScalarType::BFloat16:
      return DType::kBF16;
    case ScalarType::Float:
      return DType::kF32;
    case ScalarType::Double:
      return DType::kF64;
    case ScalarType::ComplexFloat:
      return DType::kC64;
    case ScalarType::ComplexDouble:
      return DType::kC128;
    case ScalarType::Float8_e4m3fn:
      return DType::kF8E4M3FN;
    case ScalarType::Float8_e5m2:
      return DType::kF8E5M2;
    default:
      break;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "tpu: expected a dtype that StableHLO has, got ", c10::toString(type),
                              ". Convert the tensor to another dtype first");
}

ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return ScalarType::Bool;
    case DType::kS8:
      return ScalarType::Char;
    case DType::kS16:
      return ScalarType::Short;
    case DType::kS32:
      return ScalarType::Int;
    case DType::kS64:
      return ScalarType::Long;
    case DType::kU8:
      return ScalarType::Byte;
    case DType::kU16:
      return ScalarType::UInt16;
    case DType::kU32:
      return ScalarType::UInt32;
    case DType::kU64:
      return ScalarType::UInt64;
    case DType::kF16:
      return ScalarType::Half;
    case DType::kBF16:
      return ScalarType::BFloat16;
    case DType::kF32:
      return ScalarType::Float;
    case DType::kF64:
      return ScalarType::Double;
    case DType::kC64:
      return ScalarType::ComplexFloat;
    case DType::kC128:
      return ScalarType::ComplexDouble;
    case DType::kF8E4M3FN:
      return ScalarType::Float8_e4m3fn;
    case DType::kF8E5M2:
      return ScalarType::Float8_e5m2;
  }
  return ScalarType::Undefined;
}

int wrap_dim(int64_t dim, int rank) { return static_cast<int>(c10::maybe_wrap_dim(dim, int64_t{rank})); }

// ---- tensors

Args::Args(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments, Source& source)
    : schema_(schema), arguments_(arguments), source_(source) {}

bool Args::has(size_t i) const {
  const c10::IValue& v = arguments_[i];
  return !v.isNone() && !(v.isTensor() && !v.toTensor().defined());
}

static DType own_kind(const c10::IValue& number) {
  if (number.isBool()) return DType::kPred;
  if (number.isDouble() || number.isSymFloat()) return DType::kF64;
  if (number.isComplexDouble()) return DType::kC128;
  return DType::kS64;
}

Value Args::operator[](size_t i) const {
  const c10::IValue& v = arguments_[i];
  return v.isTensor() ? source_.tensor(v.toTensor()) : source_.scalar(v, i, 0, own_kind(v));
}

std::optional<Value> Args::maybe(size_t i) const {
  if (!has(i)) return std::nullopt;
  return (*this)[i];
}

std::vector<Value> Args::list(size_t i) const {
  std::vector<Value> values;
  for (const c10::IValue& v : arguments_[i].toListRef()) values.push_back(source_.tensor(v.toTensor()));
  return values;
}

std::vector<std::optional<Value>> Args::maybe_list(size_t i) const {
  std::vector<std::optional<Value>> values;
  for (const c10::IValue& v : arguments_[i].toListRef()) {
    bool given = v.isTensor() && v.toTensor().defined();
    values.push_back(given ? std::optional<Value>(source_.tensor(v.toTensor())) : std::nullopt);
  }
  return values;
}

DType Args::dtype(size_t i) const { return dtype_of(arguments_[i].toTensor().scalar_type()); }

Dims Args::dims(size_t i) const { return arguments_[i].toTensor().sizes().vec(); }

// ---- promotion

DType Args::result_type(std::initializer_list<size_t> args) const {
  at::native::ResultTypeState state;
  for (size_t i : args) {
    if (!has(i)) continue;
    const c10::IValue& v = arguments_[i];
    state = v.isTensor() ? at::native::update_result_type_state(v.toTensor(), state)
                         : at::native::update_result_type_state(v.toScalar(), state);
  }
  return dtype_of(at::native::result_type(state));
}

DType Args::default_float() const { return dtype_of(c10::get_default_dtype_as_scalartype()); }

static bool inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

Value Args::floating(size_t i) const {
  const c10::IValue& v = arguments_[i];
  DType own = v.isTensor() ? dtype(i) : own_kind(v);
  if (!v.isTensor()) return source_.scalar(v, i, 0, inexact(own) ? own : default_float());
  return hlo::widen(hlo::convert((*this)[i], inexact(own) ? own : default_float()));
}

// Each argument rounded to `common` and then in `dtype`, of the common dims.
static std::vector<Value> broadcast(const Args& a, std::initializer_list<size_t> args, DType common,
                                    DType dtype) {
  std::vector<Value> values;
  Dims dims;
  for (size_t i : args) {
    Value x = a.ivalue(i).isTensor() ? a[i] : a.scalar(i, common);
    values.push_back(hlo::convert(hlo::convert(x, common), dtype));
    dims = hlo::broadcast_dims(dims, x.dims());
  }
  for (Value& x : values) x = hlo::broadcast_to(x, dims);
  return values;
}

std::vector<Value> Args::promoted(std::initializer_list<size_t> args) const {
  DType common = result_type(args);
  return broadcast(*this, args, common, common);
}

std::vector<Value> Args::promoted_floating(std::initializer_list<size_t> args) const {
  DType common = result_type(args);
  if (!inexact(common)) common = default_float();
  return broadcast(*this, args, common, hlo::wide(common));
}

std::vector<Value> Args::promoted_wide(std::initializer_list<size_t> args) const {
  DType common = result_type(args);
  return broadcast(*this, args, common, hlo::wide(common));
}

// ---- run-time operands

Value Args::scalar(size_t i, DType dtype) const {
  const c10::IValue& v = arguments_[i];
  return v.isTensor() ? hlo::convert(source_.tensor(v.toTensor()), dtype) : source_.scalar(v, i, 0, dtype);
}

Value Args::scalar_like(size_t i, Value x) const { return hlo::broadcast_to(scalar(i, x.dtype()), x.dims()); }

std::vector<Value> Args::scalars(size_t i, DType dtype) const {
  std::vector<Value> values;
  for (const c10::IValue& v : arguments_[i].toListRef())
    values.push_back(source_.scalar(v, i, values.size(), dtype));
  return values;
}

bool Args::is_default(size_t i) const {
  const auto& expected = schema_.arguments()[i].default_value();
  const c10::IValue& v = arguments_[i];
  if (!expected) return false;
  if (!v.isScalar() || !expected->isScalar()) return v.isNone() && expected->isNone();
  return v.toScalar().toComplexDouble() == expected->toScalar().toComplexDouble();
}

// ---- attributes

double Args::constant(size_t i) const {
  source_.depends_on(i);
  return arguments_[i].toScalar().toDouble();
}

int64_t Args::integer(size_t i) const { return arguments_[i].toInt(); }

int64_t Args::integer_or(size_t i, int64_t other) const {
  return arguments_[i].isNone() ? other : integer(i);
}

bool Args::flag(size_t i) const {
  return arguments_[i].isBool() ? arguments_[i].toBool() : arguments_[i].toInt() != 0;
}

std::string Args::string(size_t i) const { return arguments_[i].toStringRef(); }

int Args::dim(size_t i, int rank) const { return wrap_dim(integer(i), rank); }

std::vector<int> Args::dims(size_t i, int rank) const {
  std::vector<int> dims;
  for (int64_t d : ints(i)) dims.push_back(wrap_dim(d, rank));
  if (dims.empty()) {
    for (int d = 0; d < rank; ++d) dims.push_back(d);
  }
  if (rank == 0) dims.clear();  // a 0-d tensor has a dim 0 for the user, and none for us
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

Dims Args::ints(size_t i) const {
  const c10::IValue& v = arguments_[i];
  if (v.isNone()) return {};
  return v.isInt() ? Dims{v.toInt()} : v.toIntVector();
}

Dims Args::ints(size_t i, size_t count) const {
  Dims values = ints(i);
  if (values.size() == 1) values.resize(count, values[0]);
  return values;
}

std::optional<DType> Args::maybe_dtype(size_t i) const {
  if (arguments_[i].isNone()) return std::nullopt;
  return dtype_of(arguments_[i].toScalarType());
}

// ---- combinators

Rule unary(Value (*f)(Value)) {
  return [f](Args& a) { return f(a[0]); };
}

Rule floating(Value (*f)(Value)) {
  return [f](Args& a) { return f(a.floating(0)); };
}

Rule promoted(Value (*f)(Value, Value)) {
  return [f](Args& a) {
    auto xs = a.promoted({0, 1});
    return f(xs[0], xs[1]);
  };
}

Rule promoted_floating(Value (*f)(Value, Value)) {
  return [f](Args& a) {
    auto xs = a.promoted_floating({0, 1});
    return f(xs[0], xs[1]);
  };
}

Rule comparison(hlo::Direction direction) {
  return [direction](Args& a) {
    auto xs = a.promoted({0, 1});
    return hlo::compare(xs[0], xs[1], direction);
  };
}

}  // namespace tpu::lower
