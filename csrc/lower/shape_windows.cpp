// SPDX-License-Identifier: Apache-2.0
// Sliding windows as tensors, by slices and pads: one for each place in the window.
#include "lower/shape_windows.h"

#include "lower/line.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// The arguments kernel_size, dilation, padding, stride from `first` on, for an image of these sizes.
struct Windows {
  Windows(Args& a, size_t first, int64_t height, int64_t width)
      : kernel(a.ints(first, 2)),
        dilation(a.ints(first + 1, 2)),
        padding(a.ints(first + 2, 2)),
        stride(a.ints(first + 3, 2)),
        padded{height + 2 * padding[0], width + 2 * padding[1]} {
    for (int i = 0; i < 2; ++i)
      count.push_back((padded[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
  }
  Dims kernel, dilation, padding, stride, padded, count;
};

}  // namespace

// (self, kernel_size, dilation, padding, stride): [N, C, H, W] -> [N, C kh kw, windows]
Value im2col(Args& a) {
  Value x = a[0];
  bool batched = x.rank() == 4;
  if (!batched) x = unsqueeze(x, 0);
  Windows w(a, 1, x.dim(2), x.dim(3));
  int64_t n = x.dim(0), c = x.dim(1);
  Dims sides{0, 0, w.padding[0], w.padding[1]};
  x = pad(x, zero_of(x), sides, sides);
  std::vector<Value> parts;
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      int64_t top = i * w.dilation[0], left = j * w.dilation[1];
      Value part =
          slice(x, {0, 0, top, left},
                {n, c, top + (w.count[0] - 1) * w.stride[0] + 1, left + (w.count[1] - 1) * w.stride[1] + 1},
                {1, 1, w.stride[0], w.stride[1]});
      parts.push_back(reshape(part, {n, c, 1, w.count[0] * w.count[1]}));
    }
  Value all = parts.size() == 1 ? parts[0] : concatenate(parts, 2);
  Dims result{c * w.kernel[0] * w.kernel[1], w.count[0] * w.count[1]};
  if (batched) result.insert(result.begin(), n);
  return reshape(all, result);
}

// (self, output_size, kernel_size, dilation, padding, stride): the sum of the windows at their places.
Value col2im(Args& a) {
  Value x = widen(a[0]);
  bool batched = x.rank() == 3;
  if (!batched) x = unsqueeze(x, 0);
  Dims size = a.ints(1, 2);
  Windows w(a, 2, size[0], size[1]);
  int64_t n = x.dim(0), places = w.kernel[0] * w.kernel[1], c = x.dim(1) / places;
  x = reshape(x, {n, c, places, w.count[0], w.count[1]});
  Value sum;
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      int64_t spot = i * w.kernel[1] + j;
      Value part = squeeze(cut(x, 2, spot, spot + 1), 2);
      part = place(part, zero_of(part), 2, size[0], i * w.dilation[0] - w.padding[0], w.stride[0]);
      part = place(part, zero_of(part), 3, size[1], j * w.dilation[1] - w.padding[1], w.stride[1]);
      sum = sum ? sum + part : part;
    }
  return batched ? sum : squeeze(sum, 0);
}

// (grad_in, input_sizes, dim, size, step). The windows are cut into blocks of `step` elements: block b of
// window w belongs to block w + b of the result.
Value unfold_backward(Args& a) {
  Value grad = widen(a[0]);
  Dims sizes = a.ints(1);
  if (sizes.empty()) return reshape(grad, {});
  int dim = a.dim(2, static_cast<int>(sizes.size())), last = grad.rank() - 1;
  int64_t size = a.integer(3), step = a.integer(4), windows = grad.dim(dim);
  int64_t blocks = std::max<int64_t>(1, (size + step - 1) / step);
  Value zero = zero_of(grad);
  grad = move_dim(place(grad, zero, last, blocks * step, 0), last,
                  dim + 1);  // [..., windows, blocks * step, ...]
  Value sum;
  for (int64_t b = 0; b < blocks; ++b) {
    Value block = place(cut(grad, dim + 1, b * step, (b + 1) * step), zero, dim, windows + blocks - 1, b);
    sum = sum ? sum + block : block;
  }
  Value flat = reshape(sum, with_size(sizes, dim, (windows + blocks - 1) * step));
  return place(flat, zero, dim, sizes[dim], 0);
}

}  // namespace tpu::lower
