// SPDX-License-Identifier: Apache-2.0
// Margin losses over classes: self is [c] or [n, c].
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "lower/loss.h"

namespace tpu::lower {

using namespace tpu::hlo;

// ---- one target for each row

struct Margins {
  Value target;  // kPred [n, c]: the place of the target
  Value z;       // margin - self[target] + self
  Value weight;  // of the target's class, for each z
};

// (.., self, target, p, margin, weight, ..) with self being argument `first`.
static Margins margins(Args& a, size_t first) {
  Value x = widen(a[first]);
  int64_t c = x.rank() == 0 ? 1 : x.dim(x.rank() - 1), n = x.rank() < 2 ? 1 : x.dim(0);
  x = reshape(x, {n, c});
  Value label = reshape(convert(a[first + 1], DType::kS64), {n});
  a.source().require(reduce_and(ge(label, 0) & lt(label, static_cast<double>(c)), {0}), "runtime",
                     "target out of range");
  Value target = eq(broadcast_in_dim(label, x.dims(), {0}), iota_like(x, 1, DType::kS64));
  auto of_target = [&](Value v) { return spread(reduce_sum(select(target, v, zeros_like(v)), {1}), v, {1}); };
  Value weight = ones_like(x);
  if (auto given = a.maybe(first + 4))
    weight = of_target(broadcast_in_dim(convert(*given, x.dtype()), x.dims(), {1}));
  return {target, a.scalar_like(first + 3, x) - of_target(x) + x, weight};
}

Value multi_margin(Args& a) {
  Margins m = margins(a, 0);
  Value z = m.z;
  Value loss = (a.constant(2) == 1 ? z : z * z) * m.weight;
  loss = select(gt(z, 0) & not_(m.target), loss, zeros_like(loss));
  loss = reduce_sum(loss, {1}) / static_cast<double>(z.dim(1));
  loss = reduced(loss, a.integer(5));
  return a.dims(0).size() < 2 ? reshape(loss, {}) : loss;
}

Value multi_margin_backward(Args& a) {
  Margins m = margins(a, 1);
  Value z = m.z;
  Value slope = (a.constant(3) == 1 ? ones_like(z) : 2.0 * z) * m.weight / static_cast<double>(z.dim(1));
  slope = select(gt(z, 0) & not_(m.target), slope, zeros_like(z));
  slope = select(m.target, -spread(reduce_sum(slope, {1}), slope, {1}), slope);
  Value grad = convert(a[0], z.dtype());
  if (a.integer(6) == 1) grad = grad / static_cast<double>(z.dim(0));
  grad =
      grad.numel() == 1 ? broadcast_to(reshape(grad, {}), z.dims()) : broadcast_in_dim(grad, z.dims(), {0});
  return convert(reshape(slope * grad, a.dims(1)), a.dtype(1));
}

// ---- a list of targets for each row, which ends at the first -1

struct Labels {
  Value hit;        // kPred [n, k, c]: target k of the row is class c
  Value valid;      // kPred [n, k]
  Value is_target;  // kPred [n, c]
  Value z;          // [n, k, c]: 1 - self[target k] + self[c]
  Value counts;     // kPred [n, k, c]: the pair is part of the loss
};

static Labels labels(Value x, Value target) {
  int64_t n = x.dim(0), c = x.dim(1);
  Dims cube = {n, c, c};
  Value place = iota_like(target, 1, DType::kS64);
  Value end = reduce_min(select(lt(target, 0), place, constant_like(place, static_cast<double>(c))), {1});
  Value valid = lt(place, spread(end, place, {1}));
  Value hit = eq(broadcast_in_dim(target, cube, {0, 1}), iota(x.program(), {DType::kS64, cube}, 2));
  hit = hit & broadcast_in_dim(valid, cube, {0, 1});
  Value is_target = reduce_or(hit, {1});
  Value by_class = broadcast_in_dim(x, cube, {0, 2});
  Value of_target = reduce_sum(select(hit, by_class, zeros_like(by_class)), {2});
  Value z = 1.0 - broadcast_in_dim(of_target, cube, {0, 1}) + by_class;
  Value counts =
      broadcast_in_dim(valid, cube, {0, 1}) & not_(broadcast_in_dim(is_target, cube, {0, 2})) & gt(z, 0);
  return {hit, valid, is_target, z, counts};
}

Results multilabel_margin(Args& a) {
  const Dims sizes = a.dims(0), targets = a.dims(1);
  TORCH_CHECK(
      sizes.size() < 3 && (sizes.empty() || sizes.back() != 0),
      "multilabel_margin_loss: expected a non-empty vector or matrix with optional 0-dim batch size, got ",
      c10::IntArrayRef(sizes));
  TORCH_CHECK(sizes.size() == 2 ? targets == sizes : targets.size() < 2 && a[1].numel() == a[0].numel(),
              "multilabel_margin_loss: expected a target of the input's size ", c10::IntArrayRef(sizes),
              ", got ", c10::IntArrayRef(targets));
  Value x = widen(a[0]);
  int64_t c = x.rank() == 0 ? 1 : x.dim(x.rank() - 1), n = x.rank() < 2 ? 1 : x.dim(0);
  Value target = reshape(convert(a[1], DType::kS64), {n, c});
  Value inside = ge(target, -1) & lt(target, static_cast<double>(c));
  a.source().require(reduce_and(inside, all_dims(inside)), "runtime", "target is out of range");
  Labels l = labels(reshape(x, {n, c}), target);
  Value loss = reduce_sum(select(l.counts, l.z, zeros_like(l.z)), {1, 2}) / static_cast<double>(c);
  loss = reduced(loss, a.integer(2));
  if (x.rank() < 2) loss = reshape(loss, {});  // also with reduction="none"
  return {convert(loss, a.dtype(0)), convert(reshape(l.is_target, targets), a.dtype(0))};
}

Value multilabel_margin_backward(Args& a) {
  Value x = widen(a[1]);
  int64_t c = x.rank() == 0 ? 1 : x.dim(x.rank() - 1), n = x.rank() < 2 ? 1 : x.dim(0);
  Labels l = labels(reshape(x, {n, c}), reshape(convert(a[2], DType::kS64), {n, c}));
  Value pair = convert(l.counts, x.dtype());
  Value of_label = spread(reduce_sum(pair, {2}), pair, {2});
  Value slope = reduce_sum(pair, {1}) - reduce_sum(select(l.hit, of_label, zeros_like(of_label)), {1});
  slope = slope / static_cast<double>(c);
  Value grad = convert(a[0], x.dtype());
  if (a.integer(3) == 1) grad = grad / static_cast<double>(n);
  grad = grad.numel() == 1 ? broadcast_to(reshape(grad, {}), slope.dims())
                           : broadcast_in_dim(grad, slope.dims(), {0});
  return convert(reshape(slope * grad, a.dims(1)), a.dtype(1));
}

}  // namespace tpu::lower
