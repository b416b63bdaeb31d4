// SPDX-License-Identifier: Apache-2.0
// One function per StableHLO (and CHLO) op, under its own name. Each infers its result's type and checks its
// operands.
#pragma once

#include <complex>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hlo/program.h"

namespace tpu::hlo {

// ---- made from nothing (the program has to be given)
Value constant(Program& p, Type type, double value);                // splat; integers must be exact in double
Value constant(Program& p, Type type, int64_t value);               // splat
Value constant(Program& p, Type type, int value);                   // splat
Value constant(Program& p, Type type, std::complex<double> value);  // splat
Value constant(Program& p, Dims dims, std::vector<int64_t> values,
               DType dtype = DType::kS64);  // dense, row-major
Value iota(Program& p, Type type, int dim);

// ---- unary, element by element
// clang-format off
#define TPU_UNARY(X)                                                                                   \
  X(abs) X(cbrt) X(ceil) X(cosine) X(count_leading_zeros) X(exponential) X(exponential_minus_one)      \
  X(floor) X(imag) X(is_finite) X(log) X(log_plus_one) X(logistic) X(negate) X(not_) X(popcnt) X(real) \
  X(round_nearest_afz) X(round_nearest_even) X(rsqrt) X(sign) X(sine) X(sqrt) X(tan) X(tanh)           \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(bessel_i1e) X(conj) X(cosh) X(digamma) X(erf)   \
  X(erf_inv) X(erfc) X(lgamma) X(sinh) X(square)
#define TPU_DECLARE(name) Value name(Value x);
TPU_UNARY(TPU_DECLARE)
#undef TPU_DECLARE

// ---- binary, element by element; operands must have equal types
#define TPU_BINARY(X)                                                                                  \
  X(add) X(and_) X(atan2) X(complex) X(divide) X(maximum) X(minimum) X(multiply) X(next_after) X(or_)  \
  X(polygamma) X(power) X(remainder) X(shift_left) X(shift_right_arithmetic) X(shift_right_logical)    \
  X(subtract) X(xor_) X(zeta)
// clang-format on
#define TPU_DECLARE(name) Value name(Value x, Value y);
TPU_BINARY(TPU_DECLARE)
#undef TPU_DECLARE

enum class Direction { kEq, kNe, kLt, kLe, kGt, kGe };
Value compare(Value x, Value y, Direction direction);  // kPred; floats: IEEE (NaN is unequal to all)
Value compare_total(Value x, Value y,
                    Direction direction);                 // floats by total order (-NaN < -inf < ... < +NaN)
Value select(Value pred, Value on_true, Value on_false);  // pred: same dims, or 0-d
Value clamp(Value low, Value x, Value high);              // low, high: same type as x, or 0-d
Value convert(Value x, DType dtype);                      // itself if it is that already
Value bitcast_convert(Value x, DType dtype);              // narrower: adds a last dim; wider: takes it away

// ---- shape
Value broadcast_in_dim(Value x, Dims dims,
                       const std::vector<int>& positions);  // positions[i]: where dim i of x goes
Value concatenate(const std::vector<Value>& xs, int dim);
Value dynamic_slice(Value x, const std::vector<Value>& starts, Dims sizes);  // starts are clamped by XLA
Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& starts);
Value pad(Value x, Value fill, Dims low, Dims high, Dims interior = {});
Value reshape(Value x, Dims dims);
Value reverse(Value x, const std::vector<int>& dims);
Value slice(Value x, Dims starts, Dims limits, Dims steps = {});
Value transpose(Value x, const std::vector<int>& permutation);  // result dim i is x's dim permutation[i]
Value get_dimension_size(Value x, int dim);                     // kS32, 0-d
Value set_dimension_size(Value x, Value size, int dim);

// ---- bodies: a body gets one 0-d value per side and operand
using Body =
    std::function<std::vector<Value>(const std::vector<Value>& left, const std::vector<Value>& right)>;
using Binary = Value (*)(Value, Value);

std::vector<Value> reduce(const std::vector<Value>& xs, const std::vector<Value>& inits,
                          const std::vector<int>& dims,
                          const Body& body);  // reduced dims are removed
Value reduce(Value x, Value init, const std::vector<int>& dims, Binary body);

struct Window {
  Dims size, stride, base_dilation, window_dilation;
  std::vector<std::pair<int64_t, int64_t>>
      padding;  // one of each per dim; an empty stride or dilation is all 1
};
std::vector<Value> reduce_window(const std::vector<Value>& xs, const std::vector<Value>& inits,
                                 const Window& window, const Body& body);
Value reduce_window(Value x, Value init, const Window& window, Binary body);
// The gradient of a max pool: `source` is added where `select` (a comparison) picked the element of x.
Value select_and_scatter(Value x, Value source, Value init, const Window& window, Direction select,
                         Binary scatter);

struct GatherDims {
  std::vector<int> offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
      start_index_map;
  int index_vector_dim = 0;
};
Value gather(Value x, Value indices, const GatherDims& dims, Dims slice_sizes,
             bool indices_are_sorted = false);

struct ScatterDims {
  std::vector<int> update_window_dims, inserted_window_dims, input_batching_dims,
      scatter_indices_batching_dims, scatter_dims_to_operand_dims;
  int index_vector_dim = 0;
};
// Binary may be nullptr: the update replaces the element. Out-of-bounds updates are dropped by XLA.
Value scatter(Value x, Value indices, Value updates, const ScatterDims& dims, Binary body,
              bool indices_are_sorted = false, bool unique_indices = false);

// Sorts all of xs together along dim; `less` gets (left, right) of each operand and gives one kPred.
std::vector<Value> sort(const std::vector<Value>& xs, int dim, bool stable, const Body& less);
std::pair<Value, Value> top_k(Value x, int64_t k);  // chlo.top_k along the last dim: values, kS32 indices

// ---- contractions
struct DotDims {
  std::vector<int> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};
enum class Precision { kDefault, kHigh, kHighest };
// Result: batch dims, then lhs free dims, then rhs free dims. `out`: the result's dtype, by default that of
// x.
Value dot_general(Value x, Value y, const DotDims& dims, Precision precision, std::optional<DType> out = {});

struct ConvDims {
  int lhs_batch = 0, lhs_feature = 1, rhs_output = 0, rhs_input = 1, out_batch = 0, out_feature = 1;
  std::vector<int> lhs_spatial, rhs_spatial, out_spatial;
};
struct ConvOptions {
  Dims stride, lhs_dilation, rhs_dilation;           // an empty one is all 1
  std::vector<std::pair<int64_t, int64_t>> padding;  // may be negative
  std::vector<bool> reversal;                        // window reversal; empty: none
  int64_t feature_groups = 1, batch_groups = 1;
};
Value convolution(Value x, Value kernel, const ConvDims& dims, const ConvOptions& options,
                  Precision precision);

// ---- linear algebra, FFT
Value cholesky(Value x, bool lower);
enum class Transpose { kNone, kTranspose, kAdjoint };
Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal, Transpose transpose);
enum class Fft { kFft, kIfft, kRfft, kIrfft };
Value fft(Value x, Fft kind, const Dims& length);  // over the last length.size() dims

// ---- control, random, foreign code
// state: kU64[2] (key, counter). Returns the new state and the bits. Threefry: the same bits on each
// platform.
std::pair<Value, Value> rng_bit_generator(Value state, Type bits);
// Carries `init` through the loop; cond and body are called once each with the block arguments.
std::vector<Value> while_loop(const std::vector<Value>& init,
                              const std::function<Value(const std::vector<Value>&)>& cond,
                              const std::function<std::vector<Value>(const std::vector<Value>&)>& body);
// kString: backend_config is a string. kFfi: XLA's typed FFI; backend_config is a dictionary, "{a = 1 :
// i64}", or empty.
enum class CallApi { kString = 1, kFfi = 4 };
// `more_attributes` are printed as they are: "operand_layouts = [...], ...".
std::vector<Value> custom_call(Program& p, const std::string& target, const std::vector<Value>& operands,
                               const std::vector<Type>& results, const std::string& backend_config,
                               bool has_side_effect = false, CallApi api = CallApi::kString,
                               const std::string& more_attributes = {});
std::vector<Value> optimization_barrier(const std::vector<Value>& xs);

}  // namespace tpu::hlo
