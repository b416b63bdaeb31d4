// SPDX-License-Identifier: Apache-2.0
// ctc_loss with lengths as numbers: they become tensors, so that other lengths need no other program.
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

namespace tpu::device {
namespace {

struct Lengths {
  at::Tensor targets;  // [n, s], also where they were given as one line
  at::Tensor inputs, labels;
};

Lengths on_device(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef inputs,
                  at::IntArrayRef labels, int64_t blank) {
  const int64_t frames = log_probs.size(0), count = log_probs.size(1);
  TORCH_CHECK(0 <= blank && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(inputs.size()) == count, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(labels.size()) == count, "target_lengths must be of size batch_size");
  for (int64_t length : inputs)
    TORCH_CHECK(0 <= length && length <= frames,
                "Expected input_lengths to have value at least 0 and at most ", frames, ", but got value ",
                length);
  for (int64_t length : labels)
    TORCH_CHECK(length >= 0, "Expected target_lengths to have value at least 0, but got value ", length);
  const int64_t longest = labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end());
  const auto there = [&](at::IntArrayRef numbers) {
    return at::tensor(numbers, at::kLong).to(log_probs.device());
  };
  Lengths result{targets, there(inputs), there(labels)};
  if (targets.dim() == 1) {
    TORCH_CHECK(std::accumulate(labels.begin(), labels.end(), int64_t{0}) == targets.size(0),
                "Expected the sum of target_lengths to be the size of targets, ", targets.size(0));
    std::vector<int64_t> places;
    int64_t begin = 0;
    for (int64_t length : labels) {
      for (int64_t i = 0; i < longest; ++i) places.push_back(i < length ? begin + i : 0);
      begin += length;
    }
    if (longest > 0)
      result.targets = targets.index_select(0, there(places)).reshape({count, longest});
    else
      result.targets = targets.reshape({0}).expand({count, 0});
  } else {
    TORCH_CHECK(longest <= targets.size(1), "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1));
    result.targets = targets.narrow(1, 0, longest);
  }
  return result;
}

std::tuple<at::Tensor, at::Tensor> ctc(const at::Tensor& log_probs, const at::Tensor& targets,
                                       at::IntArrayRef inputs, at::IntArrayRef labels, int64_t blank,
                                       bool zero_infinity) {
  const Lengths l = on_device(log_probs, targets, inputs, labels, blank);
  return at::_ctc_loss(log_probs, l.targets, l.inputs, l.labels, blank, zero_infinity);
}

at::Tensor ctc_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                        at::IntArrayRef inputs, at::IntArrayRef labels, const at::Tensor& loss,
                        const at::Tensor& alpha, int64_t blank, bool zero_infinity) {
  const Lengths l = on_device(log_probs, targets, inputs, labels, blank);
  return at::_ctc_loss_backward(grad, log_probs, l.targets, l.inputs, l.labels, loss, alpha, blank,
                                zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", &ctc);
  m.impl("_ctc_loss_backward", &ctc_backward);
}

}  // namespace
}  // namespace tpu::device
