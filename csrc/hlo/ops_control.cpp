// SPDX-License-Identifier: Apache-2.0
// Loops, random bits, foreign code.
#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

std::vector<Type> types_of(const std::vector<Value>& values) {
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(value.type());
  return types;
}

}  // namespace

std::pair<Value, Value> rng_bit_generator(Value state, Type bits) {
  check(state && state.type() == Type{DType::kU64, {2}} && is_integral(bits.dtype) && is_unsigned(bits.dtype),
        "rng_bit_generator", "a state of type tensor<2xui64>, and bits of an unsigned integer type", {state});
  Value first = state.program().add({"stablehlo.rng_bit_generator",
                                     {state},
                                     "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>",
                                     {},
                                     {state.type(), std::move(bits)}});
  return {first, Value(&state.program(), first.op(), 1)};
}

std::vector<Value> while_loop(const std::vector<Value>& init,
                              const std::function<Value(const std::vector<Value>&)>& cond,
                              const std::function<std::vector<Value>(const std::vector<Value>&)>& body) {
  const char* op = "while";
  check(all_values(init), op, "at least one carried value", init);
  auto make = [&](const auto& returned) {
    auto region = std::make_shared<Program>();
    std::vector<Value> arguments;
    for (const Value& value : init) arguments.push_back(region->parameter(value.type()));
    region->set_return(returned(arguments));
    return region;
  };
  auto condition =
      make([&](const std::vector<Value>& arguments) { return std::vector<Value>{cond(arguments)}; });
  auto step = make(body);
  check(condition->returned()[0].type() == Type{DType::kPred, {}}, op, "a condition that is a 0-d boolean",
        condition->returned());
  check(types_of(step->returned()) == types_of(init), op,
        "a body that returns the types of the carried values", step->returned());
  return results_of(
      init[0].program().add(
          {"stablehlo.while", init, {}, {std::move(condition), std::move(step)}, types_of(init)}),
      init.size());
}

std::vector<Value> custom_call(Program& p, const std::string& target, const std::vector<Value>& operands,
                               const std::vector<Type>& results, const std::string& backend_config,
                               bool has_side_effect, CallApi api, const std::string& more_attributes) {
  Attributes attributes;
  attributes.verbatim("api_version", std::to_string(static_cast<int>(api)) + " : i32");
  if (api == CallApi::kFfi)
    attributes.verbatim("backend_config", backend_config.empty() ? "{}" : backend_config);
  else
    attributes.string("backend_config", backend_config);
  attributes.string("call_target_name", target).flag("has_side_effect", has_side_effect);
  std::string text = attributes.take();
  if (!more_attributes.empty()) text += ", " + more_attributes;
  return results_of(p.add({"stablehlo.custom_call", operands, std::move(text), {}, results}), results.size());
}

std::vector<Value> optimization_barrier(const std::vector<Value>& xs) {
  check(all_values(xs), "optimization_barrier", "at least one operand", xs);
  return results_of(xs[0].program().add({"stablehlo.optimization_barrier", xs, {}, {}, types_of(xs)}),
                    xs.size());
}

}  // namespace tpu::hlo
