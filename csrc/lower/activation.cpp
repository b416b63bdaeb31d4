// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients.
#include <cmath>

#include "lower/pointwise.h"
#include "lower/random.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// A gradient rule: the gradient, and what the forward took or gave, in opmath and of one shape.
struct Pair {
  Value g, x;
};

Pair gradient(Args& a, size_t g = 0, size_t x = 1) {
  auto xs = a.promoted_wide({g, x});
  return {xs[0], xs[1]};
}

Value only_where(Value condition, Value x) { return select(condition, x, zeros_like(x)); }

// ---- elu

// 1: alpha, 2: scale, 3: input_scale.
Value elu(Args& a) {
  Value x = a.floating(0), scale = a.scalar_like(2, x);
  Value low = exponential_minus_one(x * a.scalar_like(3, x)) * (a.scalar_like(1, x) * scale);
  return select(le(x, 0.0), low, x * scale);
}

// (grad, alpha, scale, input_scale, is_result, self_or_result)
Value elu_backward(Args& a) {
  auto [g, x] = gradient(a, 0, 5);
  Value scale = a.scalar_like(2, x), input_scale = a.scalar_like(3, x), low = a.scalar_like(1, x) * scale;
  Value slope = a.flag(4) ? x + low : low * exponential(x * input_scale);
  return select(le(x, 0.0), g * input_scale * slope, g * scale);
}

// ---- gelu

constexpr double kTanhFactor = M_SQRT2 * M_2_SQRTPI * 0.5, kCubic = 0.044715;

Value gelu(Args& a) {
  Value x = a.floating(0);
  if (a.string(1) == "tanh") return 0.5 * x * (1 + tanh(kTanhFactor * (x + kCubic * (x * x * x))));
  return x * 0.5 * (1 + erf(x * M_SQRT1_2));
}

Value gelu_backward(Args& a) {
  auto [g, x] = gradient(a);
  if (a.string(2) == "tanh") {
    Value t = tanh(kTanhFactor * (x + kCubic * (x * x * x)));
    Value inner = kTanhFactor * (1 + 3 * kCubic * (x * x));
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
  }
  Value cdf = 0.5 * (1 + erf(x * M_SQRT1_2));
  Value pdf = exponential(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return g * (cdf + x * pdf);
}

// ---- glu

Pair halves(Value x, int dim) {
  int64_t half = x.dim(dim) / 2;
  return {slice_in_dim(x, 0, half, 1, dim), slice_in_dim(x, half, 2 * half, 1, dim)};
}

Value glu(Args& a) {
  Value x = a.floating(0);
  auto [value, gate] = halves(x, a.dim(1, x.rank()));
  return value * logistic(gate);
}

Value glu_backward(Args& a) {
  Value g = a.floating(0), x = a.floating(1);
  int dim = a.dim(2, x.rank());
  auto [value, gate] = halves(x, dim);
  Value s = logistic(gate);
  return concatenate({s * g, (1 - s) * s * g * value}, dim);
}

// (glu, x, dx, dim)
Value glu_jvp(Args& a) {
  Value y = a.floating(0), x = a.floating(1), dx = a.floating(2);
  int dim = a.dim(3, x.rank());
  Value s = logistic(halves(x, dim).x);
  auto [dvalue, dgate] = halves(dx, dim);
  return dvalue * s + dgate * (y - s * y);
}

// ---- piecewise linear ones

Value hardshrink(Args& a) {
  Value x = a[0], lambd = a.scalar_like(1, x);
  return select(ge(x, -lambd) & le(x, lambd), zeros_like(x), x);
}

// Also of softshrink: (grad, self, lambd). Compares in bf16 if self is that, as the CPU does.
Value shrink_backward(Args& a) {
  auto xs = a.promoted({0, 1});
  Value g = xs[0], x = xs[1], lambd = a.scalar_like(2, x);
  return select(ge(x, -lambd) & le(x, lambd), zeros_like(g), g);
}

Value softshrink(Args& a) {
  Value x = a.floating(0), lambd = a.scalar_like(1, x);
  return select(gt(x, lambd), x - lambd, select(lt(x, -lambd), x + lambd, x * 0.0));  // NaN stays
}

Value hardsigmoid(Args& a) {
  Value x = a.floating(0);
  return minimum(maximum(x + 3, 0.0), 6.0) / 6;
}

Value hardsigmoid_backward(Args& a) {
  auto [g, x] = gradient(a);
  return only_where(gt(x, -3.0) & lt(x, 3.0), g / 6);
}

Value hardswish(Args& a) {
  Value x = a.floating(0);
  return x * minimum(maximum(x + 3, 0.0), 6.0) / 6;
}

Value hardswish_backward(Args& a) {
  auto [g, x] = gradient(a);
  return select(le(x, -3.0), zeros_like(g), select(lt(x, 3.0), g * (x / 3 + 0.5), g));
}

Value hardtanh(Args& a) {
  Value x = a[0];
  return minimum(maximum(x, a.scalar_like(1, x)), a.scalar_like(2, x));
}

Value hardtanh_backward(Args& a) {
  auto [g, x] = gradient(a);
  return select(le(x, a.scalar_like(2, x)) | ge(x, a.scalar_like(3, x)), zeros_like(g), g);
}

Value leaky_relu(Args& a) {
  Value x = a.floating(0);
  return select(gt(x, 0.0), x, x * a.scalar_like(1, x));
}

Value leaky_relu_backward(Args& a) {
  auto [g, x] = gradient(a);
  return select(gt(x, 0.0), g, g * a.scalar_like(2, g));
}

Value prelu(Args& a) {
  auto [x, weight] = gradient(a);
  return select(gt(x, 0.0), x, weight * x);
}

Results prelu_backward(Args& a) {
  auto xs = a.promoted_wide({0, 1, 2});
  Value g = xs[0], x = xs[1], positive = gt(x, 0.0);
  return {select(positive, g, xs[2] * g), select(positive, zeros_like(g), x * g)};
}

Value threshold(Args& a) {
  Value x = a[0];
  return select(le(x, a.scalar_like(1, x)), a.scalar_like(2, x), x);
}

Value threshold_backward(Args& a) {
  auto xs = a.promoted({0, 1});
  return select(le(xs[1], a.scalar_like(2, xs[1])), zeros_like(xs[0]), xs[0]);
}

// rrelu in training: a slope drawn from [lower, upper) for each x <= 0. Args: self, noise, lower, upper,
// training, generator.
Results rrelu_with_noise(Args& a) {
  Value x = a.floating(0), low = a.scalar_like(2, x), high = a.scalar_like(3, x);
  if (!a.flag(4)) return {select(gt(x, 0.0), x, x * (low + high) * 0.5), a[1]};
  Value slope = low + (high - low) * uniform(a, 5, x.type());
  Value noise = select(le(x, 0.0), slope, ones_like(x));
  return {x * noise, noise};
}

// ---- smooth ones

// The second result, e^-|x|, is what the CPU keeps for its gradient.
Results log_sigmoid(Args& a) {
  Value x = a.floating(0), z = exponential(-abs(x));
  return {minimum(x, 0.0) - log_plus_one(z), z};
}

// Does not trust the buffer, which is empty if the forward ran elsewhere.
Value log_sigmoid_backward(Args& a) {
  auto [g, x] = gradient(a);
  return g * logistic(-x);
}

Value logit_backward(Args& a) {
  auto [g, x] = gradient(a);
  Value slope = g / (x * (1 - x));
  if (a.has(2)) {
    Value low = a.scalar_like(2, x);
    return select(lt(x, low) | gt(x, 1 - low), zeros_like(g), slope);
  }
  return select(lt(x, 0.0) | gt(x, 1.0), nan_like(g), slope);
}

Value mish(Value x) { return x * tanh(log1p_exp(x)); }

Value mish_backward(Args& a) {
  auto [g, x] = gradient(a);
  Value t = tanh(log1p_exp(x));
  return g * (t + x * logistic(x) * (1 - t * t));
}

Value sigmoid_backward(Args& a) {
  auto [g, y] = gradient(a);
  if (is_complex(y.dtype())) return g * conj((1 - y) * y);
  return g * (1 - y) * y;
}

Value tanh_backward(Args& a) {
  auto [g, y] = gradient(a);
  Value slope = 1 - y * y;
  return g * (is_complex(slope.dtype()) ? conj(slope) : slope);
}

Value silu(Value x) { return x * logistic(x); }

Value silu_backward(Args& a) {
  auto [g, x] = gradient(a);
  Value s = logistic(x);
  return g * s * (1 + x * (1 - s));
}

// 1: beta, 2: threshold.
Value softplus(Args& a) {
  Value x = a.floating(0), beta = a.scalar_like(1, x), y = x * beta;
  return select(gt(y, a.scalar_like(2, x)), x, log1p_exp(y) / beta);
}

Value softplus_backward(Args& a) {
  auto [g, x] = gradient(a);
  Value y = x * a.scalar_like(2, x);
  return select(gt(y, a.scalar_like(3, x)), g, g * logistic(y));
}

}  // namespace

const Table activation_table = {
    {"_prelu_kernel", prelu},
    {"_prelu_kernel_backward", prelu_backward},
    {"elu", elu},
    {"elu_backward", elu_backward},
    {"gelu", gelu},
    {"gelu_backward", gelu_backward},
    {"glu", glu},
    {"glu_backward", glu_backward},
    {"glu_jvp", glu_jvp},
    {"hardshrink", hardshrink},
    {"hardshrink_backward", shrink_backward},
    {"hardsigmoid", hardsigmoid},
    {"hardsigmoid_backward", hardsigmoid_backward},
    {"hardswish", hardswish},
    {"hardswish_backward", hardswish_backward},
    {"hardtanh", hardtanh},
    {"hardtanh_backward", hardtanh_backward},
    {"leaky_relu", leaky_relu},
    {"leaky_relu_backward", leaky_relu_backward},
    {"log_sigmoid_backward", log_sigmoid_backward},
    {"log_sigmoid_forward", log_sigmoid},
    {"logit_backward", logit_backward},
    {"mish", floating(mish)},
    {"mish_backward", mish_backward},
    {"rrelu_with_noise", rrelu_with_noise, kRandom},
    {"rrelu_with_noise_functional", rrelu_with_noise, kRandom},
    {"sigmoid_backward", sigmoid_backward},
    {"silu", floating(silu)},
    {"silu_backward", silu_backward},
    {"softplus", softplus},
    {"softplus_backward", softplus_backward},
    {"softshrink", softshrink},
    {"softshrink_backward", shrink_backward},
    {"tanh_backward", tanh_backward},
    {"threshold", threshold},
    {"threshold_backward", threshold_backward},
};

}  // namespace tpu::lower
