// SPDX-License-Identifier: Apache-2.0
// Recurrent cells. The workspace holds what the backward op needs, as PyTorch's own fused cells lay it out.
#include "lower/cell.h"

namespace tpu::lower {

using namespace tpu::hlo;

// Part `i` of `count` equal parts along dim 1.
static Value part(Value x, int i, int count) {
  int64_t size = x.dim(1) / count;
  return slice_in_dim(x, i * size, (i + 1) * size, 1, 1);
}

static Value biased(Value x, std::optional<Value> bias) {
  return bias ? x + broadcast_to(widen(*bias), x.dims()) : x;
}

static Results in_dtype(Results values, DType dtype) {
  for (Value& v : values)
    if (v) v = convert(v, dtype);
  return values;
}

// Gates in the order input, forget, cell, output.
Results lstm_cell(Args& a) {
  Value gates = biased(widen(a[0]), a.maybe(3)) + biased(widen(a[1]), a.maybe(4));
  Value i = logistic(part(gates, 0, 4)), f = logistic(part(gates, 1, 4));
  Value g = tanh(part(gates, 2, 4)), o = logistic(part(gates, 3, 4));
  Value cy = f * widen(a[2]) + i * g;
  return in_dtype({o * tanh(cy), cy, concatenate({i, f, g, o}, 1)}, a.dtype(0));
}

Results lstm_cell_backward(Args& a) {
  Value cx = widen(a[2]), cy = tanh(widen(a[3])), gates = widen(a[4]);
  Value i = part(gates, 0, 4), f = part(gates, 1, 4), g = part(gates, 2, 4), o = part(gates, 3, 4);
  auto grad = [&](size_t arg) { return a.has(arg) ? widen(a[arg]) : zeros_like(cx); };
  Value grad_hy = grad(0);
  Value grad_cy = grad_hy * o * (1.0 - cy * cy) + grad(1);
  Value grad_gates = concatenate({grad_cy * g * (1.0 - i) * i, grad_cy * cx * (1.0 - f) * f,
                                  grad_cy * i * (1.0 - g * g), grad_hy * cy * (1.0 - o) * o},
                                 1);
  Value bias = a.flag(5) ? reduce_sum(grad_gates, {0}) : Value();
  return in_dtype({grad_gates, grad_cy * f, bias}, a.dtype(4));
}

// Gates in the order reset, update, new.
Results gru_cell(Args& a) {
  Value x = biased(widen(a[0]), a.maybe(3)), h = biased(widen(a[1]), a.maybe(4)), hx = widen(a[2]);
  Value r = logistic(part(x, 0, 3) + part(h, 0, 3)), z = logistic(part(x, 1, 3) + part(h, 1, 3));
  Value hidden = part(h, 2, 3);
  Value n = tanh(part(x, 2, 3) + r * hidden);
  return in_dtype({n + z * (hx - n), concatenate({r, z, n, hx, hidden}, 1)}, a.dtype(0));
}

Results gru_cell_backward(Args& a) {
  Value grad = widen(a[0]), saved = widen(a[1]);
  Value r = part(saved, 0, 5), z = part(saved, 1, 5), n = part(saved, 2, 5), hx = part(saved, 3, 5);
  Value hidden = part(saved, 4, 5);
  Value grad_z = grad * (hx - n) * (1.0 - z) * z;
  Value grad_n = grad * (1.0 - z) * (1.0 - n * n);
  Value grad_r = grad_n * hidden * (1.0 - r) * r;
  Value input = concatenate({grad_r, grad_z, grad_n}, 1),
        hidden_gates = concatenate({grad_r, grad_z, grad_n * r}, 1);
  auto bias = [&](Value gates) { return a.flag(2) ? reduce_sum(gates, {0}) : Value(); };
  return in_dtype({input, hidden_gates, grad * z, bias(input), bias(hidden_gates)}, a.dtype(1));
}

}  // namespace tpu::lower
