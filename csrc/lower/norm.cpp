// SPDX-License-Identifier: Apache-2.0
// Normalization layers. Statistics are taken in f32 (f64 for f64), whatever the dtype of the input.
#include <cmath>
#include <limits>
#include <numeric>

#include "lower/backward.h"
#include "lower/line.h"
#include "lower/normalize.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

static std::vector<int> range(int first, int last) {
  std::vector<int> dims(std::max(last - first, 0));
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

static std::vector<int> all_but(int dim, int rank) {
  std::vector<int> dims = range(0, rank);
  dims.erase(dims.begin() + dim);
  return dims;
}

static int64_t count_of(Value x, const std::vector<int>& dims) {
  int64_t count = 1;
  for (int d : dims) count *= x.dim(d);
  return count;
}

static Value mean_of(Value x, const std::vector<int>& dims) {
  Value sum = reduce_sum(x, dims);
  return sum / number_like(sum, count_of(x, dims));
}

Moments moments(Value x, const std::vector<int>& dims) {
  Value mean = mean_of(x, dims);
  Value centered = x - spread(mean, x, dims);
  return {mean, mean_of(centered * centered, dims)};
}

static Value reciprocal_deviation(Value variance, Value eps) {
  return rsqrt(variance + broadcast_to(convert(eps, variance.dtype()), variance.dims()));
}

// The trailing dims of x by a weight of just those dims; no weight: x itself.
static Value scaled(Value x, std::optional<Value> weight) {
  return weight ? x * broadcast_to(convert(*weight, x.dtype()), x.dims()) : x;
}

static Value shifted(Value x, std::optional<Value> bias) {
  return bias ? x + broadcast_to(convert(*bias, x.dtype()), x.dims()) : x;
}

Value layer_norm(Value x, int first, std::optional<Value> weight, std::optional<Value> bias, Value eps) {
  auto dims = range(first, x.rank());
  Moments m = moments(x, dims);
  Value y = (x - spread(m.mean, x, dims)) * spread(reciprocal_deviation(m.variance, eps), x, dims);
  return shifted(scaled(y, weight), bias);
}

// The gradient of a normalized x. `grad` is that of x_hat = (x - mean) * rstd. Without `centered` (RMS norm)
// there is no mean.
static Value normalized_backward(Value grad, Value x_hat, Value rstd, const std::vector<int>& dims,
                                 bool centered) {
  Value out = grad - x_hat * spread(mean_of(grad * x_hat, dims), x_hat, dims);
  if (centered) out = out - spread(mean_of(grad, dims), x_hat, dims);
  return out * rstd;
}

static Dims keep_dims(const Dims& dims, int first) {
  Dims kept = dims;
  std::fill(kept.begin() + first, kept.end(), 1);
  return kept;
}

// In the dtype of argument `like`, for ops without a meta kernel.
static Value rounded(Value x, Args& a, size_t like) { return convert(x, a.dtype(like)); }

// ---- layer norm, RMS norm: argument 1 is normalized_shape

// The first normalized dim of input argument `input`.
static int first_normalized(Args& a, size_t input, size_t shape) {
  return static_cast<int>(a.dims(input).size() - a.ints(shape).size());
}

// (input, normalized_shape, weight, bias, eps)
static Results native_layer_norm(Args& a) {
  Value x = widen(a[0]);
  int first = first_normalized(a, 0, 1);
  auto dims = range(first, x.rank());
  Moments m = moments(x, dims);
  Value rstd = reciprocal_deviation(m.variance, a.scalar(4, x.dtype()));
  Value y = (x - spread(m.mean, x, dims)) * spread(rstd, x, dims);
  Dims kept = keep_dims(x.dims(), first);
  return {shifted(scaled(y, a.maybe(2)), a.maybe(3)), reshape(m.mean, kept), reshape(rstd, kept)};
}

// A saved statistic [.., 1, 1] in x's dims and dtype.
static Value saved(Args& a, size_t i, Value x) { return broadcast_to(convert(a[i], x.dtype()), x.dims()); }

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
static Results native_layer_norm_backward(Args& a) {
  Value grad = widen(a[0]), x = widen(a[1]), rstd = saved(a, 4, x);
  int first = first_normalized(a, 1, 2);
  Value x_hat = (x - saved(a, 3, x)) * rstd;
  Results out(3);
  if (wants(a, 7, 0))
    out[0] = normalized_backward(scaled(grad, a.maybe(5)), x_hat, rstd, range(first, x.rank()), true);
  if (wants(a, 7, 1)) out[1] = reduce_sum(grad * x_hat, range(0, first));
  if (wants(a, 7, 2)) out[2] = reduce_sum(grad, range(0, first));
  return out;
}

// (input, normalized_shape, weight, eps); eps None: the epsilon of the type that computes.
static Results rms_norm(Args& a) {
  Value x = widen(a[0]);
  int first = first_normalized(a, 0, 1);
  auto dims = range(first, x.rank());
  double epsilon = x.dtype() == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon();
  Value eps = a.has(3) ? a.scalar(3, x.dtype()) : constant(a.program(), {x.dtype(), {}}, epsilon);
  Value rstd = reciprocal_deviation(mean_of(x * x, dims), eps);
  return {scaled(x * spread(rstd, x, dims), a.maybe(2)), reshape(rstd, keep_dims(x.dims(), first))};
}

// (grad_out, input, normalized_shape, rstd, weight, output_mask)
static Results rms_norm_backward(Args& a) {
  Value grad = widen(a[0]), x = widen(a[1]), rstd = saved(a, 3, x);
  int first = first_normalized(a, 1, 2);
  Value x_hat = x * rstd;
  Results out(2);
  if (wants(a, 5, 0))
    out[0] = normalized_backward(scaled(grad, a.maybe(4)), x_hat, rstd, range(first, x.rank()), false);
  if (wants(a, 5, 1) && a.has(4)) out[1] = reduce_sum(grad * x_hat, range(0, first));
  return out;
}

// ---- group norm: x is seen as [n, group, channel of the group, place]; weights are [group, channel of the
// group]

static Value grouped(Value x, int64_t n, int64_t c, int64_t places, int64_t groups) {
  return reshape(widen(x), {n, groups, c / groups, places});
}

static std::optional<Value> by_channel(std::optional<Value> weight, Value x) {
  if (!weight) return {};
  return broadcast_in_dim(reshape(*weight, {x.dim(1), x.dim(2)}), x.dims(), {1, 2});
}

// (input, weight, bias, N, C, HxW, group, eps)
static Results native_group_norm(Args& a) {
  Value x = grouped(a[0], a.integer(3), a.integer(4), a.integer(5), a.integer(6));
  Moments m = moments(x, {2, 3});
  Value rstd = reciprocal_deviation(m.variance, a.scalar(7, x.dtype()));
  Value y = (x - spread(m.mean, x, {2, 3})) * spread(rstd, x, {2, 3});
  y = shifted(scaled(y, by_channel(a.maybe(1), x)), by_channel(a.maybe(2), x));
  return {reshape(y, a.dims(0)), m.mean, rstd};
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
static Results native_group_norm_backward(Args& a) {
  auto view = [&](size_t i) { return grouped(a[i], a.integer(5), a.integer(6), a.integer(7), a.integer(8)); };
  Value grad = view(0), x = view(1);
  auto statistic = [&](size_t i) {
    Value s = convert(a[i], x.dtype());
    return spread(reshape(s, {x.dim(0), x.dim(1)}), x, {2, 3});
  };
  Value rstd = statistic(3), x_hat = (x - statistic(2)) * rstd;
  auto channels = [&](Value v) { return flatten(reduce_sum(v, {0, 3})); };
  Results out(3);
  if (wants(a, 9, 0)) {
    Value inner = scaled(grad, by_channel(a.maybe(4), x));
    out[0] = reshape(normalized_backward(inner, x_hat, rstd, {2, 3}, true), a.dims(1));
  }
  if (wants(a, 9, 1)) out[1] = channels(grad * x_hat);
  if (wants(a, 9, 2)) out[2] = channels(grad);
  return out;
}

// ---- batch norm: statistics of each channel, dim 1

static Value along_channel(Value statistic, Value x) {
  return broadcast_in_dim(convert(statistic, x.dtype()), x.dims(), {1});
}

static Value channel_affine(Value y, std::optional<Value> weight, std::optional<Value> bias) {
  if (weight) y = y * along_channel(*weight, y);
  return bias ? y + along_channel(*bias, y) : y;
}

// The places in `args` of running_mean (running_var follows; -1: the op has none) and of eps; momentum is
// before eps. Returns (output, save_mean, save_invstd), and after them the new running_mean and running_var
// that there are: the schema may hide that they are written.
static Results batch_norm(Args& a, int running, size_t eps_at, bool training) {
  Value x = widen(a[0]);
  auto dims = all_but(1, x.rank());
  Value eps = a.scalar(eps_at, x.dtype());
  auto argument = [&](int i) { return running < 0 ? std::nullopt : a.maybe(running + i); };
  std::optional<Value> running_mean = argument(0), running_var = argument(1);
  Value mean, rstd;
  Results updated;
  if (training) {
    Moments m = moments(x, dims);
    mean = m.mean, rstd = reciprocal_deviation(m.variance, eps);
    const int64_t count = count_of(x, dims);
    Value momentum = a.scalar(eps_at - 1, x.dtype());
    auto blend = [&](Value old, Value now) {
      Value share = broadcast_to(momentum, now.dims());
      return convert(convert(old, now.dtype()) * (1.0 - share) + now * share, old.dtype());
    };
    if (running_mean) updated.push_back(blend(*running_mean, mean));
    if (running_var) {
      Value unbiased = number_like(m.variance, count) / number_like(m.variance, count - 1);
      updated.push_back(blend(*running_var, m.variance * unbiased));
    }
  } else {
    updated.resize(2);  // empty: not written
    mean = convert(*running_mean, x.dtype());
    rstd = reciprocal_deviation(convert(*running_var, x.dtype()), eps);
  }
  Value y = (x - along_channel(mean, x)) * along_channel(rstd, x);
  Results out = {channel_affine(y, a.maybe(1), a.maybe(2)), mean, rstd};
  out.insert(out.end(), updated.begin(), updated.end());
  return out;
}

// All five results belong to the schema here: without training the running statistics come back as they are.
static Results batch_norm_functional(Args& a) {
  Results out = batch_norm(a, 3, 7, a.flag(5));
  if (!a.flag(5)) out[3] = a[3], out[4] = a[4];
  return out;
}

// Places of the arguments of native_batch_norm_backward; batch_norm_backward has the same ones and one more
// at the end. (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
// output_mask)
static Results batch_norm_backward(Args& a) {
  Value grad = widen(a[0]), x = widen(a[1]);
  auto dims = all_but(1, x.rank());
  bool training = a.flag(7);
  Value mean = convert(a[training ? 5 : 3], x.dtype());
  Value rstd = training ? convert(a[6], x.dtype())
                        : reciprocal_deviation(convert(a[4], x.dtype()), a.scalar(8, x.dtype()));
  Value x_hat = (x - along_channel(mean, x)) * along_channel(rstd, x);
  Results out(3);
  if (wants(a, 9, 0)) {
    Value inner = channel_affine(grad, a.maybe(2), {}), scale = along_channel(rstd, x);
    out[0] = training ? normalized_backward(inner, x_hat, scale, dims, true) : inner * scale;
  }
  if (wants(a, 9, 1)) out[1] = reduce_sum(grad * x_hat, dims);
  if (wants(a, 9, 2)) out[2] = reduce_sum(grad, dims);
  return out;
}

// ---- what SyncBatchNorm calls: no meta kernels, so each row states the dtypes that CUDA gives

// (input, eps) -> (mean, invstd)
static Results batch_norm_stats(Args& a) {
  Value x = widen(a[0]);
  Moments m = moments(x, all_but(1, x.rank()));
  return {m.mean, reciprocal_deviation(m.variance, a.scalar(1, x.dtype()))};
}

// (input, weight, bias, mean, invstd, eps)
static Value batch_norm_elemt(Args& a) {
  Value x = widen(a[0]);
  Value y = (x - along_channel(a[3], x)) * along_channel(a[4], x);
  return rounded(channel_affine(y, a.maybe(1), a.maybe(2)), a, 0);
}

// (input, mean [chips, c], invstd [chips, c], running_mean, running_var, momentum, eps, counts [chips]) ->
// (mean, invstd), and the new running statistics.
static Results batch_norm_gather_stats(Args& a) {
  Value means = widen(a[1]), rstds = widen(a[2]);
  DType dtype = means.dtype();
  Value counts = broadcast_in_dim(convert(a[7], dtype), means.dims(), {0});
  Value total = reduce_sum(counts, {0});
  Value mean = reduce_sum(means * counts, {0}) / total;
  Value eps = a.scalar(6, dtype), offset = means - spread(mean, means, {0});
  Value variances = 1.0 / (rstds * rstds) - broadcast_to(eps, rstds.dims());
  Value squares = reduce_sum((variances + offset * offset) * counts, {0});
  Results out = {mean, reciprocal_deviation(squares / total, eps)};
  auto blend = [&](size_t i, Value now) {
    Value share = a.scalar_like(5, now);
    out.push_back(rounded(widen(a[i]) * (1.0 - share) + now * share, a, i));
  };
  if (a.has(3)) blend(3, mean);
  if (a.has(4)) blend(4, squares / (total - 1.0));
  return out;
}

// (grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g) -> (sum_dy, sum_dy_xmu, grad_weight,
// grad_bias)
static Results batch_norm_backward_reduce(Args& a) {
  Value grad = widen(a[0]), x = widen(a[1]);
  auto dims = all_but(1, x.rank());
  Value sum = reduce_sum(grad, dims), product = reduce_sum(grad * (x - along_channel(a[2], x)), dims);
  Results out(4);
  DType dtype = a.has(4) ? a.dtype(4) : x.dtype();
  if (a.flag(5)) out[0] = sum, out[1] = product;
  if (a.flag(6)) out[2] = convert(product * convert(a[3], x.dtype()), dtype);
  if (a.flag(7)) out[3] = convert(sum, dtype);
  return out;
}

// (grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count [chips])
static Value batch_norm_backward_elemt(Args& a) {
  Value grad = widen(a[0]), x = widen(a[1]);
  Value rstd = convert(a[3], x.dtype());
  Value total = broadcast_to(convert(reduce_sum(a[7], {0}), x.dtype()), rstd.dims());
  Value mean_grad = convert(a[5], x.dtype()) / total, slope = convert(a[6], x.dtype()) / total * rstd * rstd;
  Value centered = x - along_channel(a[2], x);
  Value inner = grad - along_channel(mean_grad, x) - centered * along_channel(slope, x);
  return rounded(channel_affine(inner * along_channel(rstd, x), a.maybe(4), {}), a, 1);
}

// ---- weight norm, renorm

// (v, g, dim)
static Results weight_norm(Args& a) {
  Value v = widen(a[0]), g = convert(a[1], v.dtype());
  auto dims = all_but(a.dim(2, v.rank()), v.rank());
  Value norm = reshape(sqrt(reduce_sum(v * v, dims)), g.dims());
  return {v * broadcast_to(g / norm, v.dims()), norm};
}

// (grad_w, saved_v, saved_g, saved_norms, dim)
static Results weight_norm_backward(Args& a) {
  Value grad = widen(a[0]), v = widen(a[1]);
  Value g = convert(a[2], v.dtype()), norm = convert(a[3], v.dtype());
  auto dims = all_but(a.dim(4, v.rank()), v.rank());
  Value product = reshape(reduce_sum(grad * v, dims), g.dims());
  auto full = [&](Value x) { return broadcast_to(x, v.dims()); };
  Value grad_v = full(g / norm) * (grad - v * full(product / (norm * norm)));
  return {grad_v, product / norm};
}

// The p-norm of x over dims. p decides the formula.
static Value p_norm(Value x, double p, const std::vector<int>& dims) {
  Value size = abs(x);
  if (p == 2) return sqrt(reduce_sum(size * size, dims));
  if (p == 1) return reduce_sum(size, dims);
  if (std::isinf(p)) return reduce_max(size, dims);
  Value sum = reduce_sum(power(size, constant_like(size, p)), dims);
  return power(sum, constant_like(sum, 1 / p));
}

// (self, p, dim, maxnorm)
static Value renorm(Args& a) {
  Value x = widen(a[0]);
  auto dims = all_but(a.dim(2, x.rank()), x.rank());
  Value norm = p_norm(x, a.constant(1), dims), limit = a.scalar_like(3, norm);
  Value factor = select(gt(norm, limit), limit / (norm + 1e-7), ones_like(norm));
  return x * convert(spread(factor, x, dims), x.dtype());
}

const Table norm_table = {
    {"_batch_norm_with_update",
     [](Args& a) {
       Results out = batch_norm(a, 3, 6, true);
       out[0] = rounded(out[0], a, 0);
       out.insert(out.begin() + 3, constant(a.program(), {DType::kU8, {0}}, 0));
       return out;
     },
     kNoMeta | kKeepsDtype},
    {"_fused_rms_norm", rms_norm},
    {"_fused_rms_norm_backward", rms_norm_backward},
    {"_native_batch_norm_legit", [](Args& a) { return batch_norm(a, 3, 7, a.flag(5)); }},
    {"_native_batch_norm_legit.no_stats", [](Args& a) { return batch_norm(a, -1, 5, true); }},
    {"_native_batch_norm_legit_functional", batch_norm_functional},
    {"_native_batch_norm_legit_no_training", [](Args& a) { return batch_norm(a, 3, 6, false); }},
    {"_weight_norm_interface", weight_norm},
    {"_weight_norm_interface_backward", weight_norm_backward},
    {"batch_norm_backward", batch_norm_backward},
    {"batch_norm_backward_elemt", batch_norm_backward_elemt, kNoMeta | kKeepsDtype},
    {"batch_norm_backward_reduce", batch_norm_backward_reduce, kNoMeta | kKeepsDtype},
    {"batch_norm_elemt", batch_norm_elemt, kNoMeta | kKeepsDtype},
    {"batch_norm_gather_stats_with_counts", batch_norm_gather_stats, kNoMeta | kKeepsDtype},
    {"batch_norm_stats", batch_norm_stats, kNoMeta | kKeepsDtype},
    {"native_batch_norm", [](Args& a) { return batch_norm(a, 3, 7, a.flag(5)); }},
    {"native_batch_norm_backward", batch_norm_backward},
    {"native_group_norm", native_group_norm},
    {"native_group_norm_backward", native_group_norm_backward},
    {"native_layer_norm", native_layer_norm},
    {"native_layer_norm_backward", native_layer_norm_backward},
    {"renorm", renorm},
};

}  // namespace tpu::lower
