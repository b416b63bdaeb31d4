// SPDX-License-Identifier: Apache-2.0
// Sampling an image at computed points: a product of taps along each axis, in 2 or 3 dims.
#include "lower/grid.h"

#include "lower/line.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

enum Interpolation { kBilinear, kNearest, kBicubic };
enum Padding { kZeros, kBorder, kReflection };

// One element that a point reads along an axis. Each value has the dims of the points, and is floating.
struct Tap {
  Value place, weight, slope;  // slope: of the weight, by the coordinate in the grid
};

// A coordinate in elements, and how it grows with the coordinate in the grid.
struct Coordinate {
  Value at, slope;
};

Coordinate clipped(Coordinate c, int64_t size) {
  double top = static_cast<double>(size - 1);
  Value inside = and_(gt(c.at, 0.0), lt(c.at, top));
  return {minimum(maximum(c.at, 0.0), top), hlo::select(inside, c.slope, zeros_like(c.slope))};
}

Coordinate reflected(Coordinate c, int64_t size, bool align) {
  double low = align ? 0 : -0.5, span = static_cast<double>(align ? size - 1 : size);
  if (span == 0) return {zeros_like(c.at), zeros_like(c.at)};
  Value from_low = c.at - low, distance = abs(from_low);
  Value flips = floor(distance / span);
  Value extra = distance - flips * span;
  Value even = eq(flips - floor(flips / 2.0) * 2.0, 0.0);
  Value forward = eq(even, ge(from_low, 0.0));
  return {hlo::select(even, extra + low, (span + low) - extra), hlo::select(forward, c.slope, -c.slope)};
}

Coordinate padded(Coordinate c, int64_t size, int padding, bool align) {
  if (padding == kBorder) return clipped(c, size);
  if (padding == kReflection) return clipped(reflected(c, size, align), size);
  return c;
}

// Grid coordinates run from -1 to 1: between the centres of the outer elements if aligned, else between their
// edges.
Coordinate unnormalized(Value grid, int64_t size, bool align) {
  double n = static_cast<double>(size);
  if (align) return {(grid + 1.0) * ((n - 1) / 2), constant_like(grid, (n - 1) / 2)};
  return {((grid + 1.0) * n - 1.0) / 2.0, constant_like(grid, n / 2)};
}

// The cubic convolution of the inner and the outer two taps, and its derivative.
constexpr double kA = -0.75;
Value inner(Value t) { return (t * (kA + 2) - (kA + 3)) * t * t + 1.0; }
Value inner_slope(Value t) { return (t * (3 * (kA + 2)) - 2 * (kA + 3)) * t; }
Value outer(Value t) { return ((t * kA - 5 * kA) * t + 8 * kA) * t - 4 * kA; }
Value outer_slope(Value t) { return (t * (3 * kA) - 10 * kA) * t + 8 * kA; }

std::vector<Tap> taps(Value grid, int64_t size, int interpolation, int padding, bool align) {
  Coordinate c = unnormalized(grid, size, align);
  std::vector<Tap> result;
  if (interpolation == kNearest) {
    c = padded(c, size, padding, align);
    result = {{round_nearest_even(c.at), ones_like(c.at), zeros_like(c.at)}};
  } else if (interpolation == kBilinear) {
    c = padded(c, size, padding, align);
    Value base = floor(c.at), t = c.at - base;
    result = {{base, 1.0 - t, -c.slope}, {base + 1.0, t, c.slope}};
  } else {
    Value base = floor(c.at), t = c.at - base, r = 1.0 - t;
    result = {{base - 1.0, outer(t + 1.0), outer_slope(t + 1.0) * c.slope},
              {base, inner(t), inner_slope(t) * c.slope},
              {base + 1.0, inner(r), -inner_slope(r) * c.slope},
              {base + 2.0, outer(r + 1.0), -outer_slope(r + 1.0) * c.slope}};
    for (Tap& tap : result) tap.place = padded({tap.place, tap.slope}, size, padding, align).at;
  }
  for (Tap& tap : result) {  // what lies outside counts as zero
    double top = static_cast<double>(size - 1);
    Value inside = and_(ge(tap.place, 0.0), le(tap.place, top));
    tap.weight = hlo::select(inside, tap.weight, zeros_like(tap.weight));
    tap.slope = hlo::select(inside, tap.slope, zeros_like(tap.slope));
    tap.place = convert(hlo::select(inside, tap.place, zeros_like(tap.place)), DType::kS32);
  }
  return result;
}

// A sampler over an image [N, C, spatial...] seen as [N, places, C], and points [N, P].
struct Sampler {
  Value image;
  Dims spatial;                        // of the image
  std::vector<std::vector<Tap>> axes;  // in the order of `spatial`

  // Calls visit with the place [N, P] in the flattened image and one tap of each axis.
  template <class F>
  void each(F visit, std::vector<Tap> chosen = {}, Value place = {}) const {
    size_t axis = chosen.size();
    if (axis == axes.size()) return visit(place, chosen);
    for (const Tap& tap : axes[axis]) {
      auto next = chosen;
      next.push_back(tap);
      each(visit, next, place ? place * static_cast<double>(spatial[axis]) + tap.place : tap.place);
    }
  }

  Value read(Value place) const {
    GatherDims dims{.offset_dims = {2},
                    .collapsed_slice_dims = {1},
                    .operand_batching_dims = {0},
                    .start_indices_batching_dims = {0},
                    .start_index_map = {1},
                    .index_vector_dim = 2};
    return gather(image, place, dims, {1, 1, image.dim(2)});
  }

  Value write(Value place, Value updates) const {
    ScatterDims dims{.update_window_dims = {2},
                     .inserted_window_dims = {1},
                     .input_batching_dims = {0},
                     .scatter_indices_batching_dims = {0},
                     .scatter_dims_to_operand_dims = {1},
                     .index_vector_dim = 2};
    return scatter(zeros_like(image), place, updates, dims, add);
  }
};

// [N, C, spatial...] -> [N, places, C], and back.
Value channels_last(Value x) {
  return reshape(move_dim(x, 1, x.rank() - 1),
                 {x.dim(0), product(x.dims()) / std::max<int64_t>(1, x.dim(0) * x.dim(1)), x.dim(1)});
}
Value channels_first(Value x, const Dims& spatial) {
  Dims dims{x.dim(0)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(x.dim(2));
  return move_dim(reshape(x, dims), static_cast<int>(dims.size()) - 1, 1);
}

Sampler sampler(Value image, Value grid, int interpolation, int padding, bool align) {
  Sampler s{channels_last(image), Dims(image.dims().begin() + 2, image.dims().end()), {}};
  int last = grid.rank() - 1, count = static_cast<int>(s.spatial.size());
  for (int axis = 0; axis < count; ++axis) {  // the grid names the last axis first
    Value at = cut(grid, last, count - 1 - axis, count - axis);
    at = reshape(at, {grid.dim(0), at.numel() / std::max<int64_t>(1, grid.dim(0))});
    s.axes.push_back(taps(at, s.spatial[axis], interpolation, padding, align));
  }
  return s;
}

Value next_to(Value weight, Value like) { return broadcast_in_dim(weight, like.dims(), {0, 1}); }

}  // namespace

// (input, grid, interpolation_mode, padding_mode, align_corners)
Value grid_sampler(Args& a) {
  Value image = widen(a[0]), grid = widen(a[1]);
  Dims result(grid.dims().begin(), grid.dims().end() - 1);
  result.insert(result.begin() + 1, image.dim(1));
  if (product(result) == 0) return constant(a.program(), {image.dtype(), result}, 0);
  Sampler s = sampler(image, grid, a.integer(2), a.integer(3), a.flag(4));
  Value sum;
  s.each([&](Value place, const std::vector<Tap>& chosen) {
    Value weight = chosen[0].weight;
    for (size_t i = 1; i < chosen.size(); ++i) weight = weight * chosen[i].weight;
    Value element = s.read(place);
    element = element * next_to(weight, element);
    sum = sum ? sum + element : element;
  });
  return channels_first(sum, Dims(grid.dims().begin() + 1, grid.dims().end() - 1));
}

// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)
Results grid_sampler_backward(Args& a) {
  Value grad = channels_last(widen(a[0])), image = widen(a[1]), grid = widen(a[2]);
  auto wanted = a.ivalue(6).toBoolList();
  Sampler s = sampler(image, grid, a.integer(3), a.integer(4), a.flag(5));
  size_t count = s.axes.size();
  std::vector<Value> at, updates, slopes(count);
  s.each([&](Value place, const std::vector<Tap>& chosen) {
    Value weight = chosen[0].weight;
    for (size_t i = 1; i < count; ++i) weight = weight * chosen[i].weight;
    at.push_back(place);
    updates.push_back(grad * next_to(weight, grad));
    if (!wanted.get(1)) return;
    Value element = reduce_sum(s.read(place) * grad, {2});
    for (size_t axis = 0; axis < count; ++axis) {
      Value slope = element;
      for (size_t i = 0; i < count; ++i) slope = slope * (i == axis ? chosen[i].slope : chosen[i].weight);
      slopes[axis] = slopes[axis] ? slopes[axis] + slope : slope;
    }
  });
  Results results(2);
  if (wanted.get(0))
    results[0] = channels_first(s.write(concatenate(at, 1), concatenate(updates, 1)), s.spatial);
  if (wanted.get(1)) {
    std::vector<Value> columns;
    for (size_t axis = count; axis-- > 0;) columns.push_back(unsqueeze(slopes[axis], 2));
    results[1] = reshape(concatenate(columns, 2), grid.dims());
  }
  return results;
}

// (theta, size, align_corners): theta times the coordinates of each place, from -1 to 1.
Value affine_grid(Args& a) {
  Value theta = widen(a[0]);
  Dims size = a.ints(1);
  bool align = a.flag(2);
  int count = static_cast<int>(size.size()) - 2;
  Dims dims{size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(count);
  Type type{theta.dtype(), dims};
  auto column = [&](int i) {  // theta[:, :, i] next to all places
    return broadcast_in_dim(squeeze(cut(theta, 2, i, i + 1), 2), dims, {0, count + 1});
  };
  Value sum = column(count);
  for (int axis = 0; axis < count; ++axis) {
    double n = static_cast<double>(size[2 + axis]);
    double steps = align ? std::max(n - 1, 1.0) : n;
    Value at = (iota(a.program(), type, 1 + axis) * 2.0 - (n - 1)) / steps;
    sum = sum + at * column(count - 1 - axis);
  }
  return sum;
}

}  // namespace tpu::lower
