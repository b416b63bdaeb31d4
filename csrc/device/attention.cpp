// SPDX-License-Identifier: Apache-2.0
// Which form scaled_dot_product_attention takes: one op of ours, or PyTorch's composite of matmuls and
// softmax.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

namespace tpu::device {
namespace {

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool enable_gqa) {
  const auto math = static_cast<int64_t>(at::SDPBackend::math);
  if (!at::globalContext().userEnabledOverrideableSDP()) return math;
  for (const at::Tensor& t : {query, key, value})
    if (t.dim() != 4 || t.scalar_type() != query.scalar_type() || !at::isFloatingType(t.scalar_type()) ||
        t.size(0) != query.size(0) || t.numel() == 0)
      return math;
  if (key.size(1) != value.size(1)) return math;
  const bool heads = query.size(1) == key.size(1) || (enable_gqa && query.size(1) % key.size(1) == 0);
  return heads ? static_cast<int64_t>(at::SDPBackend::overrideable) : math;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_fused_sdp_choice", &fused_sdp_choice); }

}  // namespace
}  // namespace tpu::device

// What scaled_dot_product_attention itself asks; torch._fused_sdp_choice above is the same question as an op.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::device::fused_sdp_choice)
}  // namespace at::native
