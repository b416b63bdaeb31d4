// SPDX-License-Identifier: Apache-2.0
// Element types and tensor types of StableHLO, as far as PyTorch has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tpu::hlo {

enum class DType : uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E5M2,
};

size_t byte_width(DType dtype);         // of one element as it lies on the host; kPred is 1
const char* element_name(DType dtype);  // as StableHLO prints it: "i1", "ui8", "bf16", "complex<f32>"
bool is_floating(DType dtype);          // all floats, complex not included
bool is_complex(DType dtype);
bool is_integral(DType dtype);  // signed and unsigned integers, kPred not included
bool is_unsigned(DType dtype);  // unsigned integers and kPred
DType real_of(DType dtype);     // kC64 -> kF32, kC128 -> kF64, others unchanged
DType complex_of(DType dtype);  // kF32 -> kC64, kF64 -> kC128

using Dims = std::vector<int64_t>;

int64_t product(const Dims& dims);
void append_int(std::string& text, int64_t value);

struct Type {
  DType dtype = DType::kF32;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t numel() const { return product(dims); }
  size_t bytes() const { return static_cast<size_t>(numel()) * byte_width(dtype); }
  std::string str() const;  // "tensor<2x3xf32>"
  void append_to(std::string& text) const;
  friend bool operator==(const Type&, const Type&) = default;
};

}  // namespace tpu::hlo
