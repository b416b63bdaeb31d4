// SPDX-License-Identifier: Apache-2.0
// Constants, with text that the compiler reads back to the same bits.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

struct Format {
  int exponent, mantissa;  // bits
  bool infinity;           // if not, the largest code is NaN and the codes below it are numbers
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10, true};
    case DType::kBF16:
      return {8, 7, true};
    case DType::kF32:
    case DType::kC64:
      return {8, 23, true};
    case DType::kF8E4M3FN:
      return {4, 3, false};
    case DType::kF8E5M2:
      return {5, 2, true};
    default:
      return {11, 52, true};
  }
}

// The bits of `value`, rounded to nearest, ties to even.
uint64_t float_bits(double value, DType dtype) {
  Format format = format_of(dtype);
  uint64_t bits = std::bit_cast<uint64_t>(value);
  if (format.mantissa == 52) return bits;
  uint64_t sign = (bits >> 63) << (format.exponent + format.mantissa);
  uint64_t top = ((uint64_t{1} << format.exponent) - 1) << format.mantissa;
  uint64_t nan =
      format.infinity ? top | uint64_t{1} << (format.mantissa - 1) : top | ((1u << format.mantissa) - 1);
  if (std::isnan(value)) return sign | nan;
  uint64_t infinity = format.infinity ? top : nan;
  if (std::isinf(value)) return sign | infinity;
  double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int bias = (1 << (format.exponent - 1)) - 1;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; the default rounding mode is to nearest even. A carry moves on to the next
  // exponent.
  double units = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));
  uint64_t code = static_cast<uint64_t>(units);
  if (code >> format.mantissa) code += static_cast<uint64_t>(exponent + bias - 1) << format.mantissa;
  return sign | (code >= infinity ? infinity : code);
}

void append_float(std::string& text, double value, DType dtype) {
  // Every format has these exactly, and they are the ones that people read.
  if (std::fabs(value) <= 8 && value == std::trunc(value) && !(value == 0 && std::signbit(value))) {
    append_int(text, static_cast<int64_t>(value));
    text += ".0";
    return;
  }
  Format format = format_of(dtype);
  char digits[16];
  auto end = std::to_chars(digits, digits + 16, float_bits(value, dtype), 16).ptr;
  text += "0x";
  text.append((1 + format.exponent + format.mantissa) / 4 - (end - digits), '0');
  for (char* digit = digits; digit < end; ++digit)
    text += static_cast<char>(*digit >= 'a' ? *digit - 'a' + 'A' : *digit);
}

void append_complex(std::string& text, std::complex<double> value, DType dtype) {
  text += '(';
  append_float(text, value.real(), dtype);
  text += ", ";
  append_float(text, value.imag(), dtype);
  text += ')';
}

bool fits(int64_t value, DType dtype) {
  int bits = static_cast<int>(8 * byte_width(dtype));
  if (bits == 64) return true;  // kU64: the bits of the value are meant
  if (is_unsigned(dtype)) return value >= 0 && value < int64_t{1} << bits;
  return value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1);
}

void append_number(std::string& text, int64_t value, DType dtype) {
  if (dtype == DType::kPred) {
    text += value ? "true" : "false";
  } else if (is_complex(dtype)) {
    append_complex(text, static_cast<double>(value), dtype);
  } else if (is_floating(dtype)) {
    append_float(text, static_cast<double>(value), dtype);
  } else if (!fits(value, dtype)) {
    type_error("constant",
               "a value within " + std::string(element_name(dtype)) + ", not " + std::to_string(value), {});
  } else if (dtype == DType::kU64) {
    char digits[24];
    text.append(digits, std::to_chars(digits, digits + 24, static_cast<uint64_t>(value)).ptr);
  } else {
    append_int(text, value);
  }
}

Value add_constant(Program& p, Type type, const std::string& elements) {
  std::string text = "value = dense<" + elements + "> : ";
  type.append_to(text);
  return p.add({"stablehlo.constant", {}, std::move(text), {}, {std::move(type)}});
}

void append_nested(std::string& text, const Type& type, const std::vector<int64_t>& values, size_t dim,
                   size_t& next) {
  if (dim == type.dims.size()) {
    append_number(text, values[next++], type.dtype);
    return;
  }
  text += '[';
  for (int64_t i = 0; i < type.dims[dim]; ++i) {
    if (i) text += ", ";
    append_nested(text, type, values, dim + 1, next);
  }
  text += ']';
}

}  // namespace

Value constant(Program& p, Type type, std::complex<double> value) {
  if (!is_complex(type.dtype)) {
    if (value.imag() != 0) type_error("constant", "a complex type for a complex value", {});
    return constant(p, std::move(type), value.real());
  }
  std::string text;
  append_complex(text, value, type.dtype);
  return add_constant(p, std::move(type), text);
}

Value constant(Program& p, Type type, double value) {
  if (is_complex(type.dtype)) return constant(p, std::move(type), std::complex<double>(value));
  std::string text;
  if (is_floating(type.dtype)) {
    append_float(text, value, type.dtype);
  } else if (type.dtype == DType::kPred) {
    text = value != 0 ? "true" : "false";
  } else {
    double limit = std::ldexp(1.0, 63);
    if (value != std::trunc(value) || !(value >= -limit && value < limit))
      type_error("constant", "a whole number for " + type.str() + ", not " + std::to_string(value), {});
    append_number(text, static_cast<int64_t>(value), type.dtype);
  }
  return add_constant(p, std::move(type), text);
}

Value constant(Program& p, Type type, int64_t value) {
  std::string text;
  append_number(text, value, type.dtype);
  return add_constant(p, std::move(type), text);
}

Value constant(Program& p, Type type, int value) {
  return constant(p, std::move(type), static_cast<int64_t>(value));
}

Value constant(Program& p, Dims dims, std::vector<int64_t> values, DType dtype) {
  Type type = {dtype, std::move(dims)};
  if (type.numel() != static_cast<int64_t>(values.size()))
    type_error("constant",
               "as many values as " + type.str() + " has elements, not " + std::to_string(values.size()), {});
  bool splat = !values.empty();
  for (int64_t value : values) splat &= value == values[0];
  std::string text;
  size_t next = 0;
  if (splat)
    append_number(text, values[0], dtype);
  else if (!values.empty())
    append_nested(text, type, values, 0, next);
  return add_constant(p, std::move(type), text);
}

Value iota(Program& p, Type type, int dim) {
  if (dim < 0 || dim >= type.rank() || type.dtype == DType::kPred)
    type_error("iota", "a numeric type that has dim " + std::to_string(dim) + ", not " + type.str(), {});
  return p.add(
      {"stablehlo.iota", {}, Attributes().integer("iota_dimension", dim).take(), {}, {std::move(type)}});
}

}  // namespace tpu::hlo
