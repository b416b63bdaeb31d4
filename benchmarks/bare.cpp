// SPDX-License-Identifier: Apache-2.0
// Runs one StableHLO program through the C API alone: what a call costs without PyTorch. Prints JSON.
//   bare PLUGIN PROGRAM.mlir CALLS BATCHES [feed:ARGUMENT=OUTPUT ...] [FLAG=VALUE ...]
// A batch is CALLS launches and one wait. `feed` makes an output the argument of the next call; outputs that
// the program aliases to arguments are fed by themselves, as the call deletes those arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <stdexcept>

#include "pjrt/client.h"
#include "timing.h"

using namespace tpu::pjrt;

namespace {

struct Dtype {
  PJRT_Buffer_Type type;
  size_t width;
};

const std::map<std::string, Dtype> dtypes = {
    {"bf16", {PJRT_Buffer_Type_BF16, 2}}, {"f16", {PJRT_Buffer_Type_F16, 2}},
    {"f32", {PJRT_Buffer_Type_F32, 4}},   {"f64", {PJRT_Buffer_Type_F64, 8}},
    {"i1", {PJRT_Buffer_Type_PRED, 1}},   {"i8", {PJRT_Buffer_Type_S8, 1}},
    {"i16", {PJRT_Buffer_Type_S16, 2}},   {"i32", {PJRT_Buffer_Type_S32, 4}},
    {"i64", {PJRT_Buffer_Type_S64, 8}},   {"ui8", {PJRT_Buffer_Type_U8, 1}},
    {"ui16", {PJRT_Buffer_Type_U16, 2}},  {"ui32", {PJRT_Buffer_Type_U32, 4}},
    {"ui64", {PJRT_Buffer_Type_U64, 8}},
};

struct Argument {
  std::vector<int64_t> dims;
  Dtype dtype;
  int alias = -1;  // the output that takes its memory
};

// The arguments of @main: "%arg0: tensor<16x8xf32> {tf.aliasing_output = 0 : i32}, ...".
std::vector<Argument> arguments(const std::string& text) {
  const size_t start = text.find('(', text.find("@main"));
  const size_t end = std::min(text.find("->", start), text.find('\n', start));
  const std::string list = text.substr(start, end - start);
  static const std::regex each(
      R"(%\w+: tensor<([0-9x]*?)x?([a-z]+[0-9]+)>\s*(?:loc\([^)]*\)\s*)?(\{[^}]*\})?)");
  static const std::regex aliased(R"(tf\.aliasing_output = (\d+))");
  std::vector<Argument> found;
  for (std::sregex_iterator match(list.begin(), list.end(), each), none; match != none; ++match) {
    Argument argument{{}, dtypes.at((*match)[2].str())};
    const std::string dims = (*match)[1].str(), attributes = (*match)[3].str();
    for (size_t at = 0; at < dims.size();) {
      size_t used = 0;
      argument.dims.push_back(std::stoll(dims.substr(at), &used));
      at += used + 1;
    }
    if (std::smatch alias; std::regex_search(attributes, alias, aliased))
      argument.alias = std::stoi(alias[1]);
    found.push_back(std::move(argument));
  }
  return found;
}

// Small positive numbers for floats, zeros for integers, which may be indices.
Buffer filled(const Client& client, const Argument& argument) {
  size_t count = 1;
  for (int64_t dim : argument.dims) count *= static_cast<size_t>(dim);
  std::vector<char> bytes(count * argument.dtype.width + 1);
  for (size_t i = 0; i < count; ++i) {
    const float value = 0.001f + 0.02f * static_cast<float>(i % 17) / 17.f;
    if (argument.dtype.type == PJRT_Buffer_Type_F32) std::memcpy(&bytes[i * 4], &value, 4);
    if (argument.dtype.type == PJRT_Buffer_Type_BF16)
      std::memcpy(&bytes[i * 2], reinterpret_cast<const char*>(&value) + 2, 2);
    if (const double wide = value; argument.dtype.type == PJRT_Buffer_Type_F64)
      std::memcpy(&bytes[i * 8], &wide, 8);
  }
  return std::move(
      client.from_host(bytes.data(), argument.dtype.type, argument.dims, client.devices().at(0)).buffer);
}

void set_flag(CompileOptions& options, const std::string& name, const std::string& value) {
  const bool integer = !value.empty() && value.find_first_not_of("-0123456789") == std::string::npos;
  if (value == "true" || value == "false")
    options.xla_flags[name] = value == "true";
  else if (integer)
    options.xla_flags[name] = int64_t{std::stoll(value)};
  else
    options.xla_flags[name] = value;
}

int run(int argc, char** argv) {
  const Client client(Api::load(argv[1]), {}, {{"cpu_device_count", int64_t{1}}});
  std::ifstream file(argv[2]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const int calls = std::stoi(argv[3]), batches = std::stoi(argv[4]);
  CompileOptions options;
  std::map<size_t, size_t> feed;  // argument -> output
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('=')),
                      value = word.substr(word.find('=') + 1);
    if (name.starts_with("feed:"))
      feed[std::stoul(name.substr(5))] = std::stoul(value);
    else
      set_flag(options, name, value);
  }
  const auto started = Clock::now();
  const Executable program = client.compile(text, client.supported(options).encode());
  const double compile_seconds = since(started);

  std::vector<Buffer> held;
  const auto wanted = arguments(text);
  for (size_t i = 0; i < wanted.size(); ++i) {
    held.push_back(filled(client, wanted[i]));
    if (wanted[i].alias >= 0) feed[i] = static_cast<size_t>(wanted[i].alias);
  }
  std::vector<PJRT_Buffer*> args, outputs(program.num_outputs());
  for (const Buffer& buffer : held) args.push_back(buffer.get());

  auto batch = [&](int count) {
    std::vector<Buffer> last;
    for (int i = 0; i < count; ++i) {
      program.execute(args, outputs, client.devices()[0].get());
      last.clear();
      for (PJRT_Buffer* raw : outputs) last.emplace_back(client.api(), raw);
      for (auto [argument, output] : feed) {
        std::swap(held[argument], last[output]);
        args[argument] = held[argument].get();
      }
    }
    for (auto [argument, output] : feed) held[argument].ready().await();
    for (size_t i = 0; i < last.size(); ++i)
      if (std::ranges::none_of(feed, [&](auto& pair) { return pair.second == i; })) last[i].ready().await();
  };
  batch(std::min(calls, 3));
  // The processor's time says more than the clock's on a machine that others use too.
  std::vector<double> times, processor;
  for (int i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    const std::clock_t ticks = std::clock();
    batch(calls);
    processor.push_back(static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC / calls);
    times.push_back(since(start) / calls);
  }
  std::printf("{\"seconds\": %.9f, \"processor_seconds\": %.9f, \"compile_seconds\": %.6f}\n", median(times),
              median(processor), compile_seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(
        stderr,
        "usage: bare PLUGIN PROGRAM.mlir CALLS BATCHES [feed:ARGUMENT=OUTPUT ...] [FLAG=VALUE ...]\n");
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bare: %s\n", error.what());
    return 1;
  }
}
