// SPDX-License-Identifier: Apache-2.0
// Fused optimizer steps and the scaling of gradients. All numbers are run-time operands: a schedule compiles
// nothing new.
#include "lower/line.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// Numbers of a step are computed in f64, as 1 - beta^step cancels; all steps side by side.
Value one(Args& a) { return constant(a.program(), Type{DType::kF64, {}}, 1); }

// The steps as one line, and one of them in x's dtype and dims.
Value side_by_side(const std::vector<Value>& steps) {
  std::vector<Value> parts;
  for (Value step : steps) parts.push_back(reshape(convert(step, DType::kF64), {1}));
  return parts.size() == 1 ? parts[0] : concatenate(parts, 0);
}
Value at(Value numbers, size_t i, Value x) {
  int64_t n = static_cast<int64_t>(i);
  return broadcast_to(reshape(convert(cut(numbers, 0, n, n + 1), x.dtype()), {}), x.dims());
}

// The scale by which gradients are too large, and whether the step is to be skipped: optional tensors of one
// element.
struct Scaling {
  Scaling(Args& a, size_t i) : scale(a.maybe(i)), found(a.maybe(i + 1)) {}

  Value unscaled(Value grad) const {
    return scale ? grad / broadcast_to(reshape(convert(*scale, grad.dtype()), {}), grad.dims()) : grad;
  }
  // All of `now`, or `before` where an infinite gradient was found.
  void keep_if_found(Results& now, const Results& before) const {
    if (!found) return;
    Value skip = eq(reshape(*found, {}), 1.0);
    for (size_t i = 0; i < now.size(); ++i) now[i] = hlo::select(skip, before[i], now[i]);
  }
  std::optional<Value> scale, found;
};

std::vector<Value> wide_list(Args& a, size_t i) {
  auto xs = a.list(i);
  for (Value& x : xs) x = widen(x);
  return xs;
}

// The lists of arguments one after the other, as the written tensors of the schema are.
Results joined(const std::vector<std::vector<Value>>& lists) {
  Results all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay, eps,
// amsgrad, maximize, grad_scale, found_inf). Decoupled: the weight decay acts on the parameter, not on the
// gradient.
Rule adam(bool decoupled) {
  return [decoupled](Args& a) -> Results {
    auto params = wide_list(a, 0), grads = wide_list(a, 1), means = wide_list(a, 2),
         squares = wide_list(a, 3), tops = wide_list(a, 4);
    Results before = joined({params, grads, means, squares, tops});
    if (params.empty()) return {};
    bool amsgrad = a.flag(11), maximize = a.flag(12);
    Scaling scaling(a, 13);
    Value steps = side_by_side(a.list(5));
    Value beta1 = a.scalar(7, DType::kF64), beta2 = a.scalar(8, DType::kF64), lr = a.scalar(6, DType::kF64);
    auto correction = [&](Value beta) { return 1.0 - power(broadcast_to(beta, steps.dims()), steps); };
    Value rate = broadcast_to(reshape(lr, {}), steps.dims()) / correction(beta1);
    Value root = sqrt(correction(beta2));

    for (size_t i = 0; i < params.size(); ++i) {
      Value& p = params[i];
      auto number = [&](Value x) { return broadcast_to(convert(x, p.dtype()), p.dims()); };
      grads[i] = scaling.unscaled(grads[i]);
      Value g = convert(maximize ? -grads[i] : grads[i], p.dtype());
      Value decay = number(a.scalar(9, DType::kF64));
      if (decoupled)
        p = p - number(reshape(lr, {})) * decay * p;
      else
        g = g + decay * p;
      means[i] = means[i] + number(one(a) - beta1) * (g - means[i]);
      squares[i] = number(beta2) * squares[i] + number(one(a) - beta2) * g * g;
      if (amsgrad) tops[i] = maximum(tops[i], squares[i]);
      Value size = sqrt(amsgrad ? tops[i] : squares[i]) / at(root, i, p) + number(a.scalar(10, DType::kF64));
      p = p - at(rate, i, p) * means[i] / size;
    }
    Results now = joined({params, grads, means, squares, tops});
    scaling.keep_if_found(now, before);
    return now;
  };
}

// (self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize,
// is_first_step, grad_scale, found_inf)
Results sgd(Args& a) {
  auto params = wide_list(a, 0), grads = wide_list(a, 1), buffers = wide_list(a, 2);
  Results before = joined({params, grads, buffers});
  Scaling scaling(a, 10);
  for (size_t i = 0; i < params.size(); ++i) {
    Value& p = params[i];
    auto number = [&](size_t arg) { return broadcast_to(reshape(a.scalar(arg, p.dtype()), {}), p.dims()); };
    grads[i] = scaling.unscaled(grads[i]);
    Value g = convert(a.flag(8) ? -grads[i] : grads[i], p.dtype()) + number(3) * p;
    if (!buffers.empty()) {
      buffers[i] = a.flag(9) ? g : number(4) * buffers[i] + (1.0 - number(6)) * g;
      g = a.flag(7) ? g + number(4) * buffers[i] : buffers[i];
    }
    p = p - number(5) * g;
  }
  Results now = joined({params, grads, buffers});
  scaling.keep_if_found(now, before);
  return now;
}

// (self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
// found_inf). The schema of the form with a float lr says that the steps are written, too.
Rule adagrad(bool writes_steps) {
  return [writes_steps](Args& a) -> Results {
    auto params = wide_list(a, 0), grads = wide_list(a, 1), sums = wide_list(a, 2), steps = a.list(3);
    if (params.empty()) return {};
    Results before = joined({params, grads, sums});
    Scaling scaling(a, 9);
    Value done = side_by_side(steps) - 1.0;
    auto along = [&](size_t arg) {
      return broadcast_to(reshape(a.scalar(arg, DType::kF64), {}), done.dims());
    };
    Value rate = along(4) / (1.0 + done * along(5));
    for (size_t i = 0; i < params.size(); ++i) {
      Value& p = params[i];
      auto number = [&](size_t arg) { return broadcast_to(a.scalar(arg, p.dtype()), p.dims()); };
      grads[i] = scaling.unscaled(grads[i]);
      Value g = convert(a.flag(8) ? -grads[i] : grads[i], p.dtype()) + number(6) * p;
      sums[i] = sums[i] + g * g;
      p = p - at(rate, i, p) * g / (sqrt(sums[i]) + number(7));
    }
    Results now = joined({params, grads, sums});
    scaling.keep_if_found(now, before);
    if (writes_steps) now.insert(now.end(), steps.begin(), steps.end());
    return now;
  };
}

// (self, found_inf, inv_scale): found_inf becomes 1 if any element of any tensor is not finite.
Results unscale(Args& a) {
  auto grads = a.list(0);
  Value found = a[1], scale = reshape(a[2], {});
  for (Value& g : grads) {
    std::vector<int> all(g.rank());
    for (int i = 0; i < g.rank(); ++i) all[i] = i;
    Value finite = reduce_and(is_finite(g), all);
    found = hlo::select(broadcast_to(finite, found.dims()), found, ones_like(found));
    g = widen(g) * broadcast_to(convert(scale, wide(g.dtype())), g.dims());
  }
  grads.push_back(found);
  return grads;
}

// (self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval)
Results update_scale(Args& a) {
  Value scale = a[0], tracker = a[1];
  Value found = ne(broadcast_to(reshape(a[2], {}), scale.dims()), 0.0);
  Value next = tracker + ones_like(tracker);
  Value due = broadcast_to(eq(reshape(next, {}), a.scalar(5, tracker.dtype())), scale.dims());
  Value grown = scale * a.scalar_like(3, scale);
  Value good = hlo::select(and_(due, is_finite(grown)), grown, scale);
  auto in_tracker = [&](Value flag) { return broadcast_to(reshape(flag, {}), tracker.dims()); };
  return {hlo::select(found, scale * a.scalar_like(4, scale), good),
          hlo::select(in_tracker(or_(found, due)), zeros_like(tracker), next)};
}

}  // namespace

const Table optim_table = {
    {"_amp_foreach_non_finite_check_and_unscale_", unscale},
    {"_amp_update_scale_", update_scale},
    {"_fused_adagrad_", adagrad(true), kNoMeta},
    {"_fused_adagrad_.tensor_lr", adagrad(false), kNoMeta},
    {"_fused_adam_", adam(false)},
    {"_fused_adam_.tensor_lr", adam(false), kNoMeta},
    {"_fused_adamw_", adam(true)},
    {"_fused_adamw_.tensor_lr", adam(true), kNoMeta},
    {"_fused_sgd_", sgd, kNoMeta},
    {"_fused_sgd_.tensor_lr", sgd, kNoMeta},
};

}  // namespace tpu::lower
