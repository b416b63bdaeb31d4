// SPDX-License-Identifier: Apache-2.0
#include "runtime/structured.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/impl/boxing.h>

#include <ATen/ops/_log_softmax_meta_dispatch.h>
#include <ATen/ops/_softmax_meta_dispatch.h>
#include <ATen/ops/acos_meta_dispatch.h>
#include <ATen/ops/acosh_meta_dispatch.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/addcdiv_meta_dispatch.h>
#include <ATen/ops/addcmul_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/addmv_meta_dispatch.h>
#include <ATen/ops/all_meta_dispatch.h>
#include <ATen/ops/amax_meta_dispatch.h>
#include <ATen/ops/amin_meta_dispatch.h>
#include <ATen/ops/any_meta_dispatch.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/argmax_meta_dispatch.h>
#include <ATen/ops/argmin_meta_dispatch.h>
#include <ATen/ops/asin_meta_dispatch.h>
#include <ATen/ops/asinh_meta_dispatch.h>
#include <ATen/ops/atan2_meta_dispatch.h>
#include <ATen/ops/atan_meta_dispatch.h>
#include <ATen/ops/atanh_meta_dispatch.h>
#include <ATen/ops/baddbmm_meta_dispatch.h>
#include <ATen/ops/bitwise_and_meta_dispatch.h>
#include <ATen/ops/bitwise_not_meta_dispatch.h>
#include <ATen/ops/bitwise_or_meta_dispatch.h>
#include <ATen/ops/bitwise_xor_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/cat_meta_dispatch.h>
#include <ATen/ops/ceil_meta_dispatch.h>
#include <ATen/ops/clamp_max_meta_dispatch.h>
#include <ATen/ops/clamp_meta_dispatch.h>
#include <ATen/ops/clamp_min_meta_dispatch.h>
#include <ATen/ops/cos_meta_dispatch.h>
#include <ATen/ops/cosh_meta_dispatch.h>
#include <ATen/ops/cumsum_meta_dispatch.h>
#include <ATen/ops/div_meta_dispatch.h>
#include <ATen/ops/elu_meta_dispatch.h>
#include <ATen/ops/eq_meta_dispatch.h>
#include <ATen/ops/erf_meta_dispatch.h>
#include <ATen/ops/erfc_meta_dispatch.h>
#include <ATen/ops/exp2_meta_dispatch.h>
#include <ATen/ops/exp_meta_dispatch.h>
#include <ATen/ops/expm1_meta_dispatch.h>
#include <ATen/ops/floor_meta_dispatch.h>
#include <ATen/ops/fmax_meta_dispatch.h>
#include <ATen/ops/fmin_meta_dispatch.h>
#include <ATen/ops/fmod_meta_dispatch.h>
#include <ATen/ops/frac_meta_dispatch.h>
#include <ATen/ops/gather_meta_dispatch.h>
#include <ATen/ops/ge_meta_dispatch.h>
#include <ATen/ops/gelu_meta_dispatch.h>
#include <ATen/ops/gt_meta_dispatch.h>
#include <ATen/ops/le_meta_dispatch.h>
#include <ATen/ops/leaky_relu_meta_dispatch.h>
#include <ATen/ops/lerp_meta_dispatch.h>
#include <ATen/ops/linalg_vector_norm_meta_dispatch.h>
#include <ATen/ops/log10_meta_dispatch.h>
#include <ATen/ops/log1p_meta_dispatch.h>
#include <ATen/ops/log2_meta_dispatch.h>
#include <ATen/ops/log_meta_dispatch.h>
#include <ATen/ops/lt_meta_dispatch.h>
#include <ATen/ops/max_meta_dispatch.h>
#include <ATen/ops/maximum_meta_dispatch.h>
#include <ATen/ops/mean_meta_dispatch.h>
#include <ATen/ops/min_meta_dispatch.h>
#include <ATen/ops/minimum_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <ATen/ops/mul_meta_dispatch.h>
#include <ATen/ops/ne_meta_dispatch.h>
#include <ATen/ops/neg_meta_dispatch.h>
#include <ATen/ops/pow_meta_dispatch.h>
#include <ATen/ops/prod_meta_dispatch.h>
#include <ATen/ops/reciprocal_meta_dispatch.h>
#include <ATen/ops/remainder_meta_dispatch.h>
#include <ATen/ops/round_meta_dispatch.h>
#include <ATen/ops/rsqrt_meta_dispatch.h>
#include <ATen/ops/sgn_meta_dispatch.h>
#include <ATen/ops/sigmoid_meta_dispatch.h>
#include <ATen/ops/sign_meta_dispatch.h>
#include <ATen/ops/silu_meta_dispatch.h>
#include <ATen/ops/sin_meta_dispatch.h>
#include <ATen/ops/sinh_meta_dispatch.h>
#include <ATen/ops/softplus_meta_dispatch.h>
#include <ATen/ops/sort_meta_dispatch.h>
#include <ATen/ops/sqrt_meta_dispatch.h>
#include <ATen/ops/sub_meta_dispatch.h>
#include <ATen/ops/sum_meta_dispatch.h>
#include <ATen/ops/tan_meta_dispatch.h>
#include <ATen/ops/tanh_meta_dispatch.h>
#include <ATen/ops/topk_meta_dispatch.h>
#include <ATen/ops/trunc_meta_dispatch.h>

#include <string>
#include <unordered_map>
#include <utility>

namespace tpu::runtime {
namespace {

namespace meta = at::meta;
using at::Scalar, at::Tensor;
using Kernels = std::unordered_map<std::string, c10::KernelFunction>;

// Signatures that say which overload is meant.
using Unary = Tensor(const Tensor&);
using Unary_ = Tensor&(Tensor&);
using Binary = Tensor(const Tensor&, const Tensor&);
using Binary_ = Tensor&(Tensor&, const Tensor&);
using WithNumber = Tensor(const Tensor&, const Scalar&);
using WithNumber_ = Tensor&(Tensor&, const Scalar&);
using Three = Tensor(const Tensor&, const Tensor&, const Tensor&);
using Three_ = Tensor&(Tensor&, const Tensor&, const Tensor&);
using ThreeWithNumber = Tensor(const Tensor&, const Tensor&, const Scalar&);
using ThreeWithNumber_ = Tensor&(Tensor&, const Tensor&, const Scalar&);
using Bounds = Tensor(const Tensor&, const std::optional<Scalar>&, const std::optional<Scalar>&);
using Bounds_ = Tensor&(Tensor&, const std::optional<Scalar>&, const std::optional<Scalar>&);
using AlongDim = Tensor(const Tensor&, int64_t, bool);
using StepsOut = Tensor&(const Scalar&, const Scalar&, const Scalar&, Tensor&);
using PairAlongDim = std::tuple<Tensor, Tensor>(const Tensor&, int64_t, bool);

template <class F>
c10::KernelFunction kernel(F* function) {
  return c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

#define BOTH(op, overload, signature)                            \
  {"aten::" #op overload, kernel<signature>(meta::op)}, {        \
    "aten::" #op "_" overload, kernel<signature##_>(meta::op##_) \
  }
#define ONE(op, overload, signature) {"aten::" #op overload, kernel<signature>(meta::op)}
#define ANY(op, overload) {"aten::" #op overload, kernel(meta::op)}

Kernels made() {
  return {
      {"aten::arange.start_out", kernel<StepsOut>(at::native::arange_out)},
      BOTH(acos, "", Unary),
      BOTH(acosh, "", Unary),
      BOTH(asin, "", Unary),
      BOTH(asinh, "", Unary),
      BOTH(atan, "", Unary),
      BOTH(atanh, "", Unary),
      BOTH(bitwise_not, "", Unary),
      BOTH(ceil, "", Unary),
      BOTH(cos, "", Unary),
      BOTH(cosh, "", Unary),
      BOTH(erf, "", Unary),
      BOTH(erfc, "", Unary),
      BOTH(exp, "", Unary),
      BOTH(exp2, "", Unary),
      BOTH(expm1, "", Unary),
      BOTH(floor, "", Unary),
      BOTH(frac, "", Unary),
      BOTH(log, "", Unary),
      BOTH(log10, "", Unary),
      BOTH(log1p, "", Unary),
      BOTH(log2, "", Unary),
      BOTH(neg, "", Unary),
      BOTH(reciprocal, "", Unary),
      BOTH(round, "", Unary),
      BOTH(rsqrt, "", Unary),
      BOTH(sgn, "", Unary),
      BOTH(sigmoid, "", Unary),
      BOTH(sign, "", Unary),
      BOTH(silu, "", Unary),
      BOTH(sin, "", Unary),
      BOTH(sinh, "", Unary),
      BOTH(sqrt, "", Unary),
      BOTH(tan, "", Unary),
      BOTH(tanh, "", Unary),
      BOTH(trunc, "", Unary),
      BOTH(atan2, "", Binary),
      BOTH(bitwise_and, ".Tensor", Binary),
      BOTH(bitwise_or, ".Tensor", Binary),
      BOTH(bitwise_xor, ".Tensor", Binary),
      BOTH(div, ".Tensor", Binary),
      BOTH(fmod, ".Tensor", Binary),
      BOTH(mul, ".Tensor", Binary),
      BOTH(remainder, ".Tensor", Binary),
      ONE(fmax, "", Binary),
      ONE(fmin, "", Binary),
      ONE(maximum, "", Binary),
      ONE(minimum, "", Binary),
      BOTH(eq, ".Tensor", Binary),
      BOTH(eq, ".Scalar", WithNumber),
      BOTH(ge, ".Tensor", Binary),
      BOTH(ge, ".Scalar", WithNumber),
      BOTH(gt, ".Tensor", Binary),
      BOTH(gt, ".Scalar", WithNumber),
      BOTH(le, ".Tensor", Binary),
      BOTH(le, ".Scalar", WithNumber),
      BOTH(lt, ".Tensor", Binary),
      BOTH(lt, ".Scalar", WithNumber),
      BOTH(ne, ".Tensor", Binary),
      BOTH(ne, ".Scalar", WithNumber),
      BOTH(add, ".Tensor", ThreeWithNumber),
      BOTH(sub, ".Tensor", ThreeWithNumber),
      ONE(pow, ".Tensor_Tensor", Binary),
      ONE(pow, ".Tensor_Scalar", WithNumber),
      BOTH(clamp, "", Bounds),
      BOTH(clamp_min, "", WithNumber),
      BOTH(clamp_max, "", WithNumber),
      BOTH(lerp, ".Scalar", ThreeWithNumber),
      BOTH(lerp, ".Tensor", Three),
      ONE(max, ".dim", PairAlongDim),
      ONE(min, ".dim", PairAlongDim),
      ONE(all, "", Unary),
      ONE(any, "", Unary),
      ONE(all, ".dim", AlongDim),
      ONE(any, ".dim", AlongDim),
      ANY(sum, ".dim_IntList"),
      ANY(mean, ".dim"),
      ANY(amax, ""),
      ANY(amin, ""),
      ANY(argmax, ""),
      ANY(argmin, ""),
      ANY(_softmax, ""),
      ANY(_log_softmax, ""),
      ANY(mm, ""),
      ANY(bmm, ""),
      ANY(addmm, ""),
      ANY(baddbmm, ""),
      ANY(addmv, ""),
      ANY(cat, ""),
      ANY(gelu, ""),
      ANY(leaky_relu, ""),
      ANY(elu, ""),
      ANY(softplus, ""),
      ANY(addcmul, ""),
      ANY(addcdiv, ""),
      ANY(addcmul_, ""),
      ANY(addcdiv_, ""),
      ANY(cumsum, ""),
      ANY(gather, ""),
      ANY(topk, ""),
      ANY(sort, ".stable"),
      ANY(linalg_vector_norm, ""),
      ANY(prod, ".dim_int"),
      ANY(addmm_, ""),
  };
}

#undef BOTH
#undef ONE
#undef ANY

}  // namespace

const c10::KernelFunction* structured_meta(const c10::OperatorName& op) {
  static const auto* kernels = new Kernels(made());
  const auto found = kernels->find(op.overload_name.empty() ? op.name : op.name + "." + op.overload_name);
  return found == kernels->end() ? nullptr : &found->second;
}

}  // namespace tpu::runtime
