// SPDX-License-Identifier: Apache-2.0
// Resizing of images. Each kind is a product of one small matrix per axis, so its gradient is the transposed
// matrices.
#include "lower/resample.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "lower/gather.h"
#include "lower/line.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// What one axis reads: for each tap, a place of the input and a weight for each place of the output.
struct Axis {
  int64_t in, out;
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
};

// T is the type in which PyTorch computes places and weights: that of the data, at least float.
template <class T>
T source_scale(int64_t in, int64_t out, bool align, double scale) {
  if (align) return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  return scale > 0 ? static_cast<T>(1.0 / scale) : static_cast<T>(in) / static_cast<T>(out);
}

template <class T>
T cubic_inner(T t, T a) {
  return ((a + 2) * t - (a + 3)) * t * t + 1;
}
template <class T>
T cubic_outer(T t, T a) {
  return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

template <class T>
Axis nearest_axis(int64_t in, int64_t out, bool exact, double scale) {
  Axis axis{in, out, {std::vector<int64_t>(out)}, {std::vector<double>(out, 1.0)}};
  T step = source_scale<T>(in, out, false, scale);
  if (!exact && (out == in || out == 2 * in))
    step = static_cast<T>(in) / static_cast<T>(out);  // as PyTorch: scale is ignored
  for (int64_t o = 0; o < out; ++o) {
    T at = (static_cast<T>(o) + (exact ? T(0.5) : T(0))) * step;
    axis.places[0][o] = std::min(static_cast<int64_t>(std::floor(at)), in - 1);
  }
  return axis;
}

template <class T>
Axis smooth_axis(int64_t in, int64_t out, bool align, bool cubic, double scale) {
  int taps = cubic ? 4 : 2;
  Axis axis{in, out, std::vector(taps, std::vector<int64_t>(out)),
            std::vector(taps, std::vector<double>(out))};
  T step = source_scale<T>(in, out, align, scale);
  for (int64_t o = 0; o < out; ++o) {
    T at = align ? step * static_cast<T>(o) : step * (static_cast<T>(o) + T(0.5)) - T(0.5);
    if (!cubic) at = std::max(at, T(0));
    int64_t base = static_cast<int64_t>(std::floor(at));
    if (!cubic) base = std::min(base, in - 1);
    T t = at - static_cast<T>(base), a = T(-0.75);
    if (!cubic) t = std::min(t, T(1));
    std::vector<T> weights = cubic ? std::vector<T>{cubic_outer(t + 1, a), cubic_inner(t, a),
                                                    cubic_inner(1 - t, a), cubic_outer(2 - t, a)}
                                   : std::vector<T>{1 - t, t};
    for (int tap = 0; tap < taps; ++tap) {
      axis.places[tap][o] = std::clamp<int64_t>(base + tap - (cubic ? 1 : 0), 0, in - 1);
      axis.weights[tap][o] = weights[tap];
    }
  }
  return axis;
}

// A filter as wide as the step between outputs, so that nothing is skipped when shrinking.
template <class T>
Axis antialias_axis(int64_t in, int64_t out, bool align, bool cubic, double scale) {
  T step = source_scale<T>(in, out, align, scale);
  T half = cubic ? T(2) : T(1), support = step >= 1 ? half * step : half,
    invert = step >= 1 ? 1 / step : T(1);
  auto filter = [&](T x) {
    x = std::abs(x);
    if (!cubic) return x < 1 ? 1 - x : T(0);
    T a = T(-0.5);
    return x < 1 ? cubic_inner(x, a) : x < 2 ? cubic_outer(x, a) : T(0);
  };
  int taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  Axis axis{in, out, std::vector(taps, std::vector<int64_t>(out, 0)),
            std::vector(taps, std::vector<double>(out, 0))};
  for (int64_t o = 0; o < out; ++o) {
    T centre = step * (static_cast<T>(o) + T(0.5));
    int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + T(0.5)), 0);
    int64_t count = std::min(static_cast<int64_t>(centre + support + T(0.5)), in) - first;
    count = std::clamp<int64_t>(count, 0, taps);
    T total = 0;
    std::vector<T> weights(count);
    for (int64_t i = 0; i < count; ++i) {
      weights[i] = filter((static_cast<T>(i + first) - centre + T(0.5)) * invert);
      total += weights[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      axis.places[i][o] = first + i;
      axis.weights[i][o] = total != 0 ? weights[i] / total : weights[i];
    }
  }
  return axis;
}

template <class T>
Axis axis_of(Resample kind, int64_t in, int64_t out, bool align, double scale) {
  switch (kind) {
    case Resample::kNearest:
      return nearest_axis<T>(in, out, false, scale);
    case Resample::kNearestExact:
      return nearest_axis<T>(in, out, true, scale);
    case Resample::kLinear:
      return smooth_axis<T>(in, out, align, false, scale);
    case Resample::kCubic:
      return smooth_axis<T>(in, out, align, true, scale);
    case Resample::kLinearAntialias:
      return antialias_axis<T>(in, out, align, false, scale);
    case Resample::kCubicAntialias:
      return antialias_axis<T>(in, out, align, true, scale);
  }
  return {};
}

// Floats travel as the integers that have their bits: a dense constant is made of integers.
Value float_line(Program& p, const std::vector<double>& numbers, DType dtype) {
  std::vector<int64_t> bits;
  for (double x : numbers) {
    if (dtype == DType::kF64)
      bits.push_back(std::bit_cast<int64_t>(x));
    else
      bits.push_back(std::bit_cast<int32_t>(static_cast<float>(x)));
  }
  Dims dims{static_cast<int64_t>(bits.size())};
  return bitcast_convert(constant(p, dims, bits, dtype == DType::kF64 ? DType::kS64 : DType::kS32), dtype);
}

// The matrix [out, in] of an axis.
Value matrix(Program& p, const Axis& axis, DType dtype) {
  Type type{dtype, {axis.out, axis.in}};
  Value column = iota(p, Type{DType::kS32, type.dims}, 1), sum;
  for (size_t tap = 0; tap < axis.places.size(); ++tap) {
    Value place = broadcast_in_dim(constant(p, {axis.out}, axis.places[tap], DType::kS32), type.dims, {0});
    Value weight = broadcast_in_dim(float_line(p, axis.weights[tap], dtype), type.dims, {0});
    Value part = hlo::select(eq(column, place), weight, zeros_like(weight));
    sum = sum ? sum + part : part;
  }
  return sum;
}

// Whether each input place is read `times` times in a row.
bool repeats(const Axis& axis) {
  if (axis.out % axis.in != 0) return false;
  for (int64_t o = 0; o < axis.out; ++o)
    if (axis.places[0][o] != o / (axis.out / axis.in)) return false;
  return true;
}

bool is_nearest(Resample kind) { return kind == Resample::kNearest || kind == Resample::kNearestExact; }

Value along_axis(Value x, Value matrix, int dim, int contract) {
  DotDims dims{.lhs_contract = {dim}, .rhs_contract = {contract}};
  return move_dim(dot_general(x, matrix, dims, Precision::kHighest), x.rank() - 1, dim);
}

Value resize(Value x, const Axis& axis, int dim, bool nearest) {
  if (!nearest) return along_axis(x, matrix(x.program(), axis, x.dtype()), dim, 1);
  if (!repeats(axis)) return take(x, constant(x.program(), {axis.out}, axis.places[0], DType::kS32), dim);
  Dims dims = x.dims(), result = with_size(x.dims(), dim, axis.out);
  dims.insert(dims.begin() + dim + 1, axis.out / axis.in);
  std::vector<int> positions;
  for (int i = 0; i < x.rank(); ++i) positions.push_back(i <= dim ? i : i + 1);
  return reshape(broadcast_in_dim(x, dims, positions), result);
}

Value resize_backward(Value grad, const Axis& axis, int dim, bool nearest) {
  if (!nearest || !repeats(axis)) return along_axis(grad, matrix(grad.program(), axis, grad.dtype()), dim, 0);
  Dims dims = with_size(grad.dims(), dim, axis.in);
  dims.insert(dims.begin() + dim + 1, axis.out / axis.in);
  return reduce_sum(reshape(grad, dims), {dim + 1});
}

// The axes between sizes `in` and `out` of the spatial dims; what follows the sizes at `next` are the
// options.
std::vector<Axis> axes(Args& a, Resample kind, const Dims& in, const Dims& out, size_t next, DType dtype) {
  bool align = is_nearest(kind) ? false : a.flag(next++);
  std::vector<Axis> result;
  for (size_t i = 0; i < in.size(); ++i) {
    double scale = next + i < a.size() && a.has(next + i) ? a.constant(next + i) : 0;
    result.push_back(dtype == DType::kF64 ? axis_of<double>(kind, in[i], out[i], align, scale)
                                          : axis_of<float>(kind, in[i], out[i], align, scale));
  }
  return result;
}

Dims spatial(const Dims& dims) { return Dims(dims.begin() + 2, dims.end()); }

}  // namespace

// Bytes are rounded after each axis, halves up, as PyTorch does it.
Rule upsample(Resample kind) {
  return [kind](Args& a) {
    Value x = a[0];
    for (const Dims& sizes : {spatial(x.dims()), a.ints(1)})
      for (int64_t size : sizes)
        TORCH_CHECK(size > 0, "Input and output sizes should be greater than 0, but got input ",
                    c10::IntArrayRef(x.dims()), " and output ", c10::IntArrayRef(a.ints(1)));
    TORCH_CHECK(x.dim(1) > 0, "Non-empty ", x.rank(), "D data tensor expected but got a tensor with sizes ",
                c10::IntArrayRef(x.dims()));
    bool nearest = is_nearest(kind), rounds = is_integral(x.dtype()) && !nearest;
    if (!nearest) x = rounds ? convert(x, DType::kF32) : widen(x);
    auto plan = axes(a, kind, spatial(x.dims()), a.ints(1), 2, x.dtype());
    for (size_t i = plan.size(); i-- > 0;) {
      x = resize(x, plan[i], static_cast<int>(i) + 2, nearest);
      if (rounds) x = minimum(maximum(floor(x + 0.5), 0.0), 255.0);
    }
    return x;
  };
}

Rule upsample_backward(Resample kind) {
  return [kind](Args& a) {
    Value grad = widen(a[0]);
    auto plan = axes(a, kind, spatial(a.ints(2)), a.ints(1), 3, grad.dtype());
    for (size_t i = 0; i < plan.size(); ++i)
      grad = resize_backward(grad, plan[i], static_cast<int>(i) + 2, is_nearest(kind));
    return grad;
  };
}

}  // namespace tpu::lower
