// SPDX-License-Identifier: Apache-2.0
// Pools over the last 2 or 3 dims: windows of fixed size here, adaptive and fractional ones in
// pool_adaptive.cpp.
#include "lower/pool.h"

#include <algorithm>

#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

// The windows along one dim: window o covers the places start + k * dilation with start = o * stride -
// padding.
struct Axis {
  int dim;
  int64_t in, out, size, stride, padding, dilation;
  int64_t start(int64_t o) const { return o * stride - padding; }
  int64_t reach() const { return (size - 1) * dilation + 1; }
  // What to pad behind the input, so that the last window fits; negative if the windows end before it does.
  int64_t high() const { return (out - 1) * stride + reach() - in - padding; }
};

// Arguments `first` to first + 3 (+ 1): kernel_size, stride, padding, and with `dilated` dilation; then
// ceil_mode.
static std::vector<Axis> axes(Args& a, const Dims& dims, size_t n, size_t first, bool dilated) {
  Dims size = a.ints(first, n), stride = a.ints(first + 1, n), padding = a.ints(first + 2, n);
  if (stride.empty()) stride = size;
  Dims dilation = dilated ? a.ints(first + 3, n) : Dims(n, 1);
  bool ceil = a.flag(first + 3 + dilated);
  std::vector<Axis> axes;
  for (size_t i = 0; i < n; ++i) {
    int dim = static_cast<int>(dims.size() - n + i);
    Axis x = {dim, dims[dim], 0, size[i], stride[i], padding[i], dilation[i]};
    int64_t room = x.in + 2 * x.padding - x.reach();
    x.out = (room + (ceil ? x.stride - 1 : 0)) / x.stride + 1;
    // A window may not start in the padding behind the input.
    if (ceil && (x.out - 1) * x.stride >= x.in + x.padding) --x.out;
    axes.push_back(x);
  }
  return axes;
}

static Value padded(Value x, Value fill, int dim, int64_t low, int64_t high, int64_t interior = 0) {
  Dims lows(x.rank(), 0), highs = lows, interiors = lows;
  lows[dim] = low, highs[dim] = high, interiors[dim] = interior;
  return pad(x, fill, lows, highs, interiors);
}

static Value zero(Value x) { return constant(x.program(), {x.dtype(), {}}, 0); }

// A constant along one dim of `dims`.
static Value along(Program& p, const Dims& dims, int dim, const std::vector<int64_t>& values, DType dtype) {
  Value line = constant(p, Dims{static_cast<int64_t>(values.size())}, values, DType::kS64);
  return broadcast_in_dim(convert(line, dtype), dims, {dim});
}

// ---- maximum: one dim after the other, carrying the flat index of the maximum within the plane

// As on the CPU: the first place inside the input, then any later one that is greater or NaN.
static Winner window_max(Winner w, const Axis& x) {
  Dims dims = w.value.dims();
  dims[x.dim] = x.out;
  int64_t high = std::max<int64_t>(x.high(), 0);
  w.value = padded(w.value, lowest(w.value.program(), w.value.dtype()), x.dim, x.padding, high);
  w.index = padded(w.index, zero(w.index), x.dim, x.padding, high);
  Winner best;
  for (int64_t k = 0; k < x.size; ++k) {
    int64_t begin = k * x.dilation;
    auto tap = [&](Value v) {
      return slice_in_dim(v, begin, begin + (x.out - 1) * x.stride + 1, x.stride, x.dim);
    };
    Winner next = {tap(w.value), tap(w.index)};
    if (k == 0) {
      best = next;
      continue;
    }
    std::vector<int64_t> first(x.out);  // whether all taps before lie in the padding
    for (int64_t o = 0; o < x.out; ++o) first[o] = x.start(o) + begin - x.dilation < 0;
    Value better = gt(next.value, best.value) | is_nan(next.value);
    if (std::find(first.begin(), first.end(), 1) != first.end())
      better = better | along(w.value.program(), dims, x.dim, first, DType::kPred);
    best = {select(better, next.value, best.value), select(better, next.index, best.index)};
  }
  return best;
}

// ---- sums

static Value window_sum(Value x, const std::vector<Axis>& axes) {
  Window w;
  w.size = w.stride = Dims(x.rank(), 1);
  w.padding.resize(x.rank());
  for (const Axis& axis : axes) {
    // Negative padding is not for windows: cut the input instead.
    if (axis.high() < 0) x = slice_in_dim(x, 0, axis.in + axis.high(), 1, axis.dim);
    w.size[axis.dim] = axis.size;
    w.stride[axis.dim] = axis.stride;
    w.padding[axis.dim] = {axis.padding, std::max<int64_t>(axis.high(), 0)};
  }
  return reduce_window(x, zero(x), w, add);
}

// What each window is divided by.
static Value divisor(Value sums, const std::vector<Axis>& axes, bool count_padding, int64_t override) {
  if (override != 0) return constant(sums.program(), sums.type(), override);
  Value product = ones_like(sums);
  for (const Axis& x : axes) {
    std::vector<int64_t> counts(x.out);
    for (int64_t o = 0; o < x.out; ++o) {
      int64_t begin = x.start(o), end = std::min(begin + x.size, x.in + x.padding);
      counts[o] = count_padding ? end - begin : std::min(end, x.in) - std::max<int64_t>(begin, 0);
    }
    product = product * along(sums.program(), sums.dims(), x.dim, counts, sums.dtype());
  }
  return product;
}

// (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) over n dims
static Rule avg_pool(size_t n) {
  return [n](Args& a) {
    Value x = widen(a[0]);
    auto windows = axes(a, x.dims(), n, 1, false);
    Value sums = window_sum(x, windows);
    return sums / divisor(sums, windows, a.flag(5), a.integer_or(6, 0));
  };
}

// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
static Rule avg_pool_backward(size_t n) {
  return [n](Args& a) {
    Value grad = widen(a[0]);
    auto windows = axes(a, a.dims(1), n, 2, false);
    grad = grad / divisor(grad, windows, a.flag(6), a.integer_or(7, 0));
    // Each input place collects the windows that cover it: those are a window of size `size` in the dilated
    // gradient.
    Window w;
    w.size = w.stride = Dims(grad.rank(), 1);
    w.padding.resize(grad.rank());
    for (const Axis& x : windows) {
      int64_t low = x.size - 1 - x.padding, length = (x.out - 1) * x.stride + 1;
      grad = padded(grad, zero(grad), x.dim, low, x.in + x.size - 1 - length - low, x.stride - 1);
      w.size[x.dim] = x.size;
    }
    return reduce_window(grad, zero(grad), w, add);
  };
}

// ---- the rules of max pools

Winner each_place(Value x, size_t n) {
  Value index = zeros_like(convert(x, DType::kS32));
  int64_t step = 1;
  for (int dim = x.rank() - 1; dim >= x.rank() - static_cast<int>(n); --dim) {
    index = index + iota_like(x, dim, DType::kS32) * static_cast<double>(step);
    step *= x.dim(dim);
  }
  return {x, index};
}

// (self, kernel_size, stride, padding, dilation, ceil_mode) -> (output, indices)
static Rule max_pool(size_t n) {
  return [n](Args& a) -> Results {
    Value x = a[0];
    auto windows = axes(a, x.dims(), n, 1, true);
    Winner w = each_place(x, n);
    for (size_t i = n; i-- > 0;) w = window_max(w, windows[i]);
    return {w.value, w.index};
  };
}

// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
static Rule max_pool_backward(size_t n) {
  return [n](Args& a) {
    Value grad = widen(a[0]), indices = convert(a[7], DType::kS32);
    Dims dims = a.dims(1);
    auto windows = axes(a, dims, n, 2, true);
    int64_t taps = 1;
    for (const Axis& x : windows) taps *= x.size;
    // A few taps: each place of the window is compared with the index and put back in its place. Many: a
    // scatter.
    if (taps > 32) return scatter_planes(grad, indices, dims, n, add);
    Value total;
    for (int64_t tap = 0; tap < taps; ++tap) {
      Value place = zeros_like(indices), part;
      int64_t rest = tap, step = 1;
      std::vector<int64_t> offsets(n);
      for (size_t i = n; i-- > 0;) {
        const Axis& x = windows[i];
        offsets[i] = rest % x.size * x.dilation;
        rest /= x.size;
        Value at = iota_like(indices, x.dim, DType::kS32) * static_cast<double>(x.stride);
        place = place + (at + static_cast<double>(offsets[i] - x.padding)) * static_cast<double>(step);
        step *= x.in;
      }
      part = select(eq(place, indices), grad, zeros_like(grad));
      for (size_t i = 0; i < n; ++i) {
        const Axis& x = windows[i];
        int64_t low = offsets[i] - x.padding, length = (x.out - 1) * x.stride + 1;
        part = padded(part, zero(part), x.dim, low, x.in - length - low, x.stride - 1);
      }
      total = total ? total + part : part;
    }
    return total;
  };
}

const Table pool_table = {
    {"_adaptive_avg_pool2d", adaptive_avg_pool(2)},
    {"_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward(2)},
    {"_adaptive_avg_pool3d", adaptive_avg_pool(3)},
    {"_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward(3)},
    {"adaptive_max_pool2d", adaptive_max_pool(2)},
    {"adaptive_max_pool2d_backward", pool_backward_by_index(2, 2)},
    {"adaptive_max_pool3d", adaptive_max_pool(3)},
    {"adaptive_max_pool3d_backward", pool_backward_by_index(3, 2)},
    {"avg_pool2d", avg_pool(2)},
    {"avg_pool2d_backward", avg_pool_backward(2)},
    {"avg_pool3d", avg_pool(3)},
    {"avg_pool3d_backward", avg_pool_backward(3)},
    {"fractional_max_pool2d", fractional_max_pool(2)},
    {"fractional_max_pool2d_backward", pool_backward_by_index(2, 4)},
    {"fractional_max_pool3d", fractional_max_pool(3)},
    {"fractional_max_pool3d_backward", pool_backward_by_index(3, 4), kNoMeta},
    {"max_pool2d_with_indices", max_pool(2)},
    {"max_pool2d_with_indices_backward", max_pool_backward(2)},
    {"max_pool3d_with_indices", max_pool(3)},
    {"max_pool3d_with_indices_backward", max_pool_backward(3)},
    {"max_unpool2d", max_unpool(2)},
    {"max_unpool3d", max_unpool(3)},
};

}  // namespace tpu::lower
