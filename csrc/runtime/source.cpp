// SPDX-License-Identifier: Apache-2.0
// Arguments to values: storages read through views, numbers as operands, generator states.
#include "runtime/source.h"

#include <c10/util/Exception.h>

namespace tpu::runtime {
namespace {
RngHook rng_hook = nullptr;

hlo::Value baked(hlo::Program& p, const c10::IValue& number, size_t element, hlo::DType dtype) {
  const c10::Scalar s = number_of(number, element);
  if (hlo::is_complex(dtype)) return hlo::constant(p, {dtype, {}}, std::complex<double>(s.toComplexDouble()));
  if (hlo::is_floating(dtype))
    return hlo::constant(p, {dtype, {}}, s.isComplex() ? s.toComplexDouble().real() : s.toDouble());
  const Bits bits = bits_of(number, element, dtype);
  int64_t value = static_cast<int64_t>(bits.low);
  switch (dtype) {  // sign-extend what was packed
    case hlo::DType::kS8:
      value = static_cast<int8_t>(bits.low);
      break;
    case hlo::DType::kS16:
      value = static_cast<int16_t>(bits.low);
      break;
    case hlo::DType::kS32:
      value = static_cast<int32_t>(bits.low);
      break;
    default:
      break;
  }
  return hlo::constant(p, {dtype, {}}, value);
}

}  // namespace

void set_rng_hook(RngHook hook) { rng_hook = hook; }

ArrayRef rng_array(Chip& chip, const c10::IValue& generator, uint64_t count) {
  const auto [seed, offset] = rng_hook(generator, chip.index(), count);
  const uint64_t state[2] = {seed, offset};
  return chip.from_host(state, {hlo::DType::kU64, {2}});
}

hlo::Value CallSource::base(int index) {
  Cell& cell = *call_.cells[index];
  if (!cell.array) {
    const hlo::Type type = array_type(cell, call_.tensors[index]->storage().nbytes());
    return hlo::constant(program(), type, 0);
  }
  if (Capture* capture = Capture::active(); capture && cell.array->recording() != &recording_)
    return capture->foreign(call_.tensors[index]->storage());
  return recording_.value_of(cell.array, {Origin::kArray, index, 0, hlo::DType::kF32, 0});
}

StartOf CallSource::starts(int index) {
  if (recording_.capturing()) return {};  // where a graph's views begin is part of the graph
  return [this, index](size_t level, int64_t start, hlo::DType dtype) {
    return recording_.operand(recording_.chip().integer(start, dtype),
                              {Origin::kStart, index, static_cast<int>(level), dtype, 0});
  };
}

hlo::Value CallSource::tensor(const at::Tensor& tensor) {
  const hlo::DType dtype = lower::dtype_of(tensor.scalar_type());
  if (!on_device(tensor)) {  // gather() let only 0-d CPU tensors through
    for (size_t i = 0; i < call_.arguments.size(); ++i) {
      const c10::IValue& argument = call_.arguments[i];
      if (argument.isTensor() && argument.toTensor().is_same(tensor)) return scalar(argument, i, 0, dtype);
      if (op_.arguments[i].kind != Argument::kTensorList || !argument.isList()) continue;
      const auto list = argument.toListRef();
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k].isTensor() && list[k].toTensor().is_same(tensor)) return scalar(argument, i, k, dtype);
    }
    TORCH_INTERNAL_ASSERT(false, op_.name, ": a CPU tensor that is no argument");
  }
  const int index = call_.index_of(tensor);
  TORCH_INTERNAL_ASSERT(index >= 0, op_.name, ": a tensor that is no argument");
  const View* view = call_.views[index].get();
  return view ? read_view(base(index), *view, dtype, starts(index)) : base(index);
}

hlo::Value CallSource::scalar(const c10::IValue& number, size_t arg, size_t element, hlo::DType dtype) {
  if (Capture* capture = Capture::active()) {
    if (number.isTensor()) {
      if (const int input = capture->host_input(number.toTensor()); input >= 0)
        return recording_.placeholder({dtype, {}}, {Origin::kScalar, input, 0, dtype, 0});
    }
    return baked(program(), number, element, dtype);
  }
  const Bits bits = bits_of(number, element, dtype);
  return recording_.operand(recording_.chip().scalar(dtype, bits.low, bits.high),
                            {Origin::kScalar, static_cast<int>(arg), static_cast<int>(element), dtype, 0});
}

hlo::Value CallSource::rng_state(const c10::IValue& generator, uint64_t count) {
  const Origin origin{Origin::kRng, op_.generator, 0, hlo::DType::kU64, count};
  if (recording_.capturing()) {
    TORCH_CHECK(generator.isNone(), op_.name,
                ": a torch.Generator can't be used inside of a compiled graph on tpu");
    return recording_.placeholder({hlo::DType::kU64, {2}}, {Origin::kRng, -1, 0, hlo::DType::kU64, count});
  }
  return recording_.operand(rng_array(recording_.chip(), generator, count), origin);
}

void CallSource::require(hlo::Value ok, const char* what, const std::string& message) {
  recording_.require(ok, what, message, op_.name, where_);
}

bool CallSource::write(int index, hlo::Value elements) {
  const at::Tensor& tensor = *call_.tensors[index];
  Cell& cell = *call_.cells[index];
  if (elements.numel() == 0) return false;
  const View* view = call_.views[index].get();
  hlo::Value after = elements;
  if (view) {
    for (int64_t d = 0; d < tensor.dim(); ++d)
      TORCH_CHECK(tensor.size(d) <= 1 || tensor.stride(d) != 0, op_.name,
                  ": unsupported operation: more than one element of the "
                  "written-to tensor refers to a single memory location. Please clone() the tensor before "
                  "performing the operation.");
    const hlo::Type type = array_type(cell, tensor.storage().nbytes());
    after = write_view(view->covers ? hlo::Value() : base(index), type, *view, elements, starts(index));
  }
  if (Capture* capture = Capture::active(); capture && cell.array && cell.array->recording() != &recording_)
    capture->foreign(tensor.storage());  // so that its old array comes back when the capture ends
  const ArrayRef before = cell.array;
  cell.array = recording_.wrap(after);
  recording_.replaced(before, cell.array);
  return true;
}

}  // namespace tpu::runtime
