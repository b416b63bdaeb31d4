// SPDX-License-Identifier: Apache-2.0
// Ops that work element by element.
#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

// Kinds of element types that an op takes.
enum Accepts : unsigned { kP = 1, kI = 2, kF = 4, kC = 8 };

unsigned kind_of(DType dtype) {
  if (is_floating(dtype)) return kF;
  if (is_complex(dtype)) return kC;
  return dtype == DType::kPred ? kP : kI;
}

const char* describe(unsigned accepts) {
  switch (accepts) {
    case kI:
      return "an integer operand";
    case kF:
      return "a floating-point operand";
    case kC:
      return "a complex operand";
    case kP | kI:
      return "a boolean or integer operand";
    case kF | kC:
      return "a floating-point or complex operand";
    case kI | kF:
      return "an integer or floating-point operand";
    case kI | kF | kC:
      return "a numeric operand";
    default:
      return "an operand of another type";
  }
}

void accept(const char* name, unsigned accepts, Value x) {
  check(x && (kind_of(x.dtype()) & accepts), name, describe(accepts), {x});
}

Value unary(const char* name, unsigned accepts, Value x) {
  accept(name, accepts, x);
  return x.program().add({name, {x}, {}, {}, {x.type()}});
}

Value binary(const char* name, unsigned accepts, Value x, Value y) {
  check(x && y && x.type() == y.type(), name, "operands of equal type", {x, y});
  check(kind_of(x.dtype()) & accepts, name, describe(accepts), {x, y});
  return x.program().add({name, {x, y}, {}, {}, {x.type()}});
}

}  // namespace

#define UNARY(function, name, accepts) \
  Value function(Value x) { return unary(name, accepts, x); }
UNARY(cbrt, "stablehlo.cbrt", kF)
UNARY(ceil, "stablehlo.ceil", kF)
UNARY(cosine, "stablehlo.cosine", kF | kC)
UNARY(count_leading_zeros, "stablehlo.count_leading_zeros", kI)
UNARY(exponential, "stablehlo.exponential", kF | kC)
UNARY(exponential_minus_one, "stablehlo.exponential_minus_one", kF | kC)
UNARY(floor, "stablehlo.floor", kF)
UNARY(log, "stablehlo.log", kF | kC)
UNARY(log_plus_one, "stablehlo.log_plus_one", kF | kC)
UNARY(logistic, "stablehlo.logistic", kF | kC)
UNARY(negate, "stablehlo.negate", kI | kF | kC)
UNARY(not_, "stablehlo.not", kP | kI)
UNARY(popcnt, "stablehlo.popcnt", kI)
UNARY(round_nearest_afz, "stablehlo.round_nearest_afz", kF)
UNARY(round_nearest_even, "stablehlo.round_nearest_even", kF)
UNARY(rsqrt, "stablehlo.rsqrt", kF | kC)
UNARY(sine, "stablehlo.sine", kF | kC)
UNARY(sqrt, "stablehlo.sqrt", kF | kC)
UNARY(tan, "stablehlo.tan", kF | kC)
UNARY(tanh, "stablehlo.tanh", kF | kC)
UNARY(acos, "chlo.acos", kF | kC)
UNARY(acosh, "chlo.acosh", kF | kC)
UNARY(asin, "chlo.asin", kF | kC)
UNARY(asinh, "chlo.asinh", kF | kC)
UNARY(atan, "chlo.atan", kF | kC)
UNARY(atanh, "chlo.atanh", kF | kC)
UNARY(bessel_i1e, "chlo.bessel_i1e", kF)
UNARY(cosh, "chlo.cosh", kF | kC)
UNARY(digamma, "chlo.digamma", kF)
UNARY(erf, "chlo.erf", kF)
UNARY(erf_inv, "chlo.erf_inv", kF)
UNARY(erfc, "chlo.erfc", kF)
UNARY(lgamma, "chlo.lgamma", kF)
UNARY(sinh, "chlo.sinh", kF | kC)
#undef UNARY

#define BINARY(function, name, accepts) \
  Value function(Value x, Value y) { return binary(name, accepts, x, y); }
BINARY(add, "stablehlo.add", kP | kI | kF | kC)
BINARY(and_, "stablehlo.and", kP | kI)
BINARY(atan2, "stablehlo.atan2", kF | kC)
BINARY(divide, "stablehlo.divide", kI | kF | kC)
BINARY(maximum, "stablehlo.maximum", kP | kI | kF | kC)
BINARY(minimum, "stablehlo.minimum", kP | kI | kF | kC)
BINARY(multiply, "stablehlo.multiply", kP | kI | kF | kC)
BINARY(next_after, "chlo.next_after", kF)
BINARY(or_, "stablehlo.or", kP | kI)
BINARY(polygamma, "chlo.polygamma", kF)
BINARY(power, "stablehlo.power", kI | kF | kC)
BINARY(remainder, "stablehlo.remainder", kI | kF)
BINARY(shift_left, "stablehlo.shift_left", kI)
BINARY(shift_right_arithmetic, "stablehlo.shift_right_arithmetic", kI)
BINARY(shift_right_logical, "stablehlo.shift_right_logical", kI)
BINARY(subtract, "stablehlo.subtract", kI | kF | kC)
BINARY(xor_, "stablehlo.xor", kP | kI)
BINARY(zeta, "chlo.zeta", kF)
#undef BINARY

Value abs(Value x) {
  accept("abs", kI | kF | kC, x);
  if (is_unsigned(x.dtype())) return x;
  return x.program().add({"stablehlo.abs", {x}, {}, {}, {{real_of(x.dtype()), x.dims()}}});
}

Value sign(Value x) {
  accept("sign", kI | kF | kC, x);
  if (is_unsigned(x.dtype()))
    return convert(compare(x, constant(x.program(), x.type(), 0), Direction::kNe), x.dtype());
  return unary("stablehlo.sign", kI | kF | kC, x);
}

Value is_finite(Value x) {
  accept("is_finite", kF, x);
  return x.program().add({"stablehlo.is_finite", {x}, {}, {}, {{DType::kPred, x.dims()}}});
}

Value real(Value x) {
  accept("real", kF | kC, x);
  if (!is_complex(x.dtype())) return x;
  return x.program().add({"stablehlo.real", {x}, {}, {}, {{real_of(x.dtype()), x.dims()}}});
}

Value imag(Value x) {
  accept("imag", kF | kC, x);
  if (!is_complex(x.dtype())) return constant(x.program(), x.type(), 0);
  return x.program().add({"stablehlo.imag", {x}, {}, {}, {{real_of(x.dtype()), x.dims()}}});
}

Value complex(Value x, Value y) {
  check(x && y && x.type() == y.type() && is_complex(complex_of(x.dtype())) && is_floating(x.dtype()),
        "complex", "two f32 or two f64 operands of equal type", {x, y});
  return x.program().add({"stablehlo.complex", {x, y}, {}, {}, {{complex_of(x.dtype()), x.dims()}}});
}

Value conj(Value x) {
  check(static_cast<bool>(x), "conj", "an operand", {x});
  return is_complex(x.dtype()) ? unary("chlo.conj", kC, x) : x;
}

Value square(Value x) { return multiply(x, x); }

static Value compare(Value x, Value y, Direction direction, bool total) {
  constexpr const char* kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  check(x && y && x.type() == y.type(), "compare", "operands of equal type", {x, y});
  check(!is_complex(x.dtype()) || direction == Direction::kEq || direction == Direction::kNe, "compare",
        "operands that have an order", {x, y});
  std::string text = "comparison_direction = #stablehlo<comparison_direction ";
  text += kNames[static_cast<int>(direction)];
  text += '>';
  if (total && is_floating(x.dtype())) text += ", compare_type = #stablehlo<comparison_type TOTALORDER>";
  return x.program().add({"stablehlo.compare", {x, y}, std::move(text), {}, {{DType::kPred, x.dims()}}});
}

Value compare(Value x, Value y, Direction direction) { return compare(x, y, direction, false); }
Value compare_total(Value x, Value y, Direction direction) { return compare(x, y, direction, true); }

Value select(Value pred, Value on_true, Value on_false) {
  check(pred && on_true && on_false && pred.dtype() == DType::kPred && on_true.type() == on_false.type() &&
            (pred.rank() == 0 || pred.dims() == on_true.dims()),
        "select", "a boolean operand (0-d, or with the dims of the others) and two operands of equal type",
        {pred, on_true, on_false});
  if (on_true == on_false) return on_true;
  return on_true.program().add({"stablehlo.select", {pred, on_true, on_false}, {}, {}, {on_true.type()}});
}

Value clamp(Value low, Value x, Value high) {
  check(low && x && high && low.dtype() == x.dtype() && high.dtype() == x.dtype() && !is_complex(x.dtype()) &&
            (low.rank() == 0 || low.dims() == x.dims()) && (high.rank() == 0 || high.dims() == x.dims()),
        "clamp", "operands of equal dtype, and bounds that are 0-d or have the dims of the operand",
        {low, x, high});
  return x.program().add({"stablehlo.clamp", {low, x, high}, {}, {}, {x.type()}});
}

Value convert(Value x, DType dtype) {
  check(static_cast<bool>(x), "convert", "an operand", {x});
  if (x.dtype() == dtype) return x;
  return x.program().add({"stablehlo.convert", {x}, {}, {}, {{dtype, x.dims()}}});
}

Value bitcast_convert(Value x, DType dtype) {
  check(x && ((x.dtype() == DType::kPred) == (dtype == DType::kPred)) &&
            is_complex(x.dtype()) == is_complex(dtype),
        "bitcast_convert", "an operand that is neither boolean nor complex unless the result is", {x});
  if (x.dtype() == dtype) return x;
  int64_t from = static_cast<int64_t>(byte_width(x.dtype())), to = static_cast<int64_t>(byte_width(dtype));
  Dims dims = x.dims();
  if (from > to) {
    dims.push_back(from / to);
  } else if (from < to) {
    check(x.rank() > 0 && x.dims().back() == to / from, "bitcast_convert",
          "a last dim that together makes one element of the wider type", {x});
    dims.pop_back();
  }
  return x.program().add({"stablehlo.bitcast_convert", {x}, {}, {}, {{dtype, std::move(dims)}}});
}

}  // namespace tpu::hlo
