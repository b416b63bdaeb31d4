// SPDX-License-Identifier: Apache-2.0
// Measures one PJRT plugin; built and run by plugins.py, prints JSON.
//   plugins_bench PLUGIN measure | flags | try [FLAG=VALUE ...] | save FILE | load FILE
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "pjrt/client.h"
#include "timing.h"

using namespace tpu::pjrt;

namespace {

double median_of(int count, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    auto start = Clock::now();
    work();
    times.push_back(since(start));
  }
  return median(times);
}

// A JSON object of numbers and texts, printed as it grows.
class Json {
 public:
  ~Json() { std::printf("%s}\n", first_ ? "{" : ""); }
  void number(const std::string& key, double value) { put(key, std::to_string(value)); }
  void text(const std::string& key, const std::string& value) {
    std::string quoted = "\"";
    for (char c : value.substr(0, 160)) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c < ' ' ? ' ' : c;
    }
    put(key, quoted + "\"");
  }

 private:
  void put(const std::string& key, const std::string& value) {
    std::printf("%s\"%s\": %s", first_ ? "{" : ",\n ", key.c_str(), value.c_str());
    first_ = false;
  }
  bool first_ = true;
};

std::string main_of(const std::string& signature, const std::string& body) {
  return "module {\nfunc.func @main" + signature + " {\n" + body + "}\n}\n";
}

std::string add(const std::string& type) {
  std::string t = "tensor<" + type + ">";
  return main_of("(%a: " + t + ", %b: " + t + ") -> " + t,
                 "%c = stablehlo.add %a, %b : " + t + "\nreturn %c : " + t + "\n");
}

std::string reduce() {
  return main_of("(%a: tensor<64x64xf32>) -> tensor<64xf32>",
                 "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                 "%c = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : "
                 "(tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>\nreturn %c : tensor<64xf32>\n");
}

std::string matmul(int n) {
  std::string t = "tensor<" + std::to_string(n) + "x" + std::to_string(n) + "xf32>";
  return main_of("(%a: " + t + ", %b: " + t + ") -> " + t,
                 "%c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (" + t + ", " + t +
                     ") -> " + t + "\nreturn %c : " + t + "\n");
}

std::string pointwise() {
  std::string t = "tensor<1048576xf32>";
  std::string body;
  const char* ops[] = {"multiply", "add", "subtract", "maximum"};
  std::string last = "%a";
  for (int i = 0; i < 8; ++i) {
    std::string next = "%v" + std::to_string(i);
    body += next + " = stablehlo." + ops[i % 4] + " " + last + ", %b : " + t + "\n";
    last = next;
  }
  body += "%e = stablehlo.exponential " + last + " : " + t + "\n%t = stablehlo.tanh %e : " + t +
          "\nreturn %t : " + t + "\n";
  return main_of("(%a: " + t + ", %b: " + t + ") -> " + t, body);
}

// Six blocks of a linear layer and a softmax: about 66 ops.
std::string composite() {
  std::string t = "tensor<64x64xf32>", v = "tensor<64xf32>";
  std::string body =
      "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n";
  std::string x = "%a";
  for (int i = 0; i < 6; ++i) {
    std::string n = std::to_string(i);
    body += "%d" + n + " = stablehlo.dot_general " + x + ", %b, contracting_dims = [1] x [0] : (" + t + ", " +
            t + ") -> " + t + "\n";
    body += "%s" + n + " = stablehlo.add %d" + n + ", " + x + " : " + t + "\n";
    body += "%t" + n + " = stablehlo.tanh %s" + n + " : " + t + "\n";
    body += "%m" + n + " = stablehlo.reduce(%t" + n +
            " init: %low) applies stablehlo.maximum across dimensions = [1] : (" + t + ", tensor<f32>) -> " +
            v + "\n";
    body += "%n" + n + " = stablehlo.broadcast_in_dim %m" + n + ", dims = [0] : (" + v + ") -> " + t + "\n";
    body += "%o" + n + " = stablehlo.subtract %t" + n + ", %n" + n + " : " + t + "\n";
    body += "%e" + n + " = stablehlo.exponential %o" + n + " : " + t + "\n";
    body += "%r" + n + " = stablehlo.reduce(%e" + n +
            " init: %z) applies stablehlo.add across dimensions = [1] : (" + t + ", tensor<f32>) -> " + v +
            "\n";
    body += "%q" + n + " = stablehlo.broadcast_in_dim %r" + n + ", dims = [0] : (" + v + ") -> " + t + "\n";
    body += "%x" + n + " = stablehlo.divide %e" + n + ", %q" + n + " : " + t + "\n";
    body += "%y" + n + " = stablehlo.multiply %x" + n + ", %s" + n + " : " + t + "\n";
    x = "%y" + n;
  }
  return main_of("(%a: " + t + ", %b: " + t + ") -> " + t, body + "return " + x + " : " + t + "\n");
}

struct Bench {
  Client& client;
  const Device& chip;

  Buffer put(const std::vector<float>& values, std::vector<int64_t> dims) const {
    return std::move(client.from_host(values.data(), PJRT_Buffer_Type_F32, dims, chip).buffer);
  }
  Buffer run(const Executable& program, const std::vector<PJRT_Buffer*>& args) const {
    PJRT_Buffer* out = nullptr;
    program.execute(args, {&out, 1}, chip.get());
    return {client.api(), out};
  }
  double compile_ms(const std::string& text, const std::string& options, int count) const {
    client.compile(text, options);
    return 1e3 * median_of(count, [&] { client.compile(text, options); });
  }
  // Microseconds until the result is there, with a median over single runs.
  double run_us(const Executable& program, const std::vector<PJRT_Buffer*>& args, int count) const {
    for (int i = 0; i < 3; ++i) run(program, args).ready().await();
    return 1e6 * median_of(count, [&] { run(program, args).ready().await(); });
  }
};

Buffer matrix(const Bench& bench, int n) {
  std::vector<float> values(static_cast<size_t>(n) * n);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 17.f - 0.4f;
  return bench.put(values, {n, n});
}

Buffer vector(const Bench& bench, int n) {
  std::vector<float> values(n);
  for (int i = 0; i < n; ++i) values[i] = static_cast<float>(i % 31) / 31.f;
  return bench.put(values, {n});
}

// Percent of launches whose result was ready when execute returned.
double ready_at_return(const Bench& bench, const Executable& program, const std::vector<PJRT_Buffer*>& args) {
  int ready = 0;
  for (int i = 0; i < 100; ++i) {
    Buffer out = bench.run(program, args);
    ready += out.ready().is_ready();
    out.ready().await();
  }
  return ready;
}

void measure(const Bench& bench, Json& json) {
  std::string options = CompileOptions{}.encode();
  json.number("compile_add_ms", bench.compile_ms(add("16xf32"), options, 15));
  json.number("compile_reduce_ms", bench.compile_ms(reduce(), options, 11));
  json.number("compile_matmul_512_ms", bench.compile_ms(matmul(512), options, 11));
  json.number("compile_composite_ms", bench.compile_ms(composite(), options, 5));

  Executable add16 = bench.client.compile(add("16xf32"), options);
  Executable big_matmul = bench.client.compile(matmul(512), options);
  Executable chain = bench.client.compile(pointwise(), options);
  Executable composed = bench.client.compile(composite(), options);
  Buffer x = vector(bench, 16);
  Buffer m = matrix(bench, 512);
  Buffer s = matrix(bench, 64);
  Buffer v = vector(bench, 1 << 20);

  PJRT_Buffer* args[] = {x.get(), x.get()};
  auto batch = [&](bool wait) {
    constexpr int kRuns = 2000;
    auto start = Clock::now();
    for (int i = 0; i < kRuns; ++i) {
      PJRT_Buffer* raw = nullptr;
      add16.execute(args, {&raw, 1}, bench.chip.get());
      Buffer out(bench.client.api(), raw);
      if (wait) out.ready().await();
    }
    return 1e6 * since(start) / kRuns;
  };
  std::vector<double> launched, awaited;
  for (int i = 0; i < 9; ++i) launched.push_back(batch(false)), awaited.push_back(batch(true));
  json.number("execute_add_16_us", median(launched));
  json.number("execute_add_16_awaited_us", median(awaited));
  {
    auto start = Clock::now();
    for (int i = 0; i < 20000; ++i) x.ready();
    json.number("ready_event_us", 1e6 * since(start) / 20000);
  }
  {
    auto start = Clock::now();
    for (int i = 0; i < 20000; ++i) x.is_deleted();
    json.number("cheapest_call_us", 1e6 * since(start) / 20000);
  }
  {
    std::vector<float> host(16);
    json.number("from_host_16_us", 1e6 * median_of(2000, [&] { bench.put(host, {16}); }));
    json.number("read_16_us", 1e6 * median_of(2000, [&] { x.read(host.data(), 64); }));
    json.number("to_host_16_us", 1e6 * median_of(2000, [&] { x.to_host(host.data(), 64).await(); }));
  }
  json.number("matmul_512_us", bench.run_us(big_matmul, {m.get(), m.get()}, 40));
  json.number("pointwise_1M_us", bench.run_us(chain, {v.get(), v.get()}, 40));
  json.number("composite_us", bench.run_us(composed, {s.get(), s.get()}, 40));
  json.number("ready_at_return_add_16_percent", ready_at_return(bench, add16, {x.get(), x.get()}));
  json.number("ready_at_return_composite_percent", ready_at_return(bench, composed, {s.get(), s.get()}));
  json.number("ready_at_return_matmul_512_percent", ready_at_return(bench, big_matmul, {m.get(), m.get()}));

  std::string saved = add16.serialize();
  std::string saved_composite = composed.serialize();
  json.number("serialize_add_ms", 1e3 * median_of(15, [&] { add16.serialize(); }));
  json.number("serialized_add_bytes", static_cast<double>(saved.size()));
  json.number("deserialize_add_ms", 1e3 * median_of(15, [&] { bench.client.deserialize(saved); }));
  json.number("deserialize_composite_ms",
              1e3 * median_of(7, [&] { bench.client.deserialize(saved_composite); }));
}

// What strict IEEE arithmetic demands; returns the failed demands.
std::string not_ieee(const Bench& bench, const std::string& options) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float tiny = 1e-40f;  // denormal
  std::string failed;
  auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
  };
  auto check = [&](const std::string& name, const std::string& body, std::vector<float> a,
                   std::vector<float> b, std::vector<float> expected) {
    // 67 elements: vector bodies and remainders both see each case.
    constexpr size_t kSize = 67;
    auto repeat = [](std::vector<float> values) {
      std::vector<float> result(kSize);
      for (size_t i = 0; i < kSize; ++i) result[i] = values[i % values.size()];
      return result;
    };
    std::string t = "tensor<67xf32>";
    std::string text =
        main_of("(%a: " + t + ", %b: " + t + ") -> " + t, body + " : " + t + "\nreturn %c : " + t + "\n");
    Executable program = bench.client.compile(text, options);
    Buffer x = bench.put(repeat(a), {kSize}), y = bench.put(repeat(b), {kSize});
    Buffer out = bench.run(program, {x.get(), y.get()});
    std::vector<float> got(kSize), want = repeat(expected);
    out.to_host(got.data(), kSize * 4).await();
    for (size_t i = 0; i < kSize; ++i) {
      if (!same(want[i], got[i])) {
        failed += (failed.empty() ? "" : " ") + name;
        return;
      }
    }
  };
  check("exp", "%c = stablehlo.exponential %a", {nan, inf, -inf, 0}, {0}, {nan, inf, 0, 1});
  check("tanh", "%c = stablehlo.tanh %a", {nan, inf, -inf, -0.f}, {0}, {nan, 1, -1, -0.f});
  check("log", "%c = stablehlo.log %a", {nan, -1, 0, inf}, {0}, {nan, nan, -inf, inf});
  check("sqrt", "%c = stablehlo.sqrt %a", {nan, -1, -0.f, 2}, {0}, {nan, nan, -0.f, std::sqrt(2.f)});
  check("maximum", "%c = stablehlo.maximum %a, %b", {nan, 1, -inf, nan}, {1, nan, 2, inf},
        {nan, nan, 2, nan});
  check("minimum", "%c = stablehlo.minimum %a, %b", {nan, 1, -inf, nan}, {1, nan, 2, -inf},
        {nan, nan, -inf, nan});
  check("zero_times_inf", "%c = stablehlo.multiply %a, %b", {0, inf, nan}, {inf, 2, 0}, {nan, inf, nan});
  check("x_minus_x", "%c = stablehlo.subtract %a, %a", {inf, nan, 1}, {0}, {nan, nan, 0});
  check("x_over_x", "%c = stablehlo.divide %a, %a", {0, inf, 3}, {0}, {nan, nan, 1});
  check("divide", "%c = stablehlo.divide %a, %b", {1, 2, 5, 7}, {3, 7, 11, 0},
        {1.f / 3, 2.f / 7, 5.f / 11, inf});
  check("denormal_add", "%c = stablehlo.add %a, %a", {tiny}, {0}, {tiny + tiny});
  check("denormal_multiply", "%c = stablehlo.multiply %a, %b", {1e-20f, tiny}, {1e-20f, 0.5f},
        {1e-20f * 1e-20f, tiny * .5f});
  check("no_reassociation", "%s = stablehlo.add %a, %b : tensor<67xf32>\n%c = stablehlo.subtract %s, %b",
        {1, 1e-3f}, {1e8f, 1e8f}, {0, 0});
  check("no_contraction", "%s = stablehlo.multiply %a, %a : tensor<67xf32>\n%c = stablehlo.subtract %s, %b",
        {1.0001f}, {1.0001f * 1.0001f}, {0});
  return failed;
}

// bfloat16: is every intermediate rounded (256 + 1 + 1 is 256), or is precision kept inside fusions?
std::string bf16_rounding(const Bench& bench, const std::string& options) {
  std::string t = "tensor<64xbf16>";
  Executable program =
      bench.client.compile(main_of("(%a: " + t + ", %b: " + t + ") -> " + t,
                                   "%s = stablehlo.add %a, %b : " + t + "\n%c = stablehlo.add %s, %b : " + t +
                                       "\nreturn %c : " + t + "\n"),
                           options);
  std::vector<uint16_t> a(64, 0x4380), b(64, 0x3f80), out(64);
  std::vector<int64_t> dims{64};
  Buffer x = std::move(bench.client.from_host(a.data(), PJRT_Buffer_Type_BF16, dims, bench.chip).buffer);
  Buffer y = std::move(bench.client.from_host(b.data(), PJRT_Buffer_Type_BF16, dims, bench.chip).buffer);
  bench.run(program, {x.get(), y.get()}).to_host(out.data(), 128).await();
  return out[0] == 0x4380 ? "each op" : "only at the end";
}

using Flags = decltype(CompileOptions::xla_flags);

struct Case {
  std::string name;
  Flags flags;
  std::optional<float> effort = {};
};

std::vector<Case> cases() {
  using namespace std::string_literals;
  auto level = [](int64_t value) { return std::pair{"xla_backend_optimization_level"s, value}; };
  std::pair no_wrapper{"xla_disable_hlo_passes"s, "fusion-wrapper"s};
  std::pair no_fusion{"xla_disable_hlo_passes"s, "fusion-wrapper,fusion"s};
  std::pair nan_min_max{"xla_cpu_enable_fast_min_max"s, false};
  return {
      {"defaults", {}},
      {"strict min max", {nan_min_max}},
      {"level 0", {level(0)}},
      {"level 1", {level(1)}},
      {"no fusion wrapper", {no_wrapper}},
      {"strict min max, no wrapper, level 1", {nan_min_max, no_wrapper, level(1)}},
      {"strict min max, no wrapper, level 0", {nan_min_max, no_wrapper, level(0)}},
      {"strict min max, no fusion, level 1", {nan_min_max, no_fusion, level(1)}},
      {"no HLO passes", {{"xla_disable_all_hlo_passes", true}}},
      {"no expensive LLVM passes", {{"xla_llvm_disable_expensive_passes", true}}},
      {"codegen split 1", {{"xla_cpu_parallel_codegen_split_count", int64_t{1}}}},
      {"vector width 128", {{"xla_cpu_prefer_vector_width", int64_t{128}}}},
      {"no embedded IR", {{"xla_embed_ir_in_executable", false}}},
      {"no denormal flush", {{"xla_cpu_ftz", false}}},
      {"no excess precision", {{"xla_allow_excess_precision", false}}},
      {"fast math", {{"xla_cpu_enable_fast_math", true}}},
      {"effort -1", {}, -1.f},
  };
}

// One-op programs, as strict eager mode makes them.
std::vector<std::pair<std::string, std::string>> single_ops() {
  std::string t = "tensor<64x64xf32>";
  auto unary = [&](const std::string& op) {
    return main_of("(%a: " + t + ") -> " + t,
                   "%c = stablehlo." + op + " %a : " + t + "\nreturn %c : " + t + "\n");
  };
  auto shaped = [&](const std::string& op, const std::string& out) {
    return main_of("(%a: " + t + ") -> " + out,
                   "%c = stablehlo." + op + " : (" + t + ") -> " + out + "\nreturn %c : " + out + "\n");
  };
  return {{"exp", unary("exponential")},
          {"tanh", unary("tanh")},
          {"convert", shaped("convert %a", "tensor<64x64xbf16>")},
          {"transpose", shaped("transpose %a, dims = [1, 0]", t)},
          {"reshape", shaped("reshape %a", "tensor<4096xf32>")},
          {"broadcast", shaped("broadcast_in_dim %a, dims = [1, 2]", "tensor<4x64x64xf32>")},
          {"slice", main_of("(%a: " + t + ") -> tensor<32x64xf32>",
                            "%c = stablehlo.slice %a [0:32, 0:64] : (" + t +
                                ") -> tensor<32x64xf32>\nreturn %c : tensor<32x64xf32>\n")}};
}

void flags(const Bench& bench, const std::vector<Case>& all) {
  Buffer m = matrix(bench, 512), v = vector(bench, 1 << 20), s = matrix(bench, 64);
  bench.compile_ms(composite(), CompileOptions{}.encode(), 3);
  for (const Case& one : all) {
    Json json;
    json.text("case", one.name);
    CompileOptions wanted;
    wanted.xla_flags = one.flags;
    wanted.effort = one.effort;
    std::string options = wanted.encode();
    try {
      json.number("add_ms", bench.compile_ms(add("16xf32"), options, 11));
      json.number("reduce_ms", bench.compile_ms(reduce(), options, 7));
      json.number("matmul_ms", bench.compile_ms(matmul(512), options, 7));
      json.number("composite_ms", bench.compile_ms(composite(), options, 3));
      json.number("run_matmul_us",
                  bench.run_us(bench.client.compile(matmul(512), options), {m.get(), m.get()}, 15));
      json.number("run_pointwise_us",
                  bench.run_us(bench.client.compile(pointwise(), options), {v.get(), v.get()}, 15));
      json.number("run_composite_us",
                  bench.run_us(bench.client.compile(composite(), options), {s.get(), s.get()}, 15));
      for (const auto& [name, text] : single_ops())
        json.number(name + "_ms", bench.compile_ms(text, options, 7));
      std::string t = "tensor<1048576xf32>";
      for (const char* op : {"add", "maximum", "divide"}) {
        std::string text =
            main_of("(%a: " + t + ", %b: " + t + ") -> " + t,
                    std::string("%c = stablehlo.") + op + " %a, %b : " + t + "\nreturn %c : " + t + "\n");
        json.number(std::string("run_1M_") + op + "_us",
                    bench.run_us(bench.client.compile(text, options), {v.get(), v.get()}, 25));
      }
      for (const char* op : {"exponential", "tanh"}) {
        std::string text = main_of("(%a: " + t + ") -> " + t, std::string("%c = stablehlo.") + op +
                                                                  " %a : " + t + "\nreturn %c : " + t + "\n");
        json.number(std::string("run_1M_") + op + "_us",
                    bench.run_us(bench.client.compile(text, options), {v.get()}, 25));
      }
      json.text("not_ieee", not_ieee(bench, options));
      json.text("bf16_rounds", bf16_rounding(bench, options));
    } catch (const Error& error) {
      json.text("error", error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(
        stderr,
        "usage: plugins_bench PLUGIN measure | flags | try [FLAG=VALUE ...] | save FILE | load FILE\n");
    return 2;
  }
  std::string mode = argv[2];
  auto start = Clock::now();
  const Api& api = Api::load(argv[1]);
  double load_ms = 1e3 * since(start);
  start = Clock::now();
  Client client(api, {}, {{"cpu_device_count", int64_t{2}}});
  double create_ms = 1e3 * since(start);
  Bench bench{client, client.devices().at(0)};
  if (mode == "measure") {
    Json json;
    json.text("pjrt_version",
              std::to_string(api.version().first) + "." + std::to_string(api.version().second));
    json.text("platform_version", client.platform_version());
    json.number("devices", static_cast<double>(client.devices().size()));
    json.number("load_ms", load_ms);
    json.number("create_client_ms", create_ms);
    measure(bench, json);
  } else if (mode == "flags") {
    flags(bench, cases());
  } else if (mode == "try") {
    Flags given;
    for (int i = 3; i < argc; ++i) {
      std::string word = argv[i], name = word.substr(0, word.find('=')),
                  value = word.substr(word.find('=') + 1);
      bool integer = !value.empty() && value.find_first_not_of("-0123456789") == std::string::npos;
      if (value == "true" || value == "false")
        given[name] = value == "true";
      else if (integer)
        given[name] = int64_t{std::stoll(value)};
      else
        given[name] = value;
    }
    flags(bench, {{"given", given}});
  } else if (mode == "save") {
    std::ofstream(argv[3], std::ios::binary)
        << client.compile(composite(), CompileOptions{}.encode()).serialize();
  } else if (mode == "load") {
    std::ifstream file(argv[3], std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "[loading]\n");
    client.deserialize(bytes);
  }
}
