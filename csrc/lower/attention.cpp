// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention, the fused layers of nn.Transformer, and recurrent cells.
#include <cmath>
#include <limits>

#include "lower/backward.h"
#include "lower/cell.h"
#include "lower/contract.h"
#include "lower/gelu.h"
#include "lower/normalize.h"
#include "lower/pointwise.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

// ---- scaled dot product attention: query [b, h, l, d], key [b, g, s, d], value [b, g, s, e]. Each of the g
// heads of key and value serves h / g heads of the query in a row, so those heads are just more rows: [b, g,
// h / g * l, d].

static Value by_key_head(Value x, Value key) {
  return reshape(x, {x.dim(0), key.dim(1), x.dim(1) * x.dim(2) / std::max<int64_t>(key.dim(1), 1), x.dim(3)});
}

static Value by_query_head(Value x, Value query) {
  return reshape(x, {query.dim(0), query.dim(1), query.dim(2), x.dim(3)});
}

// rows [.., n, k] times matrix [.., k, m] for each head of `matrix`, back in the query's heads.
static Value per_head(Value rows, Value matrix, Value query) {
  return by_query_head(matmul(by_key_head(convert(rows, matrix.dtype()), matrix), matrix), query);
}

// x^T y over the rows of all query heads of one key head.
static Value over_rows(Value x, Value y, Value key) {
  DType dtype = key.dtype();
  return contract(by_key_head(convert(x, dtype), key), by_key_head(convert(y, dtype), key),
                  {{0, 1}, {0, 1}, {2}, {2}});
}

struct Softmax {
  Value weights;    // exp(score - peak), not divided by the sum yet
  Value peak, sum;  // of a row; a row without any finite score has peak 0, sum 0
  Value divisor;    // the sum, or 1 where it is 0: fully masked rows give 0
};

static Softmax softmax(Value scores) {
  int last = scores.rank() - 1;
  Value peak = reduce_max(scores, {last});
  peak = select(eq(peak, -std::numeric_limits<double>::infinity()), zeros_like(peak), peak);
  Value weights = exponential(scores - spread(peak, scores, {last}));
  Value sum = reduce_sum(weights, {last});
  return {weights, peak, sum, select(eq(sum, 0), ones_like(sum), sum)};
}

static Value attention_scale(Args& a, size_t arg, Value query, DType dtype) {
  if (a.has(arg)) return a.scalar(arg, dtype);
  return constant(a.program(), {dtype, {}}, 1 / std::sqrt(static_cast<double>(query.dim(3))));
}

static Value attention_scores(Value query, Value key, std::optional<Value> bias, bool causal, Value scale) {
  Value scores = contract(by_key_head(query, key), key, {{0, 1}, {0, 1}, {3}, {3}});
  scores = by_query_head(scores, query);
  scores = scores * broadcast_to(scale, scores.dims());
  Value nothing = -infinity_like(scores);
  if (bias && bias->dtype() == DType::kPred)
    scores = select(broadcast_to(*bias, scores.dims()), scores, nothing);
  else if (bias)
    scores = scores + broadcast_to(convert(*bias, scores.dtype()), scores.dims());
  if (causal)
    scores =
        select(le(iota_like(scores, 3, DType::kS32), iota_like(scores, 2, DType::kS32)), scores, nothing);
  return scores;
}

// 1 / (1 - p) where the weight is kept, else 0. The backward op draws the same bits from the saved state.
static Value kept(Value weights, Value state, Value p) {
  Value bits = rng_bit_generator(state, {DType::kU32, weights.dims()}).second;
  Value uniform = convert(shift_right_logical(bits, constant_like(bits, 8)), DType::kF32) * 0x1p-24;
  Value keep = 1.0 - p;
  Value scale = broadcast_to(convert(1.0 / keep, weights.dtype()), weights.dims());
  return select(lt(uniform, broadcast_to(keep, uniform.dims())), scale, zeros_like(weights));
}

static Value row(Value x, Value like) { return spread(x, like, {like.rank() - 1}); }

// (query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale) ->
// (output, logsumexp, cum_seq_q, cum_seq_k, int max_q, int max_k, philox_seed, philox_offset,
// debug_attn_mask)
static Results attention(Args& a) {
  Value query = a[0], key = a[1], value = a[2];
  DType dtype = wide(query.dtype());
  Softmax s =
      softmax(attention_scores(query, key, a.maybe(3), a.flag(5), attention_scale(a, 7, query, dtype)));
  Value weights = s.weights;
  Value seed = constant(a.program(), {DType::kS64, {}}, 0), offset = seed;
  if (!a.is_default(4)) {
    Value state = a.source().rng_state({}, weights.numel());
    weights = weights * kept(weights, state, a.scalar(4, DType::kF32));
    auto word = [&](int i) { return convert(reshape(slice_in_dim(state, i, i + 1, 1, 0), {}), DType::kS64); };
    seed = word(0), offset = word(1);
  }
  Value out = per_head(weights, value, query);
  return {out / row(s.divisor, out), s.peak + log(s.sum), {}, {}, {}, {}, seed, offset, {}};
}

// Sums x over the dims in which `dims` was stretched to x's.
static Value sum_to(Value x, const Dims& dims) {
  std::vector<int> stretched;
  int extra = x.rank() - static_cast<int>(dims.size());
  for (int i = 0; i < x.rank(); ++i)
    if (i < extra || dims[i - extra] != x.dim(i)) stretched.push_back(i);
  return reshape(reduce_sum(x, stretched), dims);
}

// (grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
// max_k, dropout_p, is_causal, philox_seed, philox_offset, scale)
static Results attention_backward(Args& a) {
  Value grad = a[0], query = a[1], key = a[2], value = a[3];
  DType dtype = wide(query.dtype());
  Value scale = attention_scale(a, 16, query, dtype);
  // The sums are computed again: the saved logsumexp is f32 even for f64.
  Softmax s = softmax(attention_scores(query, key, a.maybe(4), a.flag(13), scale));
  Value weights = s.weights / row(s.divisor, s.weights);
  Value grad_weights =
      by_query_head(contract(by_key_head(grad, value), value, {{0, 1}, {0, 1}, {3}, {3}}), query);
  Value used = weights;
  if (a.constant(12) != 0) {
    Value state = concatenate(
        {convert(reshape(a[14], {1}), DType::kU64), convert(reshape(a[15], {1}), DType::kU64)}, 0);
    Value keep = kept(weights, state, a.scalar(12, DType::kF32));
    used = weights * keep;
    grad_weights = grad_weights * keep;
  }
  Value mean = reduce_sum(grad_weights * weights, {3});
  Value grad_scores = weights * (grad_weights - row(mean, grad_weights));
  Value scaled = grad_scores * broadcast_to(scale, grad_scores.dims());
  Results out(4);
  if (wants(a, 5, 0)) out[0] = per_head(scaled, key, query);
  if (wants(a, 5, 1)) out[1] = over_rows(scaled, query, key);
  if (wants(a, 5, 2)) out[2] = over_rows(used, grad, value);
  if (wants(a, 5, 3) && a.has(4)) out[3] = sum_to(grad_scores, a.dims(4));
  return out;
}

// ---- the fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer

struct MultiHead {
  int64_t heads;
  Value qkv_weight, qkv_bias, out_weight, out_bias;
  std::optional<Value> mask;  // not zero: the place is masked
  int64_t mask_type;          // 0: [l, s], 1: [b, s], 2: [b, h, l, s]
};

static Value in_dtype_of(Value x, Value like) { return convert(x, like.dtype()); }

// Returns the output [b, l, d] and the weights [b, h, l, s]. Fully masked rows give NaN, as on the CPU.
static std::pair<Value, Value> multi_head(Value query, Value key, Value value, const MultiHead& m) {
  int64_t size = query.dim(2), width = size / m.heads;
  auto project = [&](Value x, int64_t part) {
    auto piece = [&](Value w) { return slice_in_dim(w, part * size, (part + 1) * size, 1, 0); };
    Value y = linear(in_dtype_of(x, m.qkv_weight), piece(m.qkv_weight), piece(m.qkv_bias));
    return transpose(reshape(in_dtype_of(y, x), {x.dim(0), x.dim(1), m.heads, width}), {0, 2, 1, 3});
  };
  Value q = project(query, 0), k = project(key, 1), v = project(value, 2);
  Value scores = contract(q, k, {{0, 1}, {0, 1}, {3}, {3}}) * (1 / std::sqrt(static_cast<double>(width)));
  if (m.mask) {
    Value masked = as_bool(*m.mask);
    if (m.mask_type == 1) masked = broadcast_in_dim(masked, scores.dims(), {0, 3});
    scores = select(broadcast_to(masked, scores.dims()), -infinity_like(scores), scores);
  }
  Value weights = exponential(scores - row(reduce_max(scores, {3}), scores));
  weights = weights / row(reduce_sum(weights, {3}), weights);
  Value out = in_dtype_of(matmul(in_dtype_of(weights, v), v), query);
  out = reshape(transpose(out, {0, 2, 1, 3}), query.dims());
  return {linear(in_dtype_of(out, m.out_weight), m.out_weight, m.out_bias), weights};
}

// (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
// average_attn_weights, mask_type)
static Results multi_head_attention(Args& a) {
  auto [out, weights] =
      multi_head(a[0], a[1], a[2], {a.integer(4), a[5], a[6], a[7], a[8], a.maybe(9), a.integer_or(12, 0)});
  if (!a.flag(10)) return {out, constant(a.program(), {weights.dtype(), {0}}, 0)};
  return {out, a.flag(11) ? reduce_sum(weights, {1}) / static_cast<double>(weights.dim(1)) : weights};
}

// (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
// norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
// mask, mask_type)
static Value encoder_layer(Args& a) {
  Value x = a[0];
  bool norm_first = a.flag(8);
  auto norm = [&](Value y, size_t weight) {
    y = widen(y);
    return in_dtype_of(layer_norm(y, 2, a[weight], a[weight + 1], a.scalar(9, y.dtype())), x);
  };
  MultiHead m = {a.integer(2), a[3], a[4], a[5], a[6], a.maybe(18), a.integer_or(19, 0)};
  Value y = norm_first ? norm(x, 10) : x;
  y = x + in_dtype_of(multi_head(y, y, y, m).first, x);
  if (!norm_first) y = norm(y, 10);
  Value hidden = linear(norm_first ? norm(y, 12) : y, a[14], a[15]);
  hidden = a.flag(7) ? gelu(hidden) : maximum(hidden, zeros_like(hidden));
  y = y + in_dtype_of(linear(in_dtype_of(hidden, x), a[16], a[17]), x);
  return norm_first ? y : norm(y, 12);
}

const Table attention_table = {
    {"_native_multi_head_attention", multi_head_attention},
    {"_scaled_dot_product_fused_attention_overrideable", attention, kRandom},
    {"_scaled_dot_product_fused_attention_overrideable_backward", attention_backward},
    {"_thnn_fused_gru_cell", gru_cell, kNoMeta | kKeepsDtype},
    {"_thnn_fused_gru_cell_backward", gru_cell_backward, kNoMeta | kKeepsDtype},
    {"_thnn_fused_lstm_cell", lstm_cell, kNoMeta | kKeepsDtype},
    {"_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward, kNoMeta | kKeepsDtype},
    {"_transformer_encoder_layer_fwd", encoder_layer},
};

}  // namespace tpu::lower
