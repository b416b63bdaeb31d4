// SPDX-License-Identifier: Apache-2.0
// Random ops: each draws counters from its generator, so the seed and the offset determine every bit.
#include "lower/random.h"

#include <cmath>
#include <limits>

#include "lower/pointwise.h"
#include "lower/scan.h"
#include "lower/steps.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

// ---- bits and what is made of them

Value random_bits(Args& a, size_t generator, Type type) {
  if (type.numel() == 0) return constant(a.program(), type, 0);
  c10::IValue none;
  const c10::IValue& from = generator == kDefaultGenerator ? none : a.ivalue(generator);
  Value state = a.source().rng_state(from, static_cast<uint64_t>(type.numel()));
  return rng_bit_generator(state, std::move(type)).second;
}

static bool is_wide(Value bits) { return bits.dtype() == DType::kU64; }

// The `count` upper bits, as a signed integer.
static Value upper_bits(Value bits, int count) {
  int width = is_wide(bits) ? 64 : 32;
  Value kept = shift_right_logical(bits, constant_like(bits, width - count));
  return convert(kept, is_wide(bits) ? DType::kS64 : DType::kS32);
}

Value uniform_from_bits(Value bits) {
  int count = is_wide(bits) ? 53 : 24;
  return convert(upper_bits(bits, count), is_wide(bits) ? DType::kF64 : DType::kF32) *
         std::ldexp(1.0, -count);
}

// All bits count near 0, where a logarithm has its tail; what rounds to 1 becomes the number below it.
Value positive_from_bits(Value bits) {
  int width = is_wide(bits) ? 64 : 32;
  Value u = (convert(bits, is_wide(bits) ? DType::kF64 : DType::kF32) + 0.5) * std::ldexp(1.0, -width);
  return minimum(u, 1 - std::ldexp(1.0, is_wide(bits) ? -53 : -24));
}

// The inverse of the distribution at the odd multiples of 2^-24 (2^-53) in (-1, 1): symmetric, and never
// infinite.
Value normal_from_bits(Value bits) {
  int count = is_wide(bits) ? 53 : 24;
  Value k = upper_bits(bits, count);
  Value odd = k + k + (1 - std::ldexp(1.0, count));
  Value u = convert(odd, is_wide(bits) ? DType::kF64 : DType::kF32) * std::ldexp(1.0, -count);
  // The bound is never reached. It keeps a compiler from joining the product with a sum that follows in the
  // same program, which would give other bits than the op alone.
  return maximum(erf_inv(u) * M_SQRT2, -100.0);
}

static Value bits_for(Args& a, size_t generator, Type type) {
  return random_bits(a, generator,
                     {type.dtype == DType::kF64 ? DType::kU64 : DType::kU32, std::move(type.dims)});
}

Value uniform(Args& a, size_t generator, Type type) {
  return uniform_from_bits(bits_for(a, generator, type));
}

Value normal(Args& a, size_t generator, Type type) { return normal_from_bits(bits_for(a, generator, type)); }

Value exponential_draw(Args& a, size_t generator, Type type) {
  return -log(positive_from_bits(bits_for(a, generator, type)));
}

namespace {

// The type in which numbers for argument 0 are drawn: f32, or f64 if it is that.
Type draw_type(Args& a) {
  return {real_of(a.dtype(0)) == DType::kF64 ? DType::kF64 : DType::kF32, a.dims(0)};
}

// ---- floats

// (self, from, to, generator). Rounding may reach `to`, which does not belong to the interval. Both parts of
// a complex number are drawn.
Value uniform_rule(Args& a) {
  Type type = draw_type(a);
  DType real = real_of(a.dtype(0));
  Value from = a.scalar(1, type.dtype), to = a.scalar(2, type.dtype);
  Value end = convert(to, real), last = next_after(end, convert(from, real));
  auto draw = [&] {
    Value u = uniform(a, 3, type);
    Value x = convert(broadcast_to(from, u.dims()) + u * broadcast_to(to - from, u.dims()), real);
    return select(ge(x, broadcast_to(end, x.dims())), broadcast_to(last, x.dims()), x);
  };
  if (!is_complex(a.dtype(0))) return draw();
  Value re = draw();
  return complex(re, draw());
}

// (self, mean, std, generator). A complex number has half of the variance in each part.
Value normal_rule(Args& a) {
  Type type = draw_type(a);
  Value z;
  if (is_complex(a.dtype(0))) {
    Value re = normal(a, 3, type), im = normal(a, 3, type);
    z = complex(re * M_SQRT1_2, im * M_SQRT1_2);
  } else {
    z = normal(a, 3, type);
  }
  return a.scalar_like(1, z) + z * a.scalar_like(2, z);
}

void require_all(Args& a, Value ok, const char* message) {
  Value line = flatten(ok);
  a.source().require(reduce_and(line, {0}), "runtime", message);
}

// (mean, std, generator): any of the two may be a tensor.
Value normal_of_tensors(Args& a) {
  auto xs = a.promoted_floating({0, 1});
  if (a.ivalue(1).isTensor())
    require_all(a, not_(lt(xs[1], 0.0)), "normal expects all elements of std >= 0.0");
  return xs[0] + normal(a, 2, xs[0].type()) * xs[1];
}

Value exponential_rule(Args& a) {
  Value e = exponential_draw(a, 2, draw_type(a));
  return e / a.scalar_like(1, e);
}

Value cauchy(Args& a) {
  Value u = positive_from_bits(bits_for(a, 3, draw_type(a)));
  return a.scalar_like(1, u) + a.scalar_like(2, u) * tan((u - 0.5) * M_PI);
}

Value geometric(Args& a) {
  Value e = exponential_draw(a, 2, draw_type(a));
  return maximum(ceil(e / -log_plus_one(-a.scalar_like(1, e))), 1.0);
}

Value log_normal(Args& a) {
  Value z = normal(a, 3, draw_type(a));
  return exponential(a.scalar_like(1, z) + z * a.scalar_like(2, z));
}

// ---- booleans

// True with probability p, which has the dims of `type`, or none.
Value bernoulli(Args& a, size_t generator, Value p, const Dims& dims) {
  Value u = uniform(a, generator, {p.dtype(), dims});
  return lt(u, broadcast_to(p, dims));
}

Value probability(Args& a, size_t i) {
  Value p = a.ivalue(i).isTensor() ? a.floating(i) : a.scalar(i, draw_type(a).dtype);
  if (a.ivalue(i).isTensor())
    require_all(a, ge(p, 0.0) & le(p, 1.0), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  return p;
}

// (input, p, train): also the mask of what is kept.
Results native_dropout(Args& a) {
  Value x = a.floating(0);
  if (a.has(2) && !a.flag(2)) return {x, constant(a.program(), {DType::kPred, x.dims()}, 1)};
  DType real = real_of(x.dtype());
  Value keep = 1 - a.scalar(1, real);
  Value mask = bernoulli(a, kDefaultGenerator, keep, x.dims());
  Value scale = select(eq(keep, 0.0), zeros_like(keep), 1 / keep);
  return {x * convert(mask, x.dtype()) * broadcast_to(convert(scale, x.dtype()), x.dims()), mask};
}

// (x, mask, scale)
Value masked_scale(Args& a) {
  Value x = a.floating(0);
  return x * convert(a[1], x.dtype()) * a.scalar_like(2, x);
}

// ---- integers

// from + a number below `range`, of dims of self: 64 random bits where 32 would not do. Both are 0-d kS64;
// ranges are kU64.
Value integers(Args& a, size_t generator, Value from, Value range, bool is_small) {
  DType bits_type = is_small ? DType::kU32 : DType::kU64;
  Value bits = random_bits(a, generator, {bits_type, a.dims(0)});
  Value rest = remainder(bits, broadcast_to(convert(range, bits_type), bits.dims()));
  return convert(rest, DType::kS64) + broadcast_to(from, bits.dims());
}

// The largest integer that random_() gives: all integers up to it are numbers of the dtype.
int64_t largest_integer(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return 1;
    case DType::kS8:
      return INT8_MAX;
    case DType::kU8:
      return UINT8_MAX;
    case DType::kS16:
      return INT16_MAX;
    case DType::kU16:
      return UINT16_MAX;
    case DType::kS32:
      return INT32_MAX;
    case DType::kU32:
      return UINT32_MAX;
    case DType::kF16:
      return 1 << 11;
    case DType::kBF16:
      return 1 << 8;
    case DType::kF32:
      return 1 << 24;
    case DType::kF64:
      return int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}

// `from` is the place of that argument; the others are values. Bounds are operands: another range is no other
// program.
Value random_between(Args& a, size_t generator, int64_t from, Value from_operand, int64_t last,
                     Value last_operand) {
  uint64_t span = static_cast<uint64_t>(last) - static_cast<uint64_t>(from);  // one less than the range
  if (span == UINT64_MAX) return convert(random_bits(a, generator, {DType::kU64, a.dims(0)}), DType::kS64);
  Value range = convert(last_operand - from_operand + 1, DType::kU64);
  return integers(a, generator, from_operand, range, span < UINT32_MAX);
}

Value number(Args& a, int64_t n) { return constant(a.program(), {DType::kS64, {}}, n); }

// (self, generator)
Value random_rule(Args& a) {
  int64_t last = largest_integer(a.dtype(0));
  return random_between(a, 1, 0, number(a, 0), last, number(a, last));
}

// (self, to, generator)
Value random_to(Args& a) {
  return random_between(a, 2, 0, number(a, 0), a.integer(1) - 1, a.scalar(1, DType::kS64) - 1);
}

// (self, from, to or None, generator)
Value random_from(Args& a) {
  int64_t from = a.integer(1);
  Value low = a.scalar(1, DType::kS64);
  if (a.has(2)) return random_between(a, 3, from, low, a.integer(2) - 1, a.scalar(2, DType::kS64) - 1);
  int64_t last = largest_integer(a.dtype(0));
  return random_between(a, 3, from, low, last, number(a, last));
}

// The order of 64 random bits each.
Value randperm(Args& a) {
  int64_t n = a.integer(0);
  Value index = iota(a.program(), {DType::kS32, {n}}, 0);
  if (n < 2) return index;
  Value keys = random_bits(a, 1, {DType::kU64, {n}});
  return sort({keys, index}, 0, false, [](const std::vector<Value>& l, const std::vector<Value>& r) {
    return std::vector<Value>{lt(l[0], r[0])};
  })[1];
}

// ---- multinomial

// Without replacement: the largest of log(p) + Gumbel noise, which is -log of an exponential draw.
Value choose_distinct(Args& a, Value p, int64_t count) {
  Value noise = -log(exponential_draw(a, 3, p.type()));
  Value lowest = -infinity_like(p);
  return top_k(select(gt(p, 0.0), log(p) + noise, lowest), count).second;
}

Value choose(Args& a, Value p, int64_t count) {
  auto later = [](const std::vector<Value>& l, const std::vector<Value>& r) {
    return std::vector<Value>{maximum(l[0], r[0])};
  };
  Value zero = constant(a.program(), {p.dtype(), {}}, 0.0);
  Value sums = scan(p, zero, 1, add);
  // Rounding must not give a step to an entry of probability 0: its sum is that of the entry before it.
  Value steps = scan({select(gt(p, 0.0), sums, zeros_like(p))}, {zero}, 1, later)[0];
  Value total = slice_in_dim(steps, steps.dim(1) - 1, steps.dim(1), 1, 1);
  Value t = uniform(a, 3, {p.dtype(), {p.dim(0), count}}) * broadcast_to(total, {p.dim(0), count});
  Value below = broadcast_to(next_after(total, zeros_like(total)), t.dims());
  return count_up_to(steps, minimum(t, below));
}

// (self, num_samples, replacement, generator): weights are rows, or one row.
Value multinomial(Args& a) {
  Value p = a.floating(0);
  bool one_row = p.rank() == 1;
  if (one_row) p = unsqueeze(p, 0);
  int64_t count = a.integer(1);
  require_all(a, ge(p, 0.0) & is_finite(p), "probability tensor contains either `inf`, `nan` or element < 0");
  require_all(a, gt(reduce_sum(p, {1}), 0.0), "invalid multinomial distribution (sum of probabilities <= 0)");
  Value index = a.flag(2) && count > 1 ? choose(a, p, count) : choose_distinct(a, p, count);
  return one_row ? squeeze(index, 0) : index;
}

}  // namespace

const Table random_table = {
    {"_fused_dropout",
     [](Args& a) {
       Value x = a.floating(0), keep = a.scalar(1, real_of(x.dtype()));
       Value mask = bernoulli(a, 2, keep, x.dims());
       return Results{x * convert(mask, x.dtype()) * broadcast_to(convert(1 / keep, x.dtype()), x.dims()),
                      mask};
     },
     kRandom},
    {"_masked_scale", masked_scale},
    {"_sample_dirichlet", sample_dirichlet, kRandom | kNoMeta},
    {"_standard_gamma", standard_gamma, kRandom},
    {"bernoulli", [](Args& a) { return bernoulli(a, 1, probability(a, 0), a.dims(0)); }, kRandom},
    {"bernoulli.p", [](Args& a) { return bernoulli(a, 2, probability(a, 1), a.dims(0)); }, kRandom},
    {"bernoulli_.Tensor", [](Args& a) { return bernoulli(a, 2, probability(a, 1), a.dims(0)); }, kRandom},
    {"bernoulli_.float", [](Args& a) { return bernoulli(a, 2, probability(a, 1), a.dims(0)); }, kRandom},
    {"binomial", binomial, kRandom | kNoMeta},
    {"cauchy_", cauchy, kRandom},
    {"exponential_", exponential_rule, kRandom},
    {"geometric_", geometric, kRandom},
    {"log_normal_", log_normal, kRandom},
    {"multinomial", multinomial, kRandom},
    {"native_dropout", native_dropout, kRandom},
    {"native_dropout_backward", masked_scale},
    {"normal.Tensor_Tensor", normal_of_tensors, kRandom},
    {"normal.Tensor_float", normal_of_tensors, kRandom},
    {"normal.float_Tensor", normal_of_tensors, kRandom},
    {"normal_", normal_rule, kRandom},
    {"poisson", poisson, kRandom},
    {"random_", random_rule, kRandom},
    {"random_.from", random_from, kRandom},
    {"random_.to", random_to, kRandom},
    {"randperm.generator_out", randperm, kRandom},
    {"uniform_", uniform_rule, kRandom},
};

}  // namespace tpu::lower
