// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolution, linear algebra, FFT.
#include <string_view>

#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

std::string precision_text(Precision precision) {
  constexpr const char* kNames[] = {"DEFAULT", "HIGH", "HIGHEST"};
  std::string one = std::string("#stablehlo<precision ") + kNames[static_cast<int>(precision)] + ">";
  return "[" + one + ", " + one + "]";
}

// "[b, f, 0, 1]": the names of the dims in their order.
std::string layout_text(const char* op, Value x, std::pair<int, const char*> first,
                        std::pair<int, const char*> second, const std::vector<int>& spatial) {
  std::vector<int> all = spatial;
  all.push_back(first.first);
  all.push_back(second.first);
  int rank = static_cast<int>(all.size());
  check(distinct(all, rank), op, "dimension numbers that are all different", {x});
  std::string text = "[";
  for (int i = 0; i < rank; ++i) {
    if (i) text += ", ";
    if (i == first.first) {
      text += first.second;
    } else if (i == second.first) {
      text += second.second;
    } else {
      for (size_t s = 0; s < spatial.size(); ++s)
        if (spatial[s] == i) append_int(text, static_cast<int64_t>(s));
    }
  }
  return text + "]";
}

// A transposed operand is contracted as it lies in memory: not every compiler folds the transpose by itself.
// `batch`, `contract`: the dims in question, renamed for what comes back. Only if the free dims keep their
// order.
Value untransposed(Value x, std::vector<int>& batch, std::vector<int>& contract) {
  const Op& op = x.program().op(x.op());
  if (std::string_view(op.name) != "stablehlo.transpose") return x;
  const std::vector<int> permutation = permutation_of(op);
  int last = -1;
  for (int d = 0; d < x.rank(); ++d) {
    if (contains(batch, d) || contains(contract, d)) continue;
    if (permutation[d] < last) return x;
    last = permutation[d];
  }
  for (int& d : batch) d = permutation[d];
  for (int& d : contract) d = permutation[d];
  return op.operands[0];
}

bool is_matrix(Value x) { return x && x.rank() >= 2 && (is_floating(x.dtype()) || is_complex(x.dtype())); }

}  // namespace

Value dot_general(Value x, Value y, const DotDims& given, Precision precision, std::optional<DType> out) {
  Dims shape = dot_shape(x, y, given);
  DotDims dims = given;
  x = untransposed(x, dims.lhs_batch, dims.lhs_contract);
  y = untransposed(y, dims.rhs_batch, dims.rhs_contract);
  std::string text = Attributes()
                         .open("dot_dimension_numbers", "#stablehlo.dot<")
                         .list("lhs_batching_dimensions", dims.lhs_batch)
                         .list("rhs_batching_dimensions", dims.rhs_batch)
                         .list("lhs_contracting_dimensions", dims.lhs_contract)
                         .list("rhs_contracting_dimensions", dims.rhs_contract)
                         .shut()
                         .verbatim("precision_config", precision_text(precision))
                         .take();
  return x.program().add(
      {"stablehlo.dot_general", {x, y}, std::move(text), {}, {{out.value_or(x.dtype()), std::move(shape)}}});
}

Value convolution(Value x, Value kernel, const ConvDims& dims, const ConvOptions& options,
                  Precision precision) {
  const char* op = "convolution";
  size_t spatial = dims.lhs_spatial.size();
  check(x && kernel && x.dtype() == kernel.dtype() && x.rank() == static_cast<int>(spatial) + 2 &&
            kernel.rank() == x.rank() && dims.rhs_spatial.size() == spatial &&
            dims.out_spatial.size() == spatial,
        op,
        "an operand and a kernel of equal dtype and rank, with as many spatial dims as the dimension numbers "
        "have",
        {x, kernel});
  std::string numbers =
      "#stablehlo.conv<" +
      layout_text(op, x, {dims.lhs_batch, "b"}, {dims.lhs_feature, "f"}, dims.lhs_spatial) + "x" +
      layout_text(op, kernel, {dims.rhs_output, "o"}, {dims.rhs_input, "i"}, dims.rhs_spatial) + "->" +
      layout_text(op, x, {dims.out_batch, "b"}, {dims.out_feature, "f"}, dims.out_spatial) + ">";
  ConvOptions all = options;
  for (Dims* option : {&all.stride, &all.lhs_dilation, &all.rhs_dilation})
    if (option->empty()) option->assign(spatial, 1);
  if (all.padding.empty()) all.padding.assign(spatial, {0, 0});
  if (all.reversal.empty()) all.reversal.assign(spatial, false);
  check(all.stride.size() == spatial && all.lhs_dilation.size() == spatial &&
            all.rhs_dilation.size() == spatial && all.padding.size() == spatial &&
            all.reversal.size() == spatial,
        op, "a stride, dilation, padding and reversal for each spatial dim", {x, kernel});
  int64_t features = x.dim(dims.lhs_feature), batch = x.dim(dims.lhs_batch),
          out = kernel.dim(dims.rhs_output);
  int64_t groups = all.feature_groups, batches = all.batch_groups;
  check(groups > 0 && batches > 0 && (groups == 1 || batches == 1) && features % groups == 0 &&
            out % groups == 0 && batch % batches == 0 && out % batches == 0 &&
            kernel.dim(dims.rhs_input) == features / groups,
        op, "a kernel whose features match those of the operand and the groups", {x, kernel});
  Dims shape(x.rank());
  shape[dims.out_batch] = batch / batches;
  shape[dims.out_feature] = out;
  std::string reversal = "array<i1";
  for (size_t i = 0; i < spatial; ++i) {
    int64_t size = window_extent(x.dim(dims.lhs_spatial[i]), kernel.dim(dims.rhs_spatial[i]), all.stride[i],
                                 all.lhs_dilation[i], all.rhs_dilation[i], all.padding[i]);
    check(size >= 0, op, "positive window sizes, strides and dilations, and a padding that leaves something",
          {x, kernel});
    shape[dims.out_spatial[i]] = size;
    reversal += i ? ", " : ": ";
    reversal += all.reversal[i] ? "true" : "false";
  }
  std::string text = Attributes()
                         .integer("batch_group_count", batches)
                         .verbatim("dimension_numbers", numbers)
                         .integer("feature_group_count", groups)
                         .array("lhs_dilation", all.lhs_dilation)
                         .padding("padding", all.padding)
                         .verbatim("precision_config", precision_text(precision))
                         .array("rhs_dilation", all.rhs_dilation)
                         .verbatim("window_reversal", reversal + ">")
                         .array("window_strides", all.stride)
                         .take();
  return x.program().add(
      {"stablehlo.convolution", {x, kernel}, std::move(text), {}, {{x.dtype(), std::move(shape)}}});
}

Value cholesky(Value x, bool lower) {
  check(is_matrix(x) && x.dim(x.rank() - 1) == x.dim(x.rank() - 2), "cholesky",
        "square floating-point or complex matrices", {x});
  return x.program().add(
      {"stablehlo.cholesky", {x}, Attributes().flag("lower", lower).take(), {}, {x.type()}});
}

Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                       Transpose transpose) {
  constexpr const char* kNames[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  bool fits = is_matrix(a) && is_matrix(b) && a.dtype() == b.dtype() && a.rank() == b.rank() &&
              a.dim(a.rank() - 1) == a.dim(a.rank() - 2) &&
              a.dim(a.rank() - 1) == b.dim(b.rank() - (left_side ? 2 : 1));
  for (int i = 0; fits && i < a.rank() - 2; ++i) fits = a.dim(i) == b.dim(i);
  check(fits, "triangular_solve", "square matrices and right-hand sides of one dtype that match", {a, b});
  std::string text = Attributes()
                         .flag("left_side", left_side)
                         .flag("lower", lower)
                         .verbatim("transpose_a", std::string("#stablehlo<transpose ") +
                                                      kNames[static_cast<int>(transpose)] + ">")
                         .flag("unit_diagonal", unit_diagonal)
                         .take();
  return a.program().add({"stablehlo.triangular_solve", {a, b}, std::move(text), {}, {b.type()}});
}

Value fft(Value x, Fft kind, const Dims& length) {
  const char* op = "fft";
  constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  int count = static_cast<int>(length.size());
  check(
      x && count >= 1 && count <= 3 && count <= x.rank() &&
          (kind == Fft::kRfft ? x.dtype() == DType::kF32 || x.dtype() == DType::kF64 : is_complex(x.dtype())),
      op, "an operand (f32 or f64 for rfft, else complex) and 1 to 3 lengths", {x});
  Type type = x.type();
  for (int i = 0; i < count; ++i) {
    int64_t& dim = type.dims[x.rank() - count + i];
    bool last = i == count - 1;
    check(dim == (last && kind == Fft::kIrfft ? length[i] / 2 + 1 : length[i]), op,
          "last dims of the lengths (for irfft, half of the last one plus 1)", {x});
    if (last && kind == Fft::kRfft) dim = length[i] / 2 + 1;
    if (last && kind == Fft::kIrfft) dim = length[i];
  }
  if (kind == Fft::kRfft) type.dtype = complex_of(type.dtype);
  if (kind == Fft::kIrfft) type.dtype = real_of(type.dtype);
  std::string text =
      Attributes()
          .array("fft_length", length)
          .verbatim("fft_type", std::string("#stablehlo<fft_type ") + kNames[static_cast<int>(kind)] + ">")
          .take();
  return x.program().add({"stablehlo.fft", {x}, std::move(text), {}, {std::move(type)}});
}

}  // namespace tpu::hlo
