// SPDX-License-Identifier: Apache-2.0
// The device's generators.
#include "device/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <deque>

#include "runtime/chip.h"
#include "runtime/source.h"
#include "runtime/storage.h"

namespace tpu::device {

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(runtime::kDevice, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/false));
  return seed_;
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.data_ptr(), &seed_, 8);
  std::memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
  return state.getIntrusivePtr();
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(
      state.device().is_cpu() && state.layout() == c10::kStrided && state.is_contiguous() &&
          c10::typeMetaToScalarType(state.dtype()) == c10::ScalarType::Byte && state.numel() == 16,
      "set_state: RNG state must be a torch.ByteTensor of 16 elements on the CPU (seed and offset), got ",
      state.numel(), " elements of ", state.dtype(), " on ", state.device());
  std::memcpy(&seed_, state.data(), 8);
  std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

std::pair<uint64_t, uint64_t> GeneratorImpl::draw(uint64_t count) {
  const std::pair<uint64_t, uint64_t> before{seed_, offset_};
  offset_ += count;
  return before;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = new std::deque<at::Generator>;
  const int wanted = index < 0 ? runtime::current_chip() : index;
  TORCH_CHECK(wanted < std::max(runtime::chip_count(), 1), "tpu:", wanted,
              ": there is no such chip; this process has ", runtime::chip_count());
  std::lock_guard guard(runtime::lock());
  while (generators->size() <= static_cast<size_t>(wanted))
    generators->push_back(
        at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(generators->size())));
  return (*generators)[wanted];
}

at::Generator make_generator(c10::DeviceIndex index) {
  return at::make_generator<GeneratorImpl>(index < 0 ? static_cast<c10::DeviceIndex>(runtime::current_chip())
                                                     : index);
}

static std::pair<uint64_t, uint64_t> draw(const c10::IValue& given, int chip, uint64_t count) {
  at::Generator generator =
      given.isGenerator() ? given.toGenerator() : default_generator(static_cast<c10::DeviceIndex>(chip));
  TORCH_CHECK(generator.device().type() == runtime::kDevice,
              "Expected a 'tpu' device type for generator but found '", generator.device().type(),
              "'. Make it with torch.Generator(device=\"tpu\").");
  std::lock_guard guard(generator.mutex());
  return static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl())->draw(count);
}

[[maybe_unused]] static const bool hooked = (runtime::set_rng_hook(&draw), true);

}  // namespace tpu::device
