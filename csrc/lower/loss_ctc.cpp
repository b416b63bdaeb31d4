// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification: the chance of all alignments of a sequence of labels with more
// frames.
//
// The labels l of a sample, with a blank before, between and after them, are `extended` [n, 2 s + 1].
// alpha[t, i] is the logarithm of the chance that the first t + 1 frames end at place i, beta[t, i] that the
// others go on from there.
#include <algorithm>
#include <limits>

#include "lower/gather.h"
#include "lower/line.h"
#include "lower/loss.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Of the arguments log_probs [t, n, c], targets [n, s], input_lengths [n], target_lengths [n].
struct Alignment {
  Value chances;         // [t, n, c]
  Value extended;        // kS32 [n, 2 s + 1]
  Value at_label;        // [t, n, 2 s + 1]: the chance of each place's label in each frame
  Value frames, places;  // kS32 [n]: how many frames, and places, a sample has
  Value skips;           // kPred [n, 2 s + 1]: may be reached from two places before
};

Value along_places(Value x, Value like) { return broadcast_in_dim(x, like.dims(), {0}); }

Alignment alignment(Args& a, size_t first, int64_t blank) {
  Alignment r;
  Value targets = convert(a[first + 1], DType::kS32);
  r.chances = widen(a[first]);
  int64_t t = r.chances.dim(0), n = r.chances.dim(1), classes = r.chances.dim(2), s = targets.dim(1);
  r.frames = convert(a[first + 2], DType::kS32);
  Value labels = convert(a[first + 3], DType::kS32);
  r.places = labels * 2.0 + 1.0;
  Value used = lt(iota_like(targets, 1, DType::kS32), along_places(labels, targets));
  Value known = ge(targets, 0) & lt(targets, static_cast<double>(classes));
  if (first == 0)  // the forward pass said it already
    a.source().require(reduce_and(known | not_(used), {0, 1}), "index",
                       "ctc_loss: targets must be labels of log_probs.");
  targets = select(used & known, targets, constant_like(targets, static_cast<double>(blank)));
  Value blank_value = constant(a.program(), {DType::kS32, {}}, blank);
  r.extended = place(targets, blank_value, 1, 2 * s + 1, 1, 2);
  r.at_label = take_along(r.chances, broadcast_in_dim(r.extended, {t, n, 2 * s + 1}, {1, 2}), 2);
  Value before = place(r.extended, blank_value, 1, 2 * s + 1, 2);
  r.skips = ne(r.extended, static_cast<double>(blank)) & ne(r.extended, before);
  return r;
}

// x moved by `by` places along dim 1, impossible ones come in.
Value moved(Value x, int64_t by) {
  return place(by > 0 ? cut(x, 1, 0, std::max<int64_t>(x.dim(1) - by, 0))
                      : cut(x, 1, std::min(-by, x.dim(1)), x.dim(1)),
               constant(x.program(), {x.dtype(), {}}, kNever), 1, x.dim(1), std::max<int64_t>(by, 0));
}

Value log_add(std::vector<Value> xs) {
  Value top = xs[0];
  for (Value x : xs) top = maximum(top, x);
  Value shift = select(is_finite(top), top, zeros_like(top)), sum = zeros_like(top);
  for (Value x : xs) sum = sum + exponential(x - shift);
  return log(sum) + shift;
}

Value impossible(Value like) { return constant_like(like, kNever); }

Value frame(Value x, Value t) {
  Value zero = zeros_like(t);
  return reshape(dynamic_slice(x, {t, zero, zero}, {1, x.dim(1), x.dim(2)}), {x.dim(1), x.dim(2)});
}

Value with_frame(Value x, Value t, Value now) {
  Value zero = zeros_like(t);
  return dynamic_update_slice(x, reshape(now, {1, x.dim(1), x.dim(2)}), {t, zero, zero});
}

// alpha, or beta if `back`: [t, n, places]. A loop carries all that it uses.
Value chain(const Alignment& r, bool back) {
  Value spot = iota_like(r.extended, 1, DType::kS32), some = r.at_label;
  int64_t t = some.dim(0);
  Value places = along_places(r.places, spot), inside = lt(spot, places);
  Value begins = inside & (back ? ge(spot, places - 2.0) : le(spot, 1.0));
  // From i to i + 2 only where i + 2 allows it.
  Value skips =
      back ? cut(place(r.skips, zero_of(r.skips), 1, r.skips.dim(1) + 2, 0), 1, 2, r.skips.dim(1) + 2)
           : r.skips;
  auto step = [t, back](const std::vector<Value>& v) -> std::vector<Value> {
    Value last = v[1], some = v[3], skips = v[4], inside = v[5], begins = v[6], frames = v[7];
    Value at = back ? static_cast<double>(t - 1) - v[0] : v[0];
    Value here = frame(some, at), two = moved(last, back ? -2 : 2);
    Value now = log_add({last, moved(last, back ? -1 : 1), select(skips, two, impossible(two))}) + here;
    Value whole = broadcast_in_dim(at, frames.dims(), {}), none = impossible(here);
    now = select(back ? eq(whole, frames - 1.0) : eq(whole, 0), select(begins, here, none), now);
    now = select(inside & lt(whole, frames), now, none);
    return {v[0] + 1.0, now, with_frame(v[2], at, now), some, skips, inside, begins, frames};
  };
  Value zero = constant(some.program(), {DType::kS32, {}}, 0);
  Value none = constant(some.program(), {some.dtype(), r.extended.dims()}, kNever);
  return while_loop(
      {zero, none, impossible(some), some, skips, inside, begins, along_places(r.frames, spot)},
      [t](const std::vector<Value>& v) { return lt(v[0], static_cast<double>(t)); }, step)[2];
}

}  // namespace

// (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity) -> (loss [n], alpha [n, t,
// places])
Results ctc(Args& a) {
  Alignment r = alignment(a, 0, a.integer(4));
  Value alpha = chain(r, false);
  Value spot = iota_like(alpha, 2, DType::kS32), at = iota_like(alpha, 0, DType::kS32);
  auto full = [&](Value x) { return broadcast_in_dim(x, alpha.dims(), {1}); };
  Value ends = eq(at, full(r.frames) - 1.0) & lt(spot, full(r.places)) & ge(spot, full(r.places) - 2.0);
  Value chances = select(ends, alpha, impossible(alpha));
  Value top = reduce_max(chances, {0, 2});
  Value shift = select(is_finite(top), top, zeros_like(top));
  Value sum = reduce_sum(exponential(chances - full(shift)), {0, 2});
  Value loss = -(log(sum) + shift);
  // Without frames only the empty sequence is possible.
  loss = select(eq(r.frames, 0), select(eq(r.places, 1.0), zeros_like(loss), -impossible(loss)), loss);
  return {convert(loss, a.dtype(0)), convert(transpose(alpha, {1, 0, 2}), a.dtype(0))};
}

// (grad [n], log_probs, targets, input_lengths, target_lengths, loss, alpha, blank, zero_infinity)
Value ctc_backward(Args& a) {
  Alignment r = alignment(a, 1, a.integer(7));
  DType dtype = r.chances.dtype();
  Value loss = convert(a[5], dtype), alpha = transpose(convert(a[6], dtype), {1, 0, 2}),
        beta = chain(r, true);
  auto along = [&](Value x, Value like) { return broadcast_in_dim(x, like.dims(), {1}); };
  // The share of the alignments that are at a place: alpha and beta both count its own frame.
  Value share = exponential(alpha + beta + along(loss, alpha) - r.at_label);
  Value used = lt(iota_like(alpha, 0, DType::kS32), along(r.frames, alpha)) &
               lt(iota_like(alpha, 2, DType::kS32), along(r.places, alpha)) & is_finite(alpha + beta);
  share = select(used, share, zeros_like(share));
  Value index = broadcast_in_dim(r.extended, alpha.dims(), {1, 2});
  Value slope = exponential(r.chances) - scatter_along(zeros_like(r.chances), index, share, 2, add);
  Value frames = lt(iota_like(slope, 0, DType::kS32), along(r.frames, slope));
  Value result = select(frames, slope * along(convert(a[0], dtype), slope), zeros_like(slope));
  Value possible = along(is_finite(loss), slope);
  Value none = a.flag(8) ? zeros_like(slope) : constant_like(slope, std::numeric_limits<double>::quiet_NaN());
  return convert(select(possible | not_(frames), result, none), a.dtype(1));
}

}  // namespace tpu::lower
