// SPDX-License-Identifier: Apache-2.0
// Programs: their text, their hash, reuse of equal ops, and what close leaves out.
#include <limits>

#include "check.h"
#include "hlo/math.h"
#include "hlo/padded.h"

using namespace tpu::hlo;

static const Type kVector = {DType::kF32, {4}};

static Closed closed(const std::vector<Value>& outputs,
                     const std::vector<Program::Donation>& donations = {}) {
  return outputs[0].program().close(outputs, donations);
}

TEST(text_of_a_small_program) {
  Program p;
  Value x = p.parameter(kVector), y = p.parameter(kVector);
  CHECK_EQ(closed({add(x, y)}, {{0, 0}}).text,
           "module @m {\n"
           "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: "
           "tensor<4xf32>) -> "
           "(tensor<4xf32>) {\n"
           "    %0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
           "    return %0 : tensor<4xf32>\n"
           "  }\n"
           "}\n");
}

TEST(text_of_a_region) {
  Program p;
  Value x = p.parameter({DType::kBF16, {2, 3}});
  CHECK_EQ(closed({reduce_sum(x, {1})}).text,
           "module @m {\n"
           "  func.func public @main(%arg0: tensor<2x3xbf16>) -> (tensor<2xbf16>) {\n"
           "    %0 = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<bf16>}> : () -> tensor<bf16>\n"
           "    %1 = \"stablehlo.reduce\"(%arg0, %0) <{dimensions = array<i64: 1>}> ({\n"
           "    ^bb0(%arg1: tensor<bf16>, %arg2: tensor<bf16>):\n"
           "      %2 = \"stablehlo.add\"(%arg1, %arg2) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>\n"
           "      \"stablehlo.return\"(%2) : (tensor<bf16>) -> ()\n"
           "    }) : (tensor<2x3xbf16>, tensor<bf16>) -> tensor<2xbf16>\n"
           "    return %1 : tensor<2xbf16>\n"
           "  }\n"
           "}\n");
}

TEST(several_results_are_numbered) {
  Program p;
  auto [values, indices] = top_k(p.parameter(kVector), 2);
  std::string text = closed({values, indices}).text;
  CHECK(text.find("%0:2 = \"chlo.top_k\"(%arg0) <{k = 2 : i64}> : (tensor<4xf32>) -> (tensor<2xf32>, "
                  "tensor<2xi32>)") != std::string::npos);
  CHECK(text.find("return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>") != std::string::npos);
}

TEST(nested_regions_have_names_of_their_own) {
  Program p;
  Value n = p.parameter({DType::kF32, {}});
  auto outputs = while_loop(
      {n}, [](const std::vector<Value>& v) { return gt(v[0], 0.0); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        return {v[0] - reduce_sum(broadcast_to(v[0], {3}), {0})};
      });
  std::string text = closed(outputs).text;
  for (const char* name : {"%0 =", "%1 =", "%2 =", "%3 =", "%4 =", "%5 =", "%6 =", "%7 ="}) {
    size_t at = text.find(std::string(" ") + name);
    if (at != std::string::npos) CHECK_EQ(text.find(std::string(" ") + name, at + 1), std::string::npos);
  }
  CHECK(text.find("^bb0(%arg1: tensor<f32>)") != std::string::npos);
  CHECK(text.find("^bb0(%arg2: tensor<f32>)") != std::string::npos);
  CHECK(text.find("^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>)") != std::string::npos);
}

TEST(what_nobody_needs_is_left_out) {
  Program p;
  Value a = p.parameter(kVector), b = p.parameter(kVector), c = p.parameter(kVector);
  exponential(a);
  Value out = negate(b);
  Closed result = closed({out, out, b});
  CHECK_EQ(result.parameters, std::vector<int>{1});
  CHECK(result.text.find("exponential") == std::string::npos);
  CHECK(result.text.find("return %0, %0, %arg0 :") != std::string::npos);
  CHECK_EQ(result.outputs.size(), size_t{3});
  Closed donated = closed({out}, {{2, 0}});
  CHECK_EQ(donated.parameters, (std::vector<int>{1, 2}));
  CHECK_EQ(p.parameter_index(c), 2);
  CHECK_EQ(p.parameter_index(out), -1);
}

TEST(equal_ops_are_recorded_once) {
  Program p;
  Value x = p.parameter(kVector), y = p.parameter(kVector);
  CHECK(x != y);
  CHECK(add(x, y) == add(x, y));
  CHECK(add(x, y) != add(y, x));
  CHECK(reduce_sum(x, {0}) == reduce_sum(x, {0}));
  CHECK(reduce_sum(x, {0}) != reduce_max(x, {0}));
  CHECK(constant(p, kVector, 1.0) == constant(p, kVector, 1));
  for (int i = 0; i < 1000; ++i) constant(p, {DType::kS32, {}}, i);
  int32_t count = p.op_count();
  for (int i = 0; i < 1000; ++i) constant(p, {DType::kS32, {}}, i);
  CHECK_EQ(p.op_count(), count);
  auto call = [&](bool side_effect) { return custom_call(p, "f", {x}, {kVector}, "", side_effect)[0]; };
  CHECK(call(false) == call(false));
  CHECK(call(true) != call(true));
  CHECK(p.has_side_effect());
}

TEST(references_to_types_stay_valid) {
  Program p;
  Value x = p.parameter({DType::kF32, {7, 5}});
  const Dims& dims = x.dims();
  for (int i = 0; i < 5000; ++i) constant(p, {DType::kS32, {}}, i);
  CHECK_EQ(dims, (Dims{7, 5}));
}

TEST(hash_is_of_structure) {
  auto hash = [](Type type, bool extra, bool donate, int dim, auto op) {
    Program p;
    if (extra) exponential(p.parameter(type));  // neither names nor unused ops matter
    Value x = p.parameter(type);
    std::vector<Program::Donation> donations;
    if (donate) donations.push_back({p.parameter_index(x), 0});
    Closed with = closed({op(reverse(x, {dim}))}, donations);
    std::vector<Value> outputs = {op(reverse(x, {dim}))};
    CHECK_EQ(p.close(outputs, donations, false).hash, with.hash);
    CHECK_EQ(p.close(outputs, donations, false).text, "");
    return with.hash;
  };
  Type type = {DType::kF32, {2, 3}};
  Hash base = hash(type, false, false, 0, negate);
  CHECK_EQ(hash(type, true, false, 0, negate), base);
  CHECK(hash(type, false, true, 0, negate) != base);
  CHECK(hash(type, false, false, 1, negate) != base);
  CHECK(hash(type, false, false, 0, sine) != base);
  CHECK(hash({DType::kF64, {2, 3}}, false, false, 0, negate) != base);
  CHECK(hash({DType::kF32, {3, 2}}, false, false, 0, negate) != base);
}

TEST(hash_is_equal_across_processes) {
  // The disk cache rests on this. A change of these words is a change of every key.
  Program p;
  Value x = p.parameter(kVector);
  Hash hash = closed({add(x, x)}).hash;
  CHECK_EQ(hash[0], 0x3242AA6BC13A1119u);
  CHECK_EQ(hash[1], 0xD3291A9DE36D9503u);
}

TEST(hash_of_outputs_and_parameters) {
  Program p;
  Value x = p.parameter(kVector), y = p.parameter(kVector);
  Value sum = subtract(x, y), other = subtract(y, x);
  CHECK(closed({sum, other}).hash != closed({other, sum}).hash);
  CHECK(closed({sum}).hash != closed({sum, sum}).hash);
  CHECK(closed({x}).hash == closed({y}).hash);
  CHECK(closed({sum}, {{0, 0}}).hash != closed({sum}, {{1, 0}}).hash);
}

TEST(hash_of_regions) {
  auto hash = [](Binary body) {
    Program p;
    Value x = p.parameter(kVector);
    return closed({reduce(x, constant(p, {DType::kF32, {}}, 0), {0}, body)}).hash;
  };
  CHECK_EQ(hash(add), hash(add));
  CHECK(hash(add) != hash(multiply));
}

TEST(bodies_may_not_use_values_from_outside) {
  Program p;
  Value x = p.parameter(kVector), zero = constant(p, {DType::kF32, {}}, 0);
  auto leak = [&](const std::vector<Value>& left, const std::vector<Value>&) -> std::vector<Value> {
    return {add(left[0], zero)};
  };
  auto returned = [&](const std::vector<Value>&, const std::vector<Value>&) -> std::vector<Value> {
    return {zero};
  };
  CHECK_THROWS(reduce({x}, {zero}, {0}, leak), "hlo::add: expected operands of the program (or region)");
  CHECK_THROWS(reduce({x}, {zero}, {0}, returned),
               "hlo::return: expected values of the region, not from outside");
  CHECK_THROWS(while_loop(
                   {x}, [&](const std::vector<Value>&) { return lt(zero, zero); },
                   [](const std::vector<Value>& v) { return v; }),
               "not from outside");
  Program other;
  CHECK_THROWS(add(x, other.parameter(kVector)), "hlo::add");
}

TEST(donations_are_checked) {
  Program p;
  Value x = p.parameter(kVector), y = p.parameter({DType::kF32, {2}});
  CHECK_THROWS(closed({negate(x)}, {{1, 0}}), "hlo::close: expected each donation");
  CHECK_THROWS(closed({negate(x), sine(x)}, {{0, 0}, {0, 1}}), "hlo::close");
  CHECK_THROWS(closed({negate(x)}, {{0, 1}}), "hlo::close");
  CHECK_THROWS(closed({negate(y)}, {{2, 0}}), "hlo::close");
}

TEST(moves_that_do_nothing_are_not_recorded) {
  Program p;
  Value x = p.parameter({DType::kF32, {2, 3, 4}});
  CHECK(reshape(x, {2, 3, 4}) == x);
  CHECK(reshape(reshape(x, {6, 4}), {2, 3, 4}) == x);
  CHECK(transpose(x, {0, 1, 2}) == x);
  CHECK(transpose(transpose(x, {2, 0, 1}), {1, 2, 0}) == x);
  CHECK(transpose(transpose(x, {1, 0, 2}), {0, 2, 1}) == transpose(x, {1, 2, 0}));
  CHECK_EQ(transpose(x, {1, 2, 0}).dims(), (Dims{3, 4, 2}));
  CHECK(convert(x, DType::kF32) == x);
  CHECK(broadcast_in_dim(x, {2, 3, 4}, {0, 1, 2}) == x);
  CHECK(slice(x, {0, 0, 0}, {2, 3, 4}) == x);
  CHECK(concatenate({x}, 1) == x);
  CHECK(pad(x, constant(p, {DType::kF32, {}}, 0), {0, 0, 0}, {0, 0, 0}) == x);
  CHECK(reduce_sum(x, {}) == x);
}

// ---- types and constants

TEST(types_print_as_stablehlo_has_them) {
  CHECK_EQ((Type{DType::kPred, {}}).str(), "tensor<i1>");
  CHECK_EQ((Type{DType::kU8, {2, 0}}).str(), "tensor<2x0xui8>");
  CHECK_EQ((Type{DType::kC64, {1}}).str(), "tensor<1xcomplex<f32>>");
  CHECK_EQ((Type{DType::kF8E4M3FN, {}}).str(), "tensor<f8E4M3FN>");
  CHECK_EQ((Type{DType::kC128, {3}}).bytes(), size_t{48});
  CHECK_EQ((Type{DType::kF32, {}}).numel(), 1);
}

template <class T>
static std::string constant_text(DType dtype, T value) {
  Program p;
  std::string text = p.op(constant(p, Type{dtype, {}}, value).op()).attributes;
  return text.substr(text.find('<') + 1, text.find('>') - text.find('<') - 1);
}

TEST(constants_keep_their_bits) {
  double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  CHECK_EQ(constant_text(DType::kF32, 2), "2.0");
  CHECK_EQ(constant_text(DType::kF32, -0.0), "0x80000000");
  CHECK_EQ(constant_text(DType::kF32, 0.1), "0x3DCCCCCD");
  CHECK_EQ(constant_text(DType::kF32, nan), "0x7FC00000");
  CHECK_EQ(constant_text(DType::kF32, -infinity), "0xFF800000");
  CHECK_EQ(constant_text(DType::kF32, 1e300), "0x7F800000");
  CHECK_EQ(constant_text(DType::kF32, 1e-45), "0x00000001");
  CHECK_EQ(constant_text(DType::kF64, 0.1), "0x3FB999999999999A");
  CHECK_EQ(constant_text(DType::kBF16, 0.1), "0x3DCD");
  CHECK_EQ(constant_text(DType::kBF16, 257), "0x4380");  // ties to even
  CHECK_EQ(constant_text(DType::kBF16, 259), "0x4382");
  CHECK_EQ(constant_text(DType::kF16, 65519.0), "0x7BFF");
  CHECK_EQ(constant_text(DType::kF16, 65520.0), "0x7C00");
  CHECK_EQ(constant_text(DType::kF16, 5.96e-8), "0x0001");
  CHECK_EQ(constant_text(DType::kF8E4M3FN, 448), "0x7E");
  CHECK_EQ(constant_text(DType::kF8E4M3FN, infinity), "0x7F");
  CHECK_EQ(constant_text(DType::kF8E5M2, infinity), "0x7C");
  CHECK_EQ(constant_text(DType::kC64, std::complex<double>(1, 0.1)), "(1.0, 0x3DCCCCCD)");
  CHECK_EQ(constant_text(DType::kC128, 3), "(3.0, 0.0)");
  CHECK_EQ(constant_text(DType::kPred, 1), "true");
  CHECK_EQ(constant_text(DType::kS64, std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  CHECK_EQ(constant_text(DType::kU64, int64_t{-1}), "18446744073709551615");
  CHECK_EQ(constant_text(DType::kU8, 255.0), "255");
  CHECK_THROWS(constant_text(DType::kU8, 256), "hlo::constant: expected a value within ui8, not 256");
  CHECK_THROWS(constant_text(DType::kS32, 0.5), "expected a whole number for tensor<i32>");
  CHECK_THROWS(constant_text(DType::kF32, std::complex<double>(0, 1)), "a complex type for a complex value");
}

TEST(dense_constants) {
  Program p;
  auto text = [&](Value value) { return p.op(value.op()).attributes; };
  CHECK_EQ(text(constant(p, {2, 2}, {1, 2, 3, 4})), "value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>");
  CHECK_EQ(text(constant(p, {3}, {7, 7, 7}, DType::kS32)), "value = dense<7> : tensor<3xi32>");
  CHECK_EQ(text(constant(p, {0, 2}, {})), "value = dense<> : tensor<0x2xi64>");
  CHECK_EQ(text(constant(p, {2}, {1, 0}, DType::kPred)), "value = dense<[true, false]> : tensor<2xi1>");
  CHECK_THROWS(constant(p, {3}, {1}), "expected as many values as tensor<3xi64> has elements, not 1");
  CHECK_EQ(text(lowest(p, DType::kS8)), "value = dense<-128> : tensor<i8>");
  CHECK_EQ(text(highest(p, DType::kU64)), "value = dense<18446744073709551615> : tensor<ui64>");
  CHECK_EQ(text(lowest(p, DType::kU8)), "value = dense<0> : tensor<ui8>");
}

// ---- inference and checks

TEST(elementwise) {
  Program p;
  Value f = p.parameter(kVector), c = p.parameter({DType::kC64, {4}}), i = p.parameter({DType::kS32, {4}});
  Value b = p.parameter({DType::kPred, {4}});
  CHECK(abs(c).type() == kVector);
  CHECK(complex(f, f).type() == c.type());
  CHECK(is_finite(f).type() == b.type());
  CHECK(conj(f) == f && real(f) == f);
  CHECK(compare(i, i, Direction::kLt).type() == b.type());
  CHECK(select(b, f, negate(f)).type() == kVector);
  CHECK(bitcast_convert(f, DType::kS16).dims() == (Dims{4, 2}));
  CHECK(bitcast_convert(bitcast_convert(f, DType::kS16), DType::kF32).type() == kVector);
  CHECK(is_nan(i).dtype() == DType::kPred);
  CHECK_THROWS(
      add(f, p.parameter({DType::kF32, {3}})),
      "hlo::add: expected operands of equal type, got tensor<4xf32> and tensor<3xf32>. This is a defect of "
      "torch_tpu; please report it with this text.");
  CHECK_THROWS(erf(i), "hlo::erf: expected a floating-point operand, got tensor<4xi32>");
  CHECK_THROWS(and_(f, f), "hlo::and: expected a boolean or integer operand");
  CHECK_THROWS(select(f, f, f), "hlo::select: expected a boolean operand");
  CHECK_THROWS(compare(c, c, Direction::kLt), "hlo::compare: expected operands that have an order");
  CHECK_THROWS(negate(Value()), "got no value");
  CHECK_THROWS(clamp(f, i, f), "hlo::clamp");
}

TEST(shapes) {
  Program p;
  Value x = p.parameter({DType::kF32, {2, 3}}), zero = constant(p, {DType::kS32, {}}, 0);
  CHECK_EQ(concatenate({x, x, x}, 1).dims(), (Dims{2, 9}));
  CHECK_EQ(pad(x, constant(p, {DType::kF32, {}}, 0), {1, -1}, {0, 0}, {2, 0}).dims(), (Dims{5, 2}));
  CHECK_EQ(slice(x, {0, 0}, {2, 3}, {1, 2}).dims(), (Dims{2, 2}));
  CHECK_EQ(dynamic_slice(x, {zero, zero}, {1, 2}).dims(), (Dims{1, 2}));
  CHECK_EQ(broadcast_to(x, {5, 2, 3}).dims(), (Dims{5, 2, 3}));
  CHECK_EQ(spread(reduce_max(x, {0}), x, {0}).dims(), (Dims{2, 3}));
  CHECK_EQ(broadcast_dims({5, 1, 3}, {2, 1}), (Dims{5, 2, 3}));
  CHECK_EQ(broadcast_dims({0}, {1}), (Dims{0}));
  CHECK_EQ(squeeze(unsqueeze(x, 1), 1).dims(), (Dims{2, 3}));
  CHECK_EQ(flatten(x).dims(), (Dims{6}));
  CHECK_THROWS(reshape(x, {5}),
               "hlo::reshape: expected as many elements as the result has, got tensor<2x3xf32>");
  CHECK_THROWS(transpose(x, {0, 0}), "hlo::transpose: expected a permutation");
  CHECK_THROWS(slice(x, {0, 0}, {2, 4}), "hlo::slice: expected 0 <= start <= limit <= size");
  CHECK_THROWS(concatenate({x, flatten(x)}, 0), "hlo::concatenate");
  CHECK_THROWS(dynamic_slice(x, {zero}, {1, 2}), "one start for each dim");
  CHECK_THROWS(broadcast_to(x, {2, 4}), "hlo::broadcast_in_dim: expected dims of size 1");
  CHECK_THROWS(broadcast_to(x, {3}), "hlo::broadcast_to: expected at most 1 dims");
  CHECK_THROWS(broadcast_dims({2}, {3}), "hlo::broadcast_dims");
}

TEST(reductions_and_sorts) {
  Program p;
  Value x = p.parameter({DType::kF32, {4, 6}}), zero = constant(p, {DType::kF32, {}}, 0);
  CHECK_EQ(reduce(x, zero, {0}, maximum).dims(), (Dims{6}));
  CHECK_EQ(reduce_window(x, zero, {{2, 2}, {2, 3}, {}, {1, 2}, {{0, 0}, {1, 0}}}, add).dims(), (Dims{2, 2}));
  Window window = {{2, 2}, {2, 2}, {}, {}, {}};
  Value pooled = reduce_window(x, zero, window, add);
  CHECK(select_and_scatter(x, pooled, zero, window, Direction::kGe, add).type() == x.type());
  auto less = [](const std::vector<Value>& l, const std::vector<Value>& r) -> std::vector<Value> {
    return {lt(l[1], r[1])};
  };
  CHECK_EQ(sort({x, iota_like(x, 1, DType::kS32)}, 1, true, less)[1].dtype(), DType::kS32);
  CHECK_EQ(top_k(x, 2).second.dims(), (Dims{4, 2}));
  CHECK_THROWS(reduce(x, x, {0}, add), "hlo::reduce: expected operands of equal dims");
  CHECK_THROWS(reduce(x, zero, {2}, add), "hlo::reduce: expected operands that have the reduced dims");
  CHECK_THROWS(reduce_window(x, zero, {{2}, {}, {}, {}, {}}, add), "hlo::reduce_window");
  CHECK_THROWS(select_and_scatter(x, x, zero, window, Direction::kGe, add),
               "a source with one element for each window");
  CHECK_THROWS(top_k(x, 7), "hlo::top_k");
  CHECK_THROWS(sort({x, flatten(x)}, 0, true, less), "hlo::sort: expected operands of equal dims");
}

TEST(gather_and_scatter) {
  Program p;
  Value x = p.parameter({DType::kF32, {5, 3}}), at = p.parameter({DType::kS64, {2, 4}});
  GatherDims rows;
  rows.offset_dims = {2};
  rows.collapsed_slice_dims = {0};
  rows.start_index_map = {0};
  rows.index_vector_dim = 2;
  Value picked = gather(x, at, rows, {1, 3});
  CHECK_EQ(picked.dims(), (Dims{2, 4, 3}));
  ScatterDims into;
  into.update_window_dims = {2};
  into.inserted_window_dims = {0};
  into.scatter_dims_to_operand_dims = {0};
  into.index_vector_dim = 2;
  CHECK(scatter(x, at, picked, into, add).type() == x.type());
  CHECK(scatter(x, at, picked, into, nullptr).type() == x.type());
  CHECK_THROWS(gather(x, at, rows, {1, 4}), "hlo::gather: expected slice sizes within the operand");
  CHECK_THROWS(gather(x, x, rows, {1, 3}), "an operand and integer indices");
  CHECK_THROWS(scatter(x, at, x, into, add), "hlo::scatter: expected updates with the dims of the indices");
}

TEST(contractions) {
  Program p;
  Value x = p.parameter({DType::kBF16, {2, 3, 4}}), y = p.parameter({DType::kBF16, {2, 4, 5}});
  Value product = dot_general(x, y, {{0}, {0}, {2}, {1}}, Precision::kDefault, DType::kF32);
  CHECK(product.type() == (Type{DType::kF32, {2, 3, 5}}));
  CHECK_THROWS(dot_general(x, y, {{0}, {0}, {1}, {1}}, Precision::kDefault),
               "contracting dims of equal size");
  Value image = p.parameter({DType::kF32, {2, 4, 9, 9}}), kernel = p.parameter({DType::kF32, {6, 2, 3, 3}});
  ConvDims dims;
  dims.lhs_spatial = dims.rhs_spatial = dims.out_spatial = {2, 3};
  ConvOptions options;
  options.stride = {2, 1};
  options.padding = {{1, 1}, {0, -1}};
  options.feature_groups = 2;
  Value result = convolution(image, kernel, dims, options, Precision::kHighest);
  CHECK_EQ(result.dims(), (Dims{2, 6, 5, 6}));
  CHECK(p.op(result.op()).attributes.find("#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>") !=
        std::string::npos);
  CHECK_THROWS(convolution(image, kernel, dims, {}, Precision::kDefault), "whose features match");
  Value matrix = p.parameter({DType::kF32, {3, 3}}), rhs = p.parameter({DType::kF32, {3, 2}});
  CHECK(cholesky(matrix, true).type() == matrix.type());
  CHECK(triangular_solve(matrix, rhs, true, true, false, Transpose::kNone).type() == rhs.type());
  CHECK_THROWS(triangular_solve(matrix, rhs, false, true, false, Transpose::kNone), "hlo::triangular_solve");
  CHECK_THROWS(cholesky(rhs, true), "hlo::cholesky: expected square");
  Value spectrum = fft(matrix, Fft::kRfft, {3});
  CHECK(spectrum.type() == (Type{DType::kC64, {3, 2}}));
  CHECK(fft(spectrum, Fft::kIrfft, {3}).type() == matrix.type());
  CHECK_THROWS(fft(matrix, Fft::kFft, {3}), "hlo::fft");
}

TEST(control_and_random) {
  Program p;
  Value state = p.parameter({DType::kU64, {2}});
  auto [next, bits] = rng_bit_generator(state, {DType::kU32, {7}});
  CHECK(next.type() == state.type());
  CHECK(bits.type() == (Type{DType::kU32, {7}}));
  CHECK_THROWS(rng_bit_generator(bits, {DType::kU32, {7}}), "hlo::rng_bit_generator");
  CHECK_THROWS(while_loop(
                   {state}, [](const std::vector<Value>& v) { return v[0]; },
                   [](const std::vector<Value>& v) { return v; }),
               "hlo::while: expected a condition that is a 0-d boolean");
  Value call = custom_call(p, "f", {state}, {kVector}, "a\"b\n", false)[0];
  CHECK(p.op(call.op()).attributes.find("backend_config = \"a\\22b\\0A\"") != std::string::npos);
  Value typed = custom_call(p, "f", {}, {kVector}, "{n = 1 : i64}", false, CallApi::kFfi)[0];
  CHECK(p.op(typed.op()).attributes.find("api_version = 4 : i32, backend_config = {n = 1 : i64}") !=
        std::string::npos);
  CHECK_EQ(optimization_barrier({state, bits})[1].dims(), (Dims{7}));
}

// ---- programs for several sizes

// Rows and their sum as one more row.
static Value rows_and_sum(Program& p, int64_t n) {
  Value x = p.parameter({DType::kF32, {n, 4}});
  return concatenate({x, reshape(reduce_sum(x, {0}), {1, 4})}, 0);
}

static Skeleton skeleton(Value output) {
  const Value outputs[] = {output};
  return skeleton_of(output.program(), outputs);
}

TEST(skeleton_does_not_depend_on_sizes) {
  Program a, b, c;
  Skeleton five = skeleton(rows_and_sum(a, 5)), six = skeleton(rows_and_sum(b, 6));
  CHECK(five.hash == six.hash);
  CHECK(five.numbers != six.numbers);
  CHECK(skeleton(reduce_sum(c.parameter({DType::kF32, {5, 4}}), {0})).hash !=
        skeleton(reduce_sum(c.parameter({DType::kF32, {5, 4}}), {1})).hash);  // dims are no sizes
}

TEST(fit_finds_the_size_that_changed) {
  Program a, b, c, d;
  Skeleton five = skeleton(rows_and_sum(a, 5)), six = skeleton(rows_and_sum(b, 6));
  std::optional<Fit> found = fit(five.numbers, six.numbers);
  CHECK(found.has_value());
  CHECK_EQ(solve(*found, skeleton(rows_and_sum(c, 9)).numbers).value_or(-1), 9);
  std::vector<int64_t> wrong = skeleton(rows_and_sum(d, 9)).numbers;
  wrong.back() += 1;
  CHECK(!solve(*found, wrong).has_value());
  CHECK(!fit(five.numbers, five.numbers).has_value());
}

// A cache gets one more row, of halves that have as many elements as the cache has rows.
static Value one_more_row(Program& p, int64_t rows) {
  Value cache = p.parameter({DType::kF32, {rows, 16}});
  Value half = p.parameter({DType::kF32, {8}});
  return concatenate({cache, reshape(concatenate({half, negate(half)}, 0), {1, 16})}, 0);
}

TEST(guess_follows_what_is_appended) {
  Program a, b, c, d;
  one_more_row(a, 8);
  std::optional<Fit> found = guess(a);
  CHECK(found.has_value());
  CHECK_EQ(solve(*found, skeleton(one_more_row(b, 11)).numbers).value_or(-1), 11);
  one_more_row(c, 2);
  CHECK(!guess(c).has_value());  // too small to tell
  reduce_sum(d.parameter({DType::kF32, {8, 4}}), {0});
  CHECK(!guess(d).has_value());  // nothing is appended
}

TEST(padded_program_masks_what_it_sums) {
  Program a, b;
  const Value five[] = {rows_and_sum(a, 5)}, six[] = {rows_and_sum(b, 6)};
  const Fit found = *fit(skeleton_of(a, five).numbers, skeleton_of(b, six).numbers);
  CHECK_EQ(margin_of(b, six, found), 1);
  Padded padded = pad_program(b, six, found, 7);
  CHECK_EQ(padded.parameter_types[0].str(), "tensor<8x4xf32>");
  CHECK_EQ(padded.output_types[0].str(), "tensor<8x4xf32>");
  std::string text = padded.program->close(padded.outputs).text;
  CHECK(text.find("%arg1: tensor<i32>") != std::string::npos);  // the size
  CHECK(text.find("stablehlo.select") != std::string::npos);
  CHECK(text.find("stablehlo.dynamic_update_slice") != std::string::npos);
}

TEST(padded_program_refuses_what_it_does_not_know) {
  Program a, b;
  const auto record = [](Program& p, int64_t n) {
    return cholesky(p.parameter({DType::kF32, {n, n}}), true);
  };
  const Value five[] = {record(a, 5)}, six[] = {record(b, 6)};
  const Fit found = *fit(skeleton_of(a, five).numbers, skeleton_of(b, six).numbers);
  CHECK_THROWS(pad_program(b, six, found, 8), "not known to work on padded dims");
}

TEST(dot_general_takes_transposed_operands_as_they_lie) {
  Program p;
  Value x = p.parameter({DType::kF32, {2, 3}}), w = p.parameter({DType::kF32, {5, 3}});
  std::string text =
      closed({dot_general(x, transpose(w, {1, 0}), {{}, {}, {1}, {0}}, Precision::kDefault)}).text;
  CHECK(text.find("transpose") == std::string::npos);
  CHECK(text.find("rhs_contracting_dimensions = [1]") != std::string::npos);
}
