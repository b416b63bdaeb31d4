// SPDX-License-Identifier: Apache-2.0
// Facts about element types, and the text of tensor types.
#include "hlo/type.h"

#include <charconv>

namespace tpu::hlo {

namespace {

enum Kind : uint8_t { kPredicate, kSigned, kUnsigned, kFloat, kComplex };

struct Info {
  const char* name;
  uint8_t width;
  Kind kind;
};

// In the order of DType.
constexpr Info kInfo[] = {
    {"i1", 1, kPredicate},
    {"i8", 1, kSigned},
    {"i16", 2, kSigned},
    {"i32", 4, kSigned},
    {"i64", 8, kSigned},
    {"ui8", 1, kUnsigned},
    {"ui16", 2, kUnsigned},
    {"ui32", 4, kUnsigned},
    {"ui64", 8, kUnsigned},
    {"f16", 2, kFloat},
    {"bf16", 2, kFloat},
    {"f32", 4, kFloat},
    {"f64", 8, kFloat},
    {"complex<f32>", 8, kComplex},
    {"complex<f64>", 16, kComplex},
    {"f8E4M3FN", 1, kFloat},
    {"f8E5M2", 1, kFloat},
};
static_assert(std::size(kInfo) == static_cast<size_t>(DType::kF8E5M2) + 1);

const Info& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

}  // namespace

size_t byte_width(DType dtype) { return info(dtype).width; }
const char* element_name(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).kind == kFloat; }
bool is_complex(DType dtype) { return info(dtype).kind == kComplex; }
bool is_integral(DType dtype) { return info(dtype).kind == kSigned || info(dtype).kind == kUnsigned; }
bool is_unsigned(DType dtype) { return info(dtype).kind == kUnsigned || info(dtype).kind == kPredicate; }

DType real_of(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return dtype;
}

DType complex_of(DType dtype) {
  if (dtype == DType::kF32) return DType::kC64;
  if (dtype == DType::kF64) return DType::kC128;
  return dtype;
}

int64_t product(const Dims& dims) {
  int64_t result = 1;
  for (int64_t dim : dims) result *= dim;
  return result;
}

void append_int(std::string& text, int64_t value) {
  char buffer[24];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

void Type::append_to(std::string& text) const {
  text += "tensor<";
  for (int64_t dim : dims) {
    append_int(text, dim);
    text += 'x';
  }
  text += element_name(dtype);
  text += '>';
}

std::string Type::str() const {
  std::string text;
  append_to(text);
  return text;
}

}  // namespace tpu::hlo
