// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: one dim at a time, moved to the end, where HLO wants it.
#include "lower/fourier.h"

#include <cmath>

#include "lower/line.h"

namespace tpu::lower {

using namespace tpu::hlo;

static std::vector<int> dims_of(Args& a, int rank) {
  std::vector<int> dims;  // in the given order: the last one is the one that is halved
  for (int64_t d : a.ints(1)) dims.push_back(wrap_dim(d, rank));
  return dims;
}

// An unscaled transform along dim. HLO's inverse ones divide by the length.
static Value along(Value x, int dim, Fft kind, int64_t length) {
  int last = x.rank() - 1;
  x = fft(move_dim(x, dim, last), kind, {length});
  if (kind == Fft::kIfft || kind == Fft::kIrfft) x = x * static_cast<double>(length);
  return move_dim(x, last, dim);
}

// PyTorch's normalization: 0: none, 1: by the root of the number of elements, 2: by that number.
static Value normalized(Value x, int64_t kind, double count) {
  if (kind == 0) return x;
  return x / (kind == 1 ? std::sqrt(count) : count);
}

static double count_of(const Dims& dims, const std::vector<int>& over) {
  double count = 1;
  for (int d : over) count *= static_cast<double>(dims[d]);
  return count;
}

Value fft_c2c(Args& a) {
  Value x = a[0];
  if (x.numel() == 0) return x;
  auto dims = dims_of(a, x.rank());
  for (int d : dims) x = along(x, d, a.flag(3) ? Fft::kFft : Fft::kIfft, x.dim(d));
  return normalized(x, a.integer(2), count_of(x.dims(), dims));
}

Value fft_r2c(Args& a) {
  Value x = widen(a[0]);
  auto dims = dims_of(a, x.rank());
  double count = count_of(x.dims(), dims);
  size_t rest = dims.size();
  if (a.flag(3)) {
    int last = dims.back();
    x = along(x, last, Fft::kRfft, x.dim(last));
    --rest;
  } else {
    x = convert(x, complex_of(x.dtype()));
  }
  for (size_t i = 0; i < rest; ++i) x = along(x, dims[i], Fft::kFft, x.dim(dims[i]));
  return normalized(x, a.integer(2), count);
}

Value fft_c2r(Args& a) {
  Value x = a[0];
  auto dims = dims_of(a, x.rank());
  int last = dims.back();
  int64_t size = a.integer(3), needed = size / 2 + 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) x = along(x, dims[i], Fft::kIfft, x.dim(dims[i]));
  if (x.dim(last) > needed)
    x = cut(x, last, 0, needed);
  else if (x.dim(last) < needed)
    x = place(x, zero_of(x), last, needed, 0);
  x = along(x, last, Fft::kIrfft, size);
  return normalized(x, a.integer(2), count_of(x.dims(), dims));
}

}  // namespace tpu::lower
