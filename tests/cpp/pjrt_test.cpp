// SPDX-License-Identifier: Apache-2.0
// Tests of csrc/pjrt against the plugin TORCH_TPU_PLUGIN (two virtual chips), and against a fake table.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>

#include "check.h"
#include "pjrt/client.h"
#include "pjrt/topology.h"

using namespace tpu::pjrt;

namespace {

const std::string& plugin_path() {
  static const std::string path = [] {
    const char* value = std::getenv("TORCH_TPU_PLUGIN");
    if (value == nullptr) throw std::runtime_error("TORCH_TPU_PLUGIN is not set");
    return std::string(value);
  }();
  return path;
}

Client& client() {
  static Client& made = *new Client(Api::load(plugin_path()), {}, {{"cpu_device_count", int64_t{2}}});
  return made;
}

const Device& chip(size_t index) {
  if (client().devices().size() <= index) SKIP("the plugin has one device only");
  return client().devices()[index];
}

std::string module(const std::string& body, const std::string& attributes = "") {
  return "module @test " + attributes + " {\n" + body + "\n}\n";
}

// func.func @main(a, b) -> a op b
std::string binary(const std::string& op, const std::string& type) {
  std::string t = "tensor<" + type + ">";
  return module("func.func @main(%a: " + t + ", %b: " + t + ") -> " + t + " {\n  %c = stablehlo." + op +
                " %a, %b : " + t + "\n  return %c : " + t + "\n}");
}

template <class T>
Buffer put(const std::vector<T>& values, PJRT_Buffer_Type type, std::vector<int64_t> dims,
           const Device& device) {
  FromHost made = client().from_host(values.data(), type, dims, device);
  made.done_with_host.await();
  return std::move(made.buffer);
}

template <class T>
std::vector<T> get(const Buffer& buffer, size_t count) {
  std::vector<T> values(count);
  buffer.to_host(values.data(), count * sizeof(T)).await();
  std::vector<T> read(count);
  buffer.read(read.data(), count * sizeof(T));
  CHECK_EQ(read, values);
  return values;
}

Buffer run(const Executable& program, const std::vector<PJRT_Buffer*>& args, PJRT_Device* device,
           std::vector<int64_t> keep = {}) {
  PJRT_Buffer* out = nullptr;
  program.execute(args, {&out, 1}, device, keep);
  return {client().api(), out};
}

std::string portable() { return CompileOptions{}.encode(); }

std::string temporary(const std::string& name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder ? folder : "/tmp") + "/" + name + "." + std::to_string(::getpid());
}

}  // namespace

// ---- loading ----

TEST(load_missing_path) {
  CHECK_THROWS(Api::load("/nowhere/plugin.so"),
               "cannot load the PJRT plugin '/nowhere/plugin.so': No such file");
  CHECK_THROWS(Api::load("/nowhere/plugin.so"), "Set TORCH_TPU_PLUGIN");
  CHECK_THROWS(Api::load(""), "the path is empty");
  CHECK_THROWS(Api::load("/tmp"), "it is a directory");
}

TEST(load_not_a_library) {
  std::string path = temporary("not_a_library.so");
  std::ofstream(path) << "this is text, not ELF\n";
  CHECK_THROWS(Api::load(path), "not a loadable shared library");
  std::remove(path.c_str());
}

TEST(load_library_that_is_no_plugin) { CHECK_THROWS(Api::load("libm.so.6"), "no PJRT plugin"); }

TEST(load_once) {
  const Api& api = Api::load(plugin_path());
  CHECK_EQ(&api, &Api::load(plugin_path()));
  CHECK_EQ(api.version().first, PJRT_API_MAJOR);
  CHECK(api.version().second > 0);
  CHECK(api.has(&PJRT_Api::PJRT_Client_Create));
}

TEST(build_id_depends_on_content_only) {
  const Api& api = Api::load(plugin_path());
  CHECK(!api.build_id().empty());
  std::string link = temporary("plugin_link.so");
  std::remove(link.c_str());
  CHECK_EQ(::symlink(plugin_path().c_str(), link.c_str()), 0);
  PJRT_Api table{};
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  auto start = std::chrono::steady_clock::now();
  CHECK_EQ(Api(&table, link).build_id(), api.build_id());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100));
  CHECK(Api(&table, "/bin/sh").build_id() != api.build_id());
  CHECK_EQ(Api(&table, "/nowhere").build_id(), "");
  std::remove(link.c_str());
}

// ---- a fake plugin ----

namespace fake {

int errors_alive = 0;
int events_destroyed = 0;
bool destroy_fails = false;

PJRT_Error* make_error() {
  ++errors_alive;
  return reinterpret_cast<PJRT_Error*>(&errors_alive);
}
void error_destroy(PJRT_Error_Destroy_Args*) { --errors_alive; }
void error_message(PJRT_Error_Message_Args* args) {
  static const char kText[] = "out of chips!";
  args->message = kText;
  args->message_size = sizeof kText - 2;  // no terminator: only the size counts
}
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return nullptr;
}
PJRT_Error* event_destroy(PJRT_Event_Destroy_Args*) {
  ++events_destroyed;
  return destroy_fails ? make_error() : nullptr;
}
PJRT_Error* event_await(PJRT_Event_Await_Args*) { return make_error(); }
PJRT_Error* event_is_ready(PJRT_Event_IsReady_Args* args) {
  args->is_ready = args->struct_size == PJRT_Event_IsReady_Args_STRUCT_SIZE;
  return nullptr;
}
PJRT_Error* event_on_ready(PJRT_Event_OnReady_Args* args) {
  args->callback(make_error(), args->user_arg);
  return nullptr;
}

PJRT_Api table() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.minor_version = 40;
  api.PJRT_Error_Destroy = error_destroy;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Event_Destroy = event_destroy;
  api.PJRT_Event_Await = event_await;
  api.PJRT_Event_IsReady = event_is_ready;
  api.PJRT_Event_OnReady = event_on_ready;
  return api;
}
PJRT_Event* event() { return reinterpret_cast<PJRT_Event*>(&events_destroyed); }

}  // namespace fake

TEST(fake_error_of_a_call) {
  PJRT_Api table = fake::table();
  Api api(&table, "fake");
  Event event(api, fake::event());
  try {
    event.await();
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQ(error.code(), PJRT_Error_Code_RESOURCE_EXHAUSTED);
    CHECK_EQ(std::string(error.call()), "PJRT_Event_Await");
    CHECK_EQ(std::string(error.what()), "PJRT_Event_Await: RESOURCE_EXHAUSTED: out of chips");
  }
  CHECK_EQ(fake::errors_alive, 0);
  CHECK(event.is_ready());
}

TEST(fake_missing_functions) {
  PJRT_Api table = fake::table();
  // An older plugin: its table ends before IsReady. What lies behind it must not be called.
  table.struct_size = offsetof(PJRT_Api, PJRT_Event_IsReady);
  Api api(&table, "fake.so");
  CHECK(!api.has(&PJRT_Api::PJRT_Event_IsReady));
  CHECK(api.has(&PJRT_Api::PJRT_Event_Destroy));
  Event event(api, fake::event());
  CHECK_THROWS(event.is_ready(),
               "PJRT_Event_IsReady: UNIMPLEMENTED: the plugin 'fake.so' (PJRT 0.40) does not have");
  CHECK_THROWS(event.is_ready(), "or newer");
  // A null pointer within the table.
  PJRT_Api sparse = fake::table();
  sparse.PJRT_Event_Await = nullptr;
  Api sparse_api(&sparse, "fake.so");
  CHECK_THROWS(Event(sparse_api, fake::event()).await(), "PJRT_Event_Await: UNIMPLEMENTED");
}

TEST(fake_newer_table_is_cut) {
  struct Newer {
    PJRT_Api api = fake::table();
    void* unknown = nullptr;
  } newer;
  newer.api.struct_size = sizeof newer;
  Api api(&newer.api, "fake");
  CHECK(Event(api, fake::event()).is_ready());
}

TEST(fake_destroy_never_throws) {
  PJRT_Api table = fake::table();
  Api api(&table, "fake");
  fake::events_destroyed = 0;
  fake::destroy_fails = true;
  {
    Event first(api, fake::event());
    Event second = std::move(first);
    CHECK(!first);
    CHECK(bool(second));
    Event empty;
  }
  fake::destroy_fails = false;
  CHECK_EQ(fake::events_destroyed, 1);
  CHECK_EQ(fake::errors_alive, 0);
  table.PJRT_Event_Destroy = nullptr;
  Api without(&table, "fake");
  Event leaked(without, fake::event());
}

TEST(fake_callback_owns_the_error) {
  PJRT_Api table = fake::table();
  Api api(&table, "fake");
  Event event(api, fake::event());
  std::string text;
  event.on_ready([&](std::optional<Error> error) { text = error ? error->what() : "no error"; });
  CHECK_EQ(text, "PJRT_Event_OnReady: RESOURCE_EXHAUSTED: out of chips");
  event.on_ready([](std::optional<Error>) { throw std::runtime_error("dropped"); });
  CHECK_EQ(fake::errors_alive, 0);
}

// ---- options ----

TEST(options_encoding) {
  std::string none("\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);  // device_ordinal = -1
  std::string bytes = CompileOptions{}.encode();
  CHECK_EQ(bytes.substr(0, 1), "\x1a");
  CHECK_EQ(bytes.substr(2, 11), none.substr(1));
  CHECK_EQ(bytes.substr(13), std::string("\x20\x01\x28\x01\x20\x01"));  // replicas, partitions | portable
  CHECK_EQ(CompileOptions{}.encode(), bytes);
  CompileOptions flags;
  flags.portable = false;
  flags.xla_flags = {{"f", int64_t{300}}};
  CHECK_EQ(flags.encode().substr(17), std::string("\x3a\x08\x0a\x01\x66\x12\x03\x18\xac\x02"));
  CompileOptions wrong;
  wrong.partitions = 2;
  wrong.device_ids = {0};
  CHECK_THROWS(wrong.encode(), "expected 2 device ids, got 1");
  wrong.partitions = 0;
  CHECK_THROWS(wrong.encode(), "at least 1 replica");
}

TEST(unknown_flag_is_an_error) {
  CompileOptions options;
  options.xla_flags = {{"xla_no_such_flag", true}};
  CHECK_THROWS(client().compile(binary("add", "4xf32"), options.encode()), "xla_no_such_flag");
}

TEST(flags_that_the_plugin_knows) {
  CompileOptions options;
  options.xla_flags = {{"xla_no_such_flag", true}, {"xla_backend_optimization_level", int64_t{1}}};
  CompileOptions kept = client().supported(options);
  CHECK_EQ(kept.xla_flags.size(), 1u);
  CHECK(kept.xla_flags.contains("xla_backend_optimization_level"));
  client().compile(binary("add", "4xf32"), kept.encode());
}

TEST(extra_options) {
  CompileOptions options;
  options.xla_extra_options = {{"xla_cpu_disable_loop_unrolling", ""}};
  CHECK_EQ(options.encode(), CompileOptions{}.encode());  // not without the plugin's debug options
  const CompileOptions kept = client().supported(options);
  CHECK_EQ(kept.xla_extra_options.size(), kept.debug_options.empty() ? 0u : 1u);
  const auto used = debug_options_of(client().compile(binary("add", "4xf32"), kept.encode()).serialize());
  CHECK_EQ(used.has_value(), !kept.debug_options.empty());
  if (used) CHECK(used->find("xla_cpu_disable_loop_unrolling") != std::string::npos);
  for (const std::string bytes : {"", "\x12", "\x12\x7f", "\xff\xff", "no message"})
    CHECK(!debug_options_of(bytes));
}

TEST(maximum_keeps_nan_with_the_right_flag) {
  // XLA:CPU's default drops a NaN in maximum and minimum.
  CompileOptions options;
  options.xla_flags = {{"xla_cpu_enable_fast_min_max", false}};
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Buffer a = put<float>({nan, 1, nan, 2}, PJRT_Buffer_Type_F32, {4}, chip(0));
  Buffer b = put<float>({1, nan, nan, 3}, PJRT_Buffer_Type_F32, {4}, chip(0));
  for (const char* op : {"maximum", "minimum"}) {
    Executable program = client().compile(binary(op, "4xf32"), client().supported(options).encode());
    std::vector<float> out(4);
    run(program, {a.get(), b.get()}, chip(0).get()).read(out.data(), 16);
    for (int i = 0; i < 3; ++i) CHECK(std::isnan(out[i]));
    CHECK(!std::isnan(out[3]));
  }
}

// ---- client and devices ----

TEST(client_options) {
  const Api& api = client().api();
  // Refused by newer plugins, ignored by older ones; never fatal when only wanted.
  Client made(api, {}, {{"no_such_option", int64_t{1}}});
  CHECK(!made.devices().empty());
  if (!made.wanted_kept()) CHECK_THROWS(Client(api, {{"no_such_option", int64_t{1}}}), "no_such_option");
}

TEST(client_describes_itself) {
  CHECK(!client().platform_name().empty());
  CHECK(!client().devices().empty());
  CHECK_EQ(client().process_index(), 0);
  CHECK(client().identity().find(client().api().build_id()) == 0);
  const Device& device = client().devices()[0];
  CHECK(!device.kind().empty());
  CHECK(!device.debug_string().empty());
  (void)device.memory_stats();
  (void)device.local_hardware_id();
  (void)client().api().attributes();
}

TEST(two_chips) {
  if (!client().wanted_kept()) SKIP("the plugin refuses cpu_device_count");
  CHECK_EQ(client().devices().size(), 2u);
  CHECK(chip(0).id() != chip(1).id());
  CHECK_EQ(client().all_devices().size(), 2u);
}

// ---- compilation and execution ----

TEST(compile_error_text) {
  CHECK_THROWS(client().compile("module { func.func @main( }", portable()), "PJRT_Client_Compile: ");
  CHECK_THROWS(client().compile("", portable()), "PJRT_Client_Compile: ");
  CHECK_THROWS(
      client().compile(module("func.func @main(%a: tensor<2xf32>) -> tensor<3xf32> {\n"
                              "%c = stablehlo.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>\n"
                              "return %c : tensor<3xf32> }"),
                       portable()),
      "PJRT_Client_Compile: ");
}

TEST(add_program) {
  Executable program = client().compile(binary("add", "2x3xf32"), portable());
  CHECK_EQ(program.num_outputs(), 1u);
  CHECK_EQ(program.output_types(), std::vector{PJRT_Buffer_Type_F32});
  CHECK_EQ(program.output_dims(), (std::vector<std::vector<int64_t>>{{2, 3}}));
  Buffer a = put<float>({1, 2, 3, 4, 5, 6}, PJRT_Buffer_Type_F32, {2, 3}, chip(0));
  Buffer c = run(program, {a.get(), a.get()}, chip(0).get());
  c.ready().await();
  CHECK_EQ(get<float>(c, 6), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  CHECK(std::ranges::equal(c.dims(), std::vector<int64_t>{2, 3}));
  CHECK_EQ(c.type(), PJRT_Buffer_Type_F32);
  CHECK_EQ(c.size_in_bytes(), 24u);
  CHECK_EQ(c.device(), chip(0).get());
  (void)program.memory_stats();
  (void)program.cost_analysis();
  CHECK(!program.name().empty());
}

TEST(row_major_on_the_host) {
  // A transpose which the compiler is free to leave to the layout.
  Executable program = client().compile(
      module("func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {\n"
             "%c = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
             "return %c : tensor<3x2xf32> }"),
      portable());
  Buffer a = put<float>({1, 2, 3, 4, 5, 6}, PJRT_Buffer_Type_F32, {2, 3}, chip(0));
  CHECK_EQ(get<float>(run(program, {a.get()}, chip(0).get()), 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  // And a strided host array: the columns of a 2x3 array.
  std::vector<float> host{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> dims{3, 2}, strides{4, 12};
  FromHost made = client().from_host(host.data(), PJRT_Buffer_Type_F32, dims, chip(0),
                                     PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, strides);
  CHECK_EQ(get<float>(made.buffer, 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(number_of_outputs_and_arguments) {
  Executable program = client().compile(binary("add", "4xf32"), portable());
  Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(0));
  std::vector<PJRT_Buffer*> two{a.get(), a.get()}, one{a.get()};
  PJRT_Buffer* out = nullptr;
  CHECK_THROWS(program.execute(two, {}, chip(0).get()), "expected places for 1 outputs, got 0");
  CHECK_THROWS(program.execute(one, {&out, 1}, chip(0).get()),
               "PJRT_LoadedExecutable_Execute: INVALID_ARGUMENT");
  // The plugin checks the size of its arguments.
  Buffer b = put<float>({1, 2}, PJRT_Buffer_Type_F32, {2}, chip(0));
  CHECK_THROWS(run(program, {a.get(), b.get()}, chip(0).get()).ready().await(), "INVALID_ARGUMENT");
}

// ---- transfers ----

TEST(transfer_int64) {
  Executable program = client().compile(binary("multiply", "3xi64"), portable());
  std::vector<int64_t> x{int64_t{1} << 40, -3, 0};
  Buffer a = put(x, PJRT_Buffer_Type_S64, {3}, chip(0));
  Buffer b = put<int64_t>({2, 3, 4}, PJRT_Buffer_Type_S64, {3}, chip(0));
  CHECK_EQ(get<int64_t>(run(program, {a.get(), b.get()}, chip(0).get()), 3),
           (std::vector<int64_t>{int64_t{1} << 41, -9, 0}));
}

TEST(transfer_bf16) {
  Executable program = client().compile(binary("add", "2xbf16"), portable());
  std::vector<uint16_t> x{0x3f80, 0xc000};  // 1, -2
  Buffer a = put(x, PJRT_Buffer_Type_BF16, {2}, chip(0));
  CHECK_EQ(get<uint16_t>(run(program, {a.get(), a.get()}, chip(0).get()), 2),
           (std::vector<uint16_t>{0x4000, 0xc080}));
}

TEST(transfer_bool) {
  Executable program = client().compile(binary("xor", "4xi1"), portable());
  Buffer a = put<uint8_t>({0, 0, 1, 1}, PJRT_Buffer_Type_PRED, {4}, chip(0));
  Buffer b = put<uint8_t>({0, 1, 0, 1}, PJRT_Buffer_Type_PRED, {4}, chip(0));
  CHECK_EQ(get<uint8_t>(run(program, {a.get(), b.get()}, chip(0).get()), 4),
           (std::vector<uint8_t>{0, 1, 1, 0}));
}

TEST(transfer_complex) {
  Executable program = client().compile(binary("multiply", "1xcomplex<f32>"), portable());
  Buffer a = put<float>({0, 1}, PJRT_Buffer_Type_C64, {1}, chip(0));
  CHECK_EQ(get<float>(run(program, {a.get(), a.get()}, chip(0).get()), 2), (std::vector<float>{-1, 0}));
}

TEST(zero_size_and_scalar) {
  Executable program = client().compile(binary("add", "0x3xf32"), portable());
  FromHost empty = client().from_host(nullptr, PJRT_Buffer_Type_F32, std::vector<int64_t>{0, 3}, chip(0));
  Buffer c = run(program, {empty.buffer.get(), empty.buffer.get()}, chip(0).get());
  c.ready().await();
  CHECK(std::ranges::equal(c.dims(), std::vector<int64_t>{0, 3}));
  c.to_host(nullptr, 0).await();
  Buffer scalar = put<float>({7}, PJRT_Buffer_Type_F32, {}, chip(0));
  CHECK_EQ(scalar.dims().size(), 0u);
  CHECK_EQ(get<float>(scalar, 1), std::vector<float>{7});
}

TEST(bad_transfers_are_refused) {
  float x = 0;
  std::vector<int64_t> one{1}, negative{-1}, huge{int64_t{1} << 62, 4};
  auto from = [&](const void* data, PJRT_Buffer_Type type, const std::vector<int64_t>& dims) {
    return client().from_host(data, type, dims, chip(0));
  };
  CHECK_THROWS(from(&x, PJRT_Buffer_Type_INVALID, one),
               "INVALID_ARGUMENT: expected a type of array elements");
  CHECK_THROWS(from(&x, static_cast<PJRT_Buffer_Type>(999), one), "got element type 999");
  CHECK_THROWS(from(&x, PJRT_Buffer_Type_TOKEN, one), "INVALID_ARGUMENT");
  CHECK_THROWS(from(&x, PJRT_Buffer_Type_F32, negative), "sizes from 0");
  CHECK_THROWS(from(&x, PJRT_Buffer_Type_F32, huge), "INVALID_ARGUMENT");
  CHECK_THROWS(from(nullptr, PJRT_Buffer_Type_F32, one), "got a null pointer");
  Buffer buffer = put<float>({1, 2}, PJRT_Buffer_Type_F32, {2}, chip(0));
  CHECK_THROWS(buffer.to_host(&x, sizeof x), "expected room for 8 bytes, got 4");
  CHECK_THROWS(buffer.to_host(nullptr, 8), "got a null pointer");
  CHECK_THROWS(buffer.read(&x, sizeof x), "expected room for 8 bytes, got 4");
}

TEST(dropped_buffer) {
  Buffer buffer = put<float>({1}, PJRT_Buffer_Type_F32, {1}, chip(0));
  CHECK(!buffer.is_deleted());
  buffer.drop();
  CHECK(buffer.is_deleted());
  float x = 0;
  CHECK_THROWS(buffer.to_host(&x, 4).await(), "");
}

// ---- donation ----

namespace {
std::string donating() {
  return module(
      "func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<1024xf32>) -> "
      "tensor<1024xf32> "
      "{\n  %c = stablehlo.add %a, %b : tensor<1024xf32>\n  return %c : tensor<1024xf32>\n}");
}
}  // namespace

TEST(donation_aliases_and_deletes) {
  Executable program = client().compile(donating(), portable());
  std::vector<float> x(1024, 1);
  Buffer a = put(x, PJRT_Buffer_Type_F32, {1024}, chip(0));
  Buffer b = put(x, PJRT_Buffer_Type_F32, {1024}, chip(0));
  a.ready().await();
  uintptr_t before = a.unsafe_pointer();
  Buffer c = run(program, {a.get(), b.get()}, chip(0).get());
  c.ready().await();
  CHECK(a.is_deleted());
  CHECK(!b.is_deleted());
  CHECK_EQ(c.unsafe_pointer(), before);
  CHECK_EQ(get<float>(c, 1024), std::vector<float>(1024, 2));
  CHECK_THROWS(run(program, {a.get(), b.get()}, chip(0).get()), "");
}

TEST(non_donatable_argument_survives) {
  Executable program = client().compile(donating(), portable());
  std::vector<float> x(1024, 1);
  Buffer a = put(x, PJRT_Buffer_Type_F32, {1024}, chip(0));
  Buffer c = run(program, {a.get(), a.get()}, chip(0).get(), {0});
  CHECK(!a.is_deleted());
  CHECK_EQ(get<float>(c, 1024), std::vector<float>(1024, 2));
  CHECK_EQ(get<float>(a, 1024), x);
}

// ---- several chips ----

TEST(portable_program_on_the_second_chip) {
  Executable program = client().compile(binary("add", "4xf32"), portable());
  Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(1));
  Buffer c = run(program, {a.get(), a.get()}, chip(1).get());
  CHECK_EQ(c.device(), chip(1).get());
  CHECK_EQ(get<float>(c, 4), (std::vector<float>{2, 4, 6, 8}));
  // The same executable on the first.
  Buffer d = a.copy_to(chip(0));
  CHECK_EQ(d.device(), chip(0).get());
  CHECK_EQ(get<float>(run(program, {d.get(), d.get()}, chip(0).get()), 4), (std::vector<float>{2, 4, 6, 8}));
  // A wrong device is an error, not a wrong result.
  CHECK_THROWS(run(program, {a.get(), d.get()}, chip(0).get()).ready().await(), "PJRT_");
}

TEST(program_for_a_named_device) {
  CompileOptions options;
  options.device_ids = {chip(1).id()};
  Executable program = client().compile(binary("add", "4xf32"), options.encode());
  CHECK_EQ(program.devices().size(), 1u);
  CHECK_EQ(program.devices()[0].get(), chip(1).get());
  Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(1));
  CHECK_EQ(run(program, {a.get(), a.get()}, nullptr).device(), chip(1).get());
}

TEST(collective_over_two_chips) {
  for (bool partitioned : {false, true}) {
    CompileOptions options;
    (partitioned ? options.partitions : options.replicas) = 2;
    options.device_ids = {chip(0).id(), chip(1).id()};
    Executable program = client().compile(
        module("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
               "  %c = \"stablehlo.all_reduce\"(%a) ({\n"
               "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
               "    %s = stablehlo.add %x, %y : tensor<f32>\n"
               "    stablehlo.return %s : tensor<f32>\n"
               "  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>" +
                   std::string(partitioned
                                   ? ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
                                     "use_global_device_ids"
                                   : "") +
                   "} : (tensor<4xf32>) -> tensor<4xf32>\n"
                   "  return %c : tensor<4xf32>\n}",
               partitioned ? "attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}" : ""),
        options.encode());
    CHECK_EQ(program.devices().size(), 2u);
    Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(0));
    Buffer b = put<float>({10, 20, 30, 40}, PJRT_Buffer_Type_F32, {4}, chip(1));
    std::vector<std::vector<PJRT_Buffer*>> args{{a.get()}, {b.get()}}, outs(2);
    program.execute(args, outs);
    for (const auto& out : outs) {
      Buffer owned(client().api(), out[0]);
      CHECK_EQ(get<float>(owned, 4), (std::vector<float>{11, 22, 33, 44}));
    }
    std::vector<std::vector<PJRT_Buffer*>> uneven{{a.get()}, {}};
    CHECK_THROWS(program.execute(uneven, outs), "expected 1 arguments for each device, got 0 for device 1");
    CHECK_THROWS(program.execute(args, std::span(outs).first(1)), "got 2 and 1 lists");
  }
}

// ---- saved programs ----

TEST(serialize_and_deserialize) {
  std::string bytes = client().compile(binary("add", "4xf32"), portable()).serialize();
  CHECK(!bytes.empty());
  Executable program = client().deserialize(bytes);
  CHECK_EQ(program.num_outputs(), 1u);
  for (size_t i = 0; i < client().devices().size(); ++i) {
    Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(i));
    CHECK_EQ(get<float>(run(program, {a.get(), a.get()}, chip(i).get()), 4),
             (std::vector<float>{2, 4, 6, 8}));
  }
  CHECK_THROWS(client().deserialize("garbage"), "PJRT_Executable_DeserializeAndLoad: ");
}

TEST(topology_errors) {
  const Api& api = client().api();
  try {
    Topology topology = Topology::create(api, "no such topology");
    (void)topology.device_kinds();  // some plugins take any name
  } catch (const Error& error) {
    CHECK_EQ(std::string(error.call()), "PJRT_TopologyDescription_Create");
  }
}

// ---- asynchronous work ----

TEST(event_of_long_work) {
  Executable program = client().compile(
      module("func.func @main(%a: tensor<600x600xf32>) -> tensor<600x600xf32> {\n"
             "%b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<600x600xf32>, "
             "tensor<600x600xf32>) -> tensor<600x600xf32>\n"
             "%c = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : (tensor<600x600xf32>, "
             "tensor<600x600xf32>) -> tensor<600x600xf32>\n"
             "return %c : tensor<600x600xf32> }"),
      portable());
  Buffer a = put(std::vector<float>(360000, 0), PJRT_Buffer_Type_F32, {600, 600}, chip(0));
  Buffer c = run(program, {a.get()}, chip(0).get());
  struct Shared {
    std::mutex mutex;
    std::condition_variable wake;
    bool called = false, failed = false;
  };
  auto shared = std::make_shared<Shared>();
  c.ready().on_ready([shared](std::optional<Error> error) {
    std::lock_guard lock(shared->mutex);
    shared->called = true;
    shared->failed = error.has_value();
    shared->wake.notify_all();
  });
  std::unique_lock lock(shared->mutex);
  CHECK(shared->wake.wait_for(lock, std::chrono::seconds(30), [&] { return shared->called; }));
  CHECK(!shared->failed);
  CHECK(c.ready().is_ready());
}

TEST(error_of_asynchronous_work) {
  // A custom call that nobody registered: refused when compiled, when launched, or when awaited, never
  // ignored.
  CHECK_THROWS(
      [&] {
        Executable program = client().compile(
            module("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                   "%c = stablehlo.custom_call @nobody(%a) {api_version = 4 : i32, backend_config = {}} : "
                   "(tensor<4xf32>) -> tensor<4xf32>\n"
                   "return %c : tensor<4xf32> }"),
            portable());
        Buffer a = put<float>({1, 2, 3, 4}, PJRT_Buffer_Type_F32, {4}, chip(0));
        run(program, {a.get()}, chip(0).get()).ready().await();
        return 0;
      }(),
      "nobody");
  // The event of a deleted buffer fails, in each of its forms.
  Buffer gone = put<float>({1}, PJRT_Buffer_Type_F32, {1}, chip(0));
  gone.drop();
  CHECK_THROWS(gone.ready().await(), "PJRT_");
  float x = 0;
  CHECK_THROWS(gone.read(&x, 4), "PJRT_");
}
