// SPDX-License-Identifier: Apache-2.0
// torch.Generator of the device: a seed and an offset into its stream of random bits.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace tpu::device {

// The bits are a function of (seed, offset): a program gets both as an operand, and the offset moves on by
// what it draws. So the same code gives the same numbers in each mode, on each chip.
class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The state before the draw; the offset moves on by `count`.
  std::pair<uint64_t, uint64_t> draw(uint64_t count);

 private:
  GeneratorImpl* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex index);  // -1: the current chip
at::Generator make_generator(c10::DeviceIndex index);

}  // namespace tpu::device
