// SPDX-License-Identifier: Apache-2.0
// Gathering a call: one pass over the arguments that collects tensors, checks devices and hashes.
#include "runtime/call.h"

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "runtime/chip.h"
#include "runtime/schema.h"

namespace tpu::runtime {
namespace {

enum Tag : uint64_t {
  kNone = 1,
  kWhole,
  kUnset,
  kViewed,
  kIrregular,
  kHostNumber,
  kHostTensor,
  kList,
  kInt,
  kDouble,
  kBool,
  kComplex,
  kText,
  kOther
};

void hash_dims(hlo::Hasher& h, c10::IntArrayRef dims) {
  for (int64_t d : dims) h.word(static_cast<uint64_t>(d));
}

[[noreturn]] void mixed_devices(const std::string& name, c10::Device a, c10::Device b) {
  const bool cpu = a.is_cpu() || b.is_cpu();
  TORCH_CHECK(false, name,
              ": Expected all tensors to be on the same device, but found at least two devices, ", a, " and ",
              b, "! Move one of them, for instance with .to(\"", cpu ? (a.is_cpu() ? b : a) : a, "\").",
              cpu ? " (A CPU tensor without dimensions is taken as a number.)" : "");
}

class Gatherer {
 public:
  Gatherer(Call& call, const std::string& name, bool graph) : call_(call), name_(name), graph_(graph) {}

  void tensor(const at::Tensor& t, int argument, bool written) {
    if (!t.defined()) return h_.word(kNone);
    const c10::Device device = t.device();
    if (device.type() != kDevice) {
      if (graph_ && device.is_cpu() && t.dim() != 0) {
        h_.word(kHostTensor << 32 | static_cast<uint64_t>(t.scalar_type()) << 8 |
                static_cast<uint64_t>(t.dim()));
        return hash_dims(h_, t.sizes());
      }
      if (!device.is_cpu() || t.dim() != 0 || written || t.layout() != c10::kStrided) {
        host_.push_back(&t);
        return h_.word(kOther);
      }
      const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
      return h_.word(kHostNumber << 32 | static_cast<uint64_t>(t.scalar_type()) << 1 | wrapped);
    }
    TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided, name_,
                                ": expected dense tensors, got one with layout ", t.layout(),
                                ". Sparse tensors are not supported on tpu; use .to_dense().");
    Cell& cell = cell_of(t);
    if (!call_.chip)
      call_.chip = cell.chip;
    else if (call_.chip != cell.chip)
      mixed_devices(name_, c10::Device(kDevice, call_.chip->index()), device);
    const uint64_t dtype = static_cast<uint64_t>(t.scalar_type());
    std::unique_ptr<View> view;
    if (is_whole(t, cell)) {
      h_.word(kWhole << 32 | dtype << 8 | static_cast<uint64_t>(t.dim()));
      hash_dims(h_, t.sizes());
    } else {
      const hlo::Type type = array_type(cell, t.storage().nbytes());
      view = std::make_unique<View>(view_of(t, type));
      const uint64_t tag = !cell.array ? kUnset : view->irregular ? kIrregular : kViewed;
      h_.word(tag << 32 | dtype << 8 | static_cast<uint64_t>(t.dim()));
      hash_dims(h_, t.sizes());
      hash_dims(h_, t.strides());
      h_.type(type);
      h_.word(static_cast<uint64_t>(view->window));
      hash_dims(h_, view->levels);
    }
    const int index = static_cast<int>(call_.tensors.size());
    call_.tensors.push_back(&t);
    call_.cells.push_back(&cell);
    call_.argument_of.push_back(static_cast<int16_t>(argument));
    call_.views.push_back(std::move(view));
    if (index > 0) alias(index, t, cell);
  }

  void number(const c10::IValue& v, const Argument& kind, bool by_value) {
    uint64_t tag = kOther;
    bool is_default = false;
    if (v.isInt())
      tag = kInt;
    else if (v.isDouble())
      tag = kDouble;
    else if (v.isBool())
      tag = kBool;
    else if (v.isComplexDouble())
      tag = kComplex;
    else if (v.isNone())
      tag = kNone;
    if (kind.has_default && (tag == kInt || tag == kDouble || tag == kBool))
      is_default = (tag == kDouble ? v.toDouble()
                    : tag == kInt  ? static_cast<double>(v.toInt())
                                   : v.toBool()) == kind.default_number;
    h_.word(tag << 32 | is_default);
    if (by_value || tag == kOther) attribute(v);
  }

  void attribute(const c10::IValue& v) {
    if (v.isInt()) return word(kInt, static_cast<uint64_t>(v.toInt()));
    if (v.isNone()) return h_.word(kNone);
    if (v.isBool()) return word(kBool, v.toBool());
    if (v.isDouble()) return word(kDouble, std::bit_cast<uint64_t>(v.toDouble()));
    if (v.isIntList()) {
      const auto& list = v.toIntVector();
      word(kList, list.size());
      for (int64_t i : list) h_.word(static_cast<uint64_t>(i));
      return;
    }
    if (v.isString()) {
      h_.word(kText);
      return h_.bytes(v.toStringRef());
    }
    if (v.isComplexDouble()) {
      const auto c = v.toComplexDouble();
      word(kComplex, std::bit_cast<uint64_t>(c.real()));
      return h_.word(std::bit_cast<uint64_t>(c.imag()));
    }
    if (v.isList()) {
      const auto list = v.toListRef();
      word(kList, list.size());
      for (const auto& element : list) attribute(element);
      return;
    }
    if (v.isDevice()) return word(kOther, static_cast<uint64_t>(v.toDevice().index()));
    if (v.isSymInt()) return word(kInt, static_cast<uint64_t>(v.toSymInt().guard_int(__FILE__, __LINE__)));
    TORCH_CHECK(false, name_, ": an argument of kind ", v.tagKind(), " is not supported on tpu");
  }

  void mark(uint64_t value) { h_.word(value); }

  void finish() {
    if (!host_.empty()) {
      if (call_.chip)
        mixed_devices(name_, c10::Device(kDevice, call_.chip->index()), host_.front()->device());
      TORCH_CHECK(false, name_, ": expected tensors on tpu, got one on ", host_.front()->device());
    }
    call_.key = h_.done();
  }

 private:
  void word(Tag tag, uint64_t value) {
    h_.word(tag);
    h_.word(value);
  }

  // Which earlier tensor has the same array: the program has one parameter for both then.
  void alias(int index, const at::Tensor& t, const Cell& cell) {
    int same = -1;
    const void* identity = cell.array ? static_cast<const void*>(cell.array.get()) : &cell;
    if (call_.tensors.size() > 16) {
      if (seen_.empty())
        for (int i = 0; i < index; ++i) seen_.emplace(identity_of(i), i);
      auto [found, added] = seen_.emplace(identity, index);
      if (!added) same = found->second;
    } else {
      for (int i = 0; i < index && same < 0; ++i)
        if (identity_of(i) == identity) same = i;
    }
    if (same < 0) return;
    h_.word(uint64_t{0xA11A5} << 32 | static_cast<uint64_t>(same) << 1 | (call_.cells[same] == &cell));
    if (graph_ && call_.cells[same] == &cell) {
      h_.word(static_cast<uint64_t>(t.storage_offset()));
      h_.word(static_cast<uint64_t>(call_.tensors[same]->storage_offset()));
    }
  }
  const void* identity_of(int i) const {
    const Cell& cell = *call_.cells[i];
    return cell.array ? static_cast<const void*>(cell.array.get()) : &cell;
  }

  Call& call_;
  const std::string& name_;
  bool graph_;
  hlo::Hasher h_;
  c10::SmallVector<const at::Tensor*, 2> host_;
  std::unordered_map<const void*, int> seen_;
};

template <class T>
Bits pack(T value) {
  Bits bits;
  std::memcpy(&bits.low, &value, sizeof value);
  return bits;
}

}  // namespace

int Call::index_of(const at::Tensor& tensor) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i]->unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) return static_cast<int>(i);
  return -1;
}

void gather(Call& call, at::ArrayRef<c10::IValue> arguments, c10::ArrayRef<Argument> kinds,
            uint64_t depends_on, bool graph, const std::string& name) {
  call.arguments = arguments;
  Gatherer g(call, name, graph);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& v = arguments[i];
    const Argument& kind = kinds[i];
    const int at = static_cast<int>(i);
    switch (kind.kind) {
      case Argument::kTensor:
        if (v.isTensor())
          g.tensor(v.toTensor(), at, kind.written);
        else if (v.isNone())
          g.mark(kNone);
        else
          g.attribute(v);
        break;
      case Argument::kTensorList:
        if (v.isNone()) {
          g.mark(kNone);
          break;
        }
        {
          const auto list = v.toListRef();
          g.mark(kList << 32 | list.size());
          for (const auto& element : list) {
            if (element.isTensor())
              g.tensor(element.toTensor(), at, kind.written);
            else
              g.mark(kNone);
          }
        }
        break;
      case Argument::kNumber:
        g.number(v, kind, i < 64 && (depends_on >> i & 1));
        break;
      case Argument::kNumberList:
        if (v.isNone()) {
          g.mark(kNone);
        } else if (i < 64 && (depends_on >> i & 1)) {
          g.attribute(v);
        } else if (v.isDoubleList()) {
          g.mark(kDouble << 32 | v.toDoubleVector().size());
        } else {
          const auto list = v.toListRef();
          g.mark(kList << 32 | list.size());
          for (const auto& element : list) g.number(element, kind, false);
        }
        break;
      case Argument::kGenerator:
      case Argument::kIgnored:
        break;
      case Argument::kAttribute:
        g.attribute(v);
        break;
    }
  }
  g.finish();
}

c10::Scalar number_of(const c10::IValue& v, size_t element) {
  if (v.isTensor()) return v.toTensor().item();
  if (v.isDoubleList()) return v.toDoubleVector()[element];
  if (v.isList()) {
    const c10::IValue e = v.toListRef()[element];
    return e.isTensor() ? e.toTensor().item() : e.toScalar();
  }
  return v.toScalar();
}

Bits bits_of(const c10::IValue& v, size_t element, hlo::DType dtype) {
  const c10::Scalar s = number_of(v, element);
  const auto real = [&] { return s.isComplex() ? s.toComplexDouble().real() : s.toDouble(); };
  // Like a cast in C, and without the undefined part: numbers beyond the range wrap.
  const auto whole = [&]() -> int64_t {
    if (s.isIntegral(/*includeBool=*/true))
      return s.type() == c10::ScalarType::UInt64 ? static_cast<int64_t>(s.toUInt64()) : s.toLong();
    const double d = real();
    if (d >= 9223372036854775808.0)
      return d < 18446744073709551616.0 ? static_cast<int64_t>(static_cast<uint64_t>(d)) : INT64_MAX;
    return d >= -9223372036854775808.0 ? static_cast<int64_t>(d) : INT64_MIN;
  };
  switch (dtype) {
    case hlo::DType::kPred:
      return pack<uint8_t>(s.isComplex()         ? s.toComplexDouble() != c10::complex<double>(0)
                           : s.isFloatingPoint() ? real() != 0
                                                 : whole() != 0);
    case hlo::DType::kS8:
    case hlo::DType::kU8:
      return pack(static_cast<uint8_t>(whole()));
    case hlo::DType::kS16:
    case hlo::DType::kU16:
      return pack(static_cast<uint16_t>(whole()));
    case hlo::DType::kS32:
    case hlo::DType::kU32:
      return pack(static_cast<uint32_t>(whole()));
    case hlo::DType::kS64:
    case hlo::DType::kU64:
      return pack(static_cast<uint64_t>(whole()));
    case hlo::DType::kF16:
      return pack(c10::Half(static_cast<float>(real())));
    case hlo::DType::kBF16:
      return pack(c10::BFloat16(static_cast<float>(real())));
    case hlo::DType::kF32:
      return pack(static_cast<float>(real()));
    case hlo::DType::kF64:
      return pack(real());
    case hlo::DType::kF8E4M3FN:
      return pack(c10::Float8_e4m3fn(static_cast<float>(real())));
    case hlo::DType::kF8E5M2:
      return pack(c10::Float8_e5m2(static_cast<float>(real())));
    case hlo::DType::kC64: {
      const auto c = s.toComplexFloat();
      const float parts[2] = {c.real(), c.imag()};
      Bits bits;
      std::memcpy(&bits.low, parts, 8);
      return bits;
    }
    case hlo::DType::kC128: {
      const auto c = s.toComplexDouble();
      return {std::bit_cast<uint64_t>(c.real()), std::bit_cast<uint64_t>(c.imag())};
    }
  }
  return {};
}

}  // namespace tpu::runtime
