// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients. `reduction` is 0: none, 1: mean, 2: sum.
#include "lower/loss.h"
#include "lower/line.h"

#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value reduced(Value loss, int64_t reduction) {
  if (reduction == 0) return loss;
  Value sum = reduce_sum(loss, all_dims(loss));
  return reduction == 1 ? sum / number_like(sum, loss.numel()) : sum;
}

Value shared(Value grad, Value like, int64_t reduction) {
  grad = broadcast_to(convert(grad, like.dtype()), like.dims());
  return reduction == 1 ? grad / number_like(grad, like.numel()) : grad;
}

// ---- regression: a loss of the difference of (self, target), or of both; `reduction` is argument 2

using Slope = Value (*)(Value difference, Value parameter);

static Value mse(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  Value d = xs[0] - xs[1];
  return reduced(d * d, a.integer(2));
}

// The loss f(|self - target|, parameter), whose parameter is argument 3.
static Rule of_distance(Slope f) {
  return [f](Args& a) {
    auto xs = a.promoted_wide({0, 1});
    Value distance = abs(xs[0] - xs[1]);
    return reduced(f(distance, a.scalar_like(3, distance)), a.integer(2));
  };
}

// (grad_output, self, target, reduction, parameter): grad times the slope f(self - target, parameter).
static Value difference_backward(Args& a, Slope f, bool has_parameter) {
  auto xs = a.promoted_wide({1, 2});
  Value difference = xs[0] - xs[1];
  Value parameter = has_parameter ? a.scalar_like(4, difference) : Value();
  return f(difference, parameter) * shared(a[0], difference, a.integer(3));
}

static Value huber(Value distance, Value delta) {
  return select(le(distance, delta), 0.5 * distance * distance, delta * (distance - 0.5 * delta));
}

static Value huber_slope(Value d, Value delta) {
  return select(le(d, -delta), -delta, select(ge(d, delta), delta, d));
}

static Value smooth_l1(Value distance, Value beta) {
  return select(lt(distance, beta), 0.5 * distance * distance / beta, distance - 0.5 * beta);
}

static Value smooth_l1_slope(Value d, Value beta) {
  return select(le(d, -beta), constant_like(d, -1), select(ge(d, beta), ones_like(d), d / beta));
}

static Value soft_margin(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  return reduced(log_plus_one(exponential(-(xs[0] * xs[1]))), a.integer(2));
}

static Value soft_margin_backward(Args& a) {
  auto xs = a.promoted_wide({1, 2});
  Value z = exponential(-(xs[0] * xs[1]));
  return -xs[1] * z / (z + 1.0) * shared(a[0], z, a.integer(3));
}

// ---- binary cross entropy

static Value weighted(Value loss, std::optional<Value> weight) {
  return weight ? loss * broadcast_to(convert(*weight, loss.dtype()), loss.dims()) : loss;
}

// (self, target, weight, reduction). The logarithms stop at -100, as in PyTorch.
static Value bce(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  Value x = xs[0], t = xs[1];
  a.source().require(reduce_and(ge(x, 0) & le(x, 1), all_dims(x)), "runtime",
                     "all elements of input should be between 0 and 1");
  Value loss = (t - 1.0) * maximum(log_plus_one(-x), -100) - t * maximum(log(x), -100);
  return reduced(weighted(loss, a.maybe(2)), a.integer(3));
}

// (grad_output, self, target, weight, reduction)
static Value bce_backward(Args& a) {
  auto xs = a.promoted_wide({1, 2});
  Value x = xs[0], t = xs[1];
  Value grad = shared(a[0], x, a.integer(4)) * (x - t) / maximum((1.0 - x) * x, 1e-12f);
  return weighted(grad, a.maybe(3));
}

// (self, target, weight, pos_weight, reduction)
static Value bce_with_logits(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  Value x = xs[0], t = xs[1];
  Value log_sigmoid = minimum(x, zeros_like(x)) - log_plus_one(exponential(-abs(x)));
  if (a.has(3))
    log_sigmoid = log_sigmoid * (t * (broadcast_to(convert(a[3], t.dtype()), t.dims()) - 1.0) + 1.0);
  return reduced(weighted((1.0 - t) * x - log_sigmoid, a.maybe(2)), a.integer(4));
}

// ---- negative log likelihood: self [c], [n, c] or [n, c, h, w]; the classes are compared with an iota, so
// there is no gather

struct Classes {
  int dim;       // where self has its classes
  Value chosen;  // kPred, self's dims: the place of the target, unless it is ignored
  Value weight;  // target's dims: the weight of the target's class, 0 where ignored
};

// (.., self, target, weight, reduction, ignore_index, ..) with self being argument `first`.
static Classes classes(Args& a, size_t first) {
  Value x = a[first], target = convert(a[first + 1], DType::kS64);
  DType dtype = wide(x.dtype());
  int dim = x.rank() == 1 ? 0 : 1;
  if (x.rank() == 1) target = reshape(target, {});
  int64_t ignore_index = a.integer(first + 4);
  Value ignored = eq(target, constant(a.program(), target.type(), ignore_index));
  Value inside = ge(target, 0) & lt(target, static_cast<double>(x.dim(dim)));
  a.source().require(reduce_and(inside | ignored, all_dims(target)), "index", "Target is out of bounds.");
  Value chosen = eq(spread(convert(target, DType::kS32), x, {dim}), iota_like(x, dim, DType::kS32));
  chosen = chosen & spread(not_(ignored), x, {dim});
  Value weight = convert(not_(ignored), dtype);
  if (auto given = a.maybe(first + 2)) {
    Value all = broadcast_in_dim(convert(*given, dtype), x.dims(), {dim});
    weight = reduce_sum(select(chosen, all, zeros_like(all)), {dim});
  }
  return {dim, chosen, weight};
}

// (self, target, weight, reduction, ignore_index) -> (output, total_weight)
static Results nll(Args& a) {
  Classes c = classes(a, 0);
  Value x = widen(a[0]);
  Value picked = reduce_sum(select(c.chosen, x, zeros_like(x)), {c.dim});
  // Not picked times 0: an ignored place gives 0 even for a weight of infinity.
  Value loss = select(eq(c.weight, 0), zeros_like(picked), -picked * c.weight);
  bool none = a.integer(3) == 0 && x.rank() > 1;
  if (none) return {loss, constant(a.program(), {x.dtype(), {}}, 0)};
  Value sum = reduce_sum(loss, all_dims(loss)), total = reduce_sum(c.weight, all_dims(c.weight));
  return {a.integer(3) == 1 ? sum / total : sum, total};
}

// (grad_output, self, target, weight, reduction, ignore_index, total_weight)
static Value nll_backward(Args& a) {
  Classes c = classes(a, 1);
  Value grad = convert(a[0], c.weight.dtype());
  if (a.integer(4) == 1) grad = grad / reshape(convert(a[6], grad.dtype()), {});
  grad = -broadcast_to(grad.rank() == 1 && c.weight.rank() == 0 ? reshape(grad, {}) : grad, c.weight.dims()) *
         c.weight;
  Value full = spread(grad, c.chosen, {c.dim});
  return select(c.chosen, full, zeros_like(full));
}

const Table loss_table = {
    {"_ctc_loss.Tensor", ctc, kNoMeta | kKeepsDtype},
    {"_ctc_loss_backward.Tensor", ctc_backward, kNoMeta | kKeepsDtype},
    {"binary_cross_entropy", bce},
    {"binary_cross_entropy_backward", bce_backward},
    {"binary_cross_entropy_with_logits", bce_with_logits},
    {"huber_loss", of_distance(huber)},
    {"huber_loss_backward", [](Args& a) { return difference_backward(a, huber_slope, true); }},
    {"mse_loss", mse},
    {"mse_loss_backward",
     [](Args& a) { return difference_backward(a, [](Value d, Value) { return 2.0 * d; }, false); }},
    {"multi_margin_loss", multi_margin},
    {"multi_margin_loss_backward", multi_margin_backward, kNoMeta | kKeepsDtype},
    {"multilabel_margin_loss_backward", multilabel_margin_backward, kNoMeta | kKeepsDtype},
    {"multilabel_margin_loss_forward", multilabel_margin, kNoMeta | kKeepsDtype},
    {"nll_loss2d_backward", nll_backward},
    {"nll_loss2d_forward", nll},
    {"nll_loss_backward", nll_backward},
    {"nll_loss_forward", nll},
    {"smooth_l1_loss", of_distance(smooth_l1)},
    {"smooth_l1_loss_backward", [](Args& a) { return difference_backward(a, smooth_l1_slope, true); }},
    {"soft_margin_loss", soft_margin},
    {"soft_margin_loss_backward", soft_margin_backward},
};

}  // namespace tpu::lower
