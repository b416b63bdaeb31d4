// SPDX-License-Identifier: Apache-2.0
// Convolution and its gradients: input [n, c, ..], weight [out, in / groups, ..] (transposed: [in, out /
// groups, ..]).
#include "lower/backward.h"
#include "lower/contract.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

struct Geometry {
  Dims stride, padding, dilation;
  int64_t groups;
};

static Dims spatial(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

static ConvDims conv_dims(int rank) {
  ConvDims dims;
  for (int i = 2; i < rank; ++i) {
    dims.lhs_spatial.push_back(i);
    dims.rhs_spatial.push_back(i);
    dims.out_spatial.push_back(i);
  }
  return dims;
}

// Sums run in f32 for halves: an operand that is converted from a half costs a TPU nothing.
static Value convolve(Value x, Value kernel, const ConvDims& dims, const ConvOptions& options) {
  return convolution(widen(x), widen(kernel), dims, options, precision(x.dtype()));
}

// The high padding that makes a correlation of `in` places by a kernel that reaches over `reach` give `out`
// places.
static int64_t high_padding(int64_t in, int64_t low, int64_t reach, int64_t step, int64_t out) {
  return (out - 1) * step + reach - in - low;
}

// y[o] = sum over k of x[o * stride - padding + k * dilation] w[k], for as many places as `out` says.
static Value correlate(Value x, Value weight, const Dims& out, const Geometry& g) {
  ConvOptions options;
  options.stride = g.stride;
  options.rhs_dilation = g.dilation;
  options.feature_groups = g.groups;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t reach = (weight.dims()[i + 2] - 1) * g.dilation[i] + 1;
    options.padding.push_back(
        {g.padding[i], high_padding(x.dims()[i + 2], g.padding[i], reach, g.stride[i], out[i])});
  }
  return convolve(x, weight, conv_dims(x.rank()), options);
}

// weight [g * i, o, ..] as the kernel of the opposite direction, [g * o, i, ..], reversed in space.
static Value reversed(Value weight, int64_t groups) {
  Dims dims = weight.dims();
  int64_t in = dims[0] / groups, out = dims[1];
  std::vector<int> order = {0, 2, 1}, places;
  for (int i = 2; i < weight.rank(); ++i) {
    order.push_back(i + 1);
    places.push_back(i);
  }
  dims.erase(dims.begin());
  dims.insert(dims.begin(), {groups, in});
  Value swapped = transpose(reshape(weight, dims), order);
  dims = weight.dims();
  dims[0] = groups * out;
  dims[1] = in;
  return reverse(reshape(swapped, dims), places);
}

// The adjoint of `correlate` with respect to x: y[o * stride - padding + k * dilation] += x[o] w[k].
static Value spread_out(Value x, Value weight, const Dims& out, const Geometry& g) {
  ConvOptions options;
  options.lhs_dilation = g.stride;
  options.rhs_dilation = g.dilation;
  options.feature_groups = g.groups;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t reach = (weight.dims()[i + 2] - 1) * g.dilation[i] + 1, low = reach - 1 - g.padding[i];
    int64_t dilated = (x.dims()[i + 2] - 1) * g.stride[i] + 1;
    options.padding.push_back({low, high_padding(dilated, low, reach, 1, out[i])});
  }
  return convolve(x, reversed(weight, g.groups), conv_dims(x.rank()), options);
}

// The adjoint of `correlate` with respect to w: dw[k] = sum over o of x[o * stride - padding + k * dilation]
// grad[o]. The batch is what is summed over, so batch and features change places.
static Value kernel_gradient(Value x, Value grad, const Dims& kernel, const Geometry& g) {
  ConvDims dims = conv_dims(x.rank());
  dims.lhs_batch = 1, dims.lhs_feature = 0;
  dims.rhs_input = 0, dims.rhs_output = 1;
  dims.out_batch = 1, dims.out_feature = 0;
  ConvOptions options;
  options.stride = g.dilation;
  options.rhs_dilation = g.stride;
  options.batch_groups = g.groups;
  for (size_t i = 0; i < kernel.size(); ++i) {
    int64_t reach = (grad.dims()[i + 2] - 1) * g.stride[i] + 1, low = g.padding[i];
    options.padding.push_back({low, high_padding(x.dims()[i + 2], low, reach, g.dilation[i], kernel[i])});
  }
  return convolve(x, grad, dims, options);
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
static Value convolution_forward(Args& a) {
  Value x = a[0], weight = a[1];
  size_t n = x.rank() - 2;
  Geometry g = {a.ints(3, n), a.ints(4, n), a.ints(5, n), a.integer(8)};
  bool transposed = a.flag(6);
  Dims more = a.ints(7, n), out(n);
  for (size_t i = 0; i < n; ++i) {
    int64_t reach = (weight.dims()[i + 2] - 1) * g.dilation[i] + 1, in = x.dims()[i + 2];
    out[i] = transposed ? (in - 1) * g.stride[i] - 2 * g.padding[i] + reach + more[i]
                        : (in + 2 * g.padding[i] - reach) / g.stride[i] + 1;
  }
  Value y = transposed ? spread_out(x, weight, out, g) : correlate(x, weight, out, g);
  if (auto bias = a.maybe(2)) y = y + broadcast_in_dim(convert(*bias, y.dtype()), y.dims(), {1});
  return convert(y, x.dtype());
}

// (grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask)
static Results convolution_backward(Args& a) {
  Value grad = a[0], x = a[1], weight = a[2];
  size_t n = x.rank() - 2;
  Geometry g = {a.ints(3, n), a.ints(4, n), a.ints(5, n), a.integer(8)};
  bool transposed = a.flag(6);
  Results out(3);
  if (wants(a, 9, 0)) {
    Dims size = spatial(x.dims());
    out[0] = transposed ? correlate(grad, weight, size, g) : spread_out(grad, weight, size, g);
    out[0] = convert(out[0], x.dtype());
  }
  if (wants(a, 9, 1)) {
    Dims size = spatial(weight.dims());
    out[1] = transposed ? kernel_gradient(grad, x, size, g) : kernel_gradient(x, grad, size, g);
    out[1] = convert(out[1], weight.dtype());
  }
  if (wants(a, 9, 2)) {
    std::vector<int> dims = {0};
    for (int i = 2; i < grad.rank(); ++i) dims.push_back(i);
    out[2] = convert(reduce_sum(widen(grad), dims), grad.dtype());
  }
  return out;
}

const Table conv_table = {
    {"convolution_backward_overrideable", convolution_backward, kNoMeta | kKeepsDtype},
    {"convolution_overrideable", convolution_forward, kNoMeta | kKeepsDtype},
};

}  // namespace tpu::lower
