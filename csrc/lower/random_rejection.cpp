// SPDX-License-Identifier: Apache-2.0
// Distributions drawn by rejection: all elements try again until the last one is accepted.
#include <cmath>

#include "lower/pointwise.h"
#include "lower/random.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// What one try of all elements gives: which are accepted, and as what. `kept` goes on to the next try.
struct Try {
  Value accepted, result;
  std::vector<Value> kept;
};

// Draws of one try, from a stream that the loop carries.
class Stream {
 public:
  explicit Stream(Value state) : state_(state) {}
  Value bits(Type type) {
    auto [next, bits] = rng_bit_generator(
        state_, {type.dtype == DType::kF64 ? DType::kU64 : DType::kU32, std::move(type.dims)});
    state_ = next;
    return bits;
  }
  Value positive(Value like) { return positive_from_bits(bits(like.type())); }
  Value normal(Value like) { return normal_from_bits(bits(like.type())); }
  Value state() const { return state_; }

 private:
  Value state_;
};

using Attempt = std::function<Try(Stream&, const std::vector<Value>&)>;

// `result` holds the answer where `done` is true from the start; `carried` is what an attempt sees. The loop
// takes an unknown number of draws, so it gets a stream of its own, whose key is drawn from the generator.
Value until_accepted(Args& a, size_t generator, Value done, Value result, const std::vector<Value>& carried,
                     const Attempt& attempt) {
  if (result.numel() == 0) return result;
  std::vector<Value> init = {random_bits(a, generator, {DType::kU64, {2}}), done, result};
  init.insert(init.end(), carried.begin(), carried.end());
  auto end = while_loop(
      init, [](const std::vector<Value>& v) { return not_(reduce_and(flatten(v[1]), {0})); },
      [&](const std::vector<Value>& v) {
        Stream stream(v[0]);
        std::vector<Value> seen(v.begin() + 3, v.end());
        Try once = attempt(stream, seen);
        std::vector<Value> next = {stream.state(), v[1] | once.accepted, select(v[1], v[2], once.result)};
        next.insert(next.end(), once.kept.begin(), once.kept.end());
        return next;
      });
  return end[2];
}

// Hörmann's transformed rejection: a proposal from a uniform u, squeezed by b, and what a second one, v, is
// compared with.
struct Proposal {
  Value k, v, us, a, b;
};

Proposal propose(Stream& stream, Value a, Value b, Value center) {
  Value u = stream.positive(center) - 0.5, v = stream.positive(center);
  Value us = 0.5 - abs(u);
  return {floor((2 * a / us + b) * u + center), v, us, a, b};
}

// Accepted at once inside the squeeze; else by the ratio of the densities, where k is possible.
Value accept(const Proposal& p, Value squeeze, Value alpha, Value log_density, Value possible) {
  Value quick = ge(p.us, 0.07) & le(p.v, squeeze);
  Value exact = le(log(p.v * alpha / (p.a / (p.us * p.us) + p.b)), log_density);
  return quick | (possible & exact & not_(lt(p.us, 0.013) & gt(p.v, p.us)));
}

// log(k!) less Stirling's formula in k + 1.
Value stirling_rest(Value k) {
  Value r = 1 / (k + 1), r2 = r * r;
  return (1.0 / 12 - (1.0 / 360 - r2 / 1260) * r2) * r;
}

}  // namespace

// (self, generator): below 10, counts the uniforms whose product stays above e^-rate.
Value poisson(Args& a) {
  Value rate = a.floating(0), zero = zeros_like(rate);
  a.source().require(not_(reduce_or(flatten(lt(rate, zero)), {0})), "runtime",
                     "invalid Poisson rate, expected rate to be non-negative");
  Value done = not_(is_finite(rate));
  return until_accepted(
      a, 1, done, select(done, rate, zero), {rate, zero, ones_like(rate)},
      [](Stream& stream, const std::vector<Value>& v) -> Try {
        Value rate = v[0], high = maximum(rate, 10.0), root = sqrt(high);
        Value b = 0.931 + 2.53 * root, a = 0.02483 * b - 0.059;
        Proposal p = propose(stream, a, b, high + 0.43);
        Value k = maximum(p.k, 0.0);
        Value log_density = k * log(high) - high - lgamma(k + 1);
        Value large =
            accept(p, 0.9277 - 3.6224 / (b - 2), 1.1239 + 1.1328 / (b - 3.4), log_density, ge(p.k, 0.0));
        Value product = v[2] * stream.positive(rate);
        Value small = le(product, exponential(-rate));
        Value is_small = lt(rate, 10.0);
        return {select(is_small, small, large), select(is_small, v[1], k), {rate, v[1] + 1, product}};
      });
}

// (count, prob, generator): with few successes, adds up the gaps between them.
Value binomial(Args& a) {
  auto xs = a.promoted_floating({0, 1});
  Value n = xs[0], flipped = gt(xs[1], 0.5), p = select(flipped, 1 - xs[1], xs[1]), zero = zeros_like(n);
  Value done = le(n, zero) | le(p, zero) | is_nan(n) | is_nan(p);
  Value at_once = select(is_nan(n) | is_nan(p), nan_like(n), zero);
  Value successes = until_accepted(
      a, 2, done, at_once, {n, p, zero, zero}, [](Stream& stream, const std::vector<Value>& v) -> Try {
        Value n = v[0], p = v[1], is_small = lt(n * p, 10.0);
        // The elements of the other method try with harmless numbers.
        Value m_n = select(is_small, constant_like(n, 100), n),
              m_p = select(is_small, constant_like(p, 0.5), p);
        Value deviation = sqrt(m_n * m_p * (1 - m_p)), b = 1.15 + 2.53 * deviation;
        Proposal s = propose(stream, 0.0248 * b - 0.0873 + 0.01 * m_p, b, m_n * m_p + 0.5);
        Value k = maximum(minimum(s.k, m_n), zeros_like(n)), m = floor((m_n + 1) * m_p), r = m_p / (1 - m_p);
        Value log_density = (m + 0.5) * log((m + 1) / (r * (m_n - m + 1))) +
                            (m_n + 1) * log((m_n - m + 1) / (m_n - k + 1)) +
                            (k + 0.5) * log(r * (m_n - k + 1) / (k + 1)) + stirling_rest(m) +
                            stirling_rest(m_n - m) - stirling_rest(k) - stirling_rest(m_n - k);
        Value large = accept(s, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * deviation, log_density, eq(k, s.k));
        Value gap = ceil(log(stream.positive(n)) / log_plus_one(-p)), place = v[2] + maximum(gap, 1.0);
        Value small = gt(place, n);
        return {select(is_small, small, large), select(is_small, v[3], k), {n, p, place, v[3] + 1}};
      });
  return select(flipped, maximum(n, zero) - successes, successes);
}

// (self, generator): Marsaglia and Tsang's method, which needs a shape of at least 1; below, one more uniform
// repairs that.
Value standard_gamma(Args& a) {
  Value shape = a.floating(0), below = lt(shape, 1.0);
  Value d = select(below, shape + 1, shape) - 1.0 / 3;
  Value done = not_(gt(shape, 0.0) & is_finite(shape));
  Value at_once = select(eq(shape, 0.0), zeros_like(shape), select(lt(shape, 0.0), nan_like(shape), shape));
  Value drawn =
      until_accepted(a, 1, done, at_once, {d}, [](Stream& stream, const std::vector<Value>& v) -> Try {
        Value d = v[0], x = stream.normal(d), root = 1 + x / (3 * sqrt(d)), cube = root * root * root;
        Value inside = gt(cube, 0.0), safe = select(inside, cube, ones_like(cube));
        Value bound = 0.5 * (x * x) + d - d * safe + d * log(safe);
        return {inside & lt(log(stream.positive(d)), bound), d * cube, {d}};
      });
  Value boost = exponential(-exponential_draw(a, 1, shape.type()) / shape);
  return select(below & not_(done), maximum(drawn * boost, 0x1p-126), drawn);
}

// (self, generator): gamma draws, normalized along the last dim.
Value sample_dirichlet(Args& a) {
  Value g = standard_gamma(a);
  int last = g.rank() - 1;
  return g / spread(reduce_sum(g, {last}), g, {last});
}

}  // namespace tpu::lower
