// SPDX-License-Identifier: Apache-2.0
// Settings of the process. Python reads the TORCH_TPU_* variables and hands them over once, before the first
// tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpu::runtime {

struct Config {
  std::string plugin;        // path of the PJRT plugin; empty: there is none
  std::string why_none;      // what to tell a user who uses the device although there is no plugin
  bool is_virtual = true;    // the plugin plays virtual chips
  int chips = 1;             // number of virtual chips
  int64_t memory_limit = 0;  // bytes per virtual chip; 0: none
  std::string cache_dir;     // compiled programs on disk; empty: off
};

const Config& config();
void configure(Config config);  // raises when the client exists already

// When the recording becomes a program.
enum class Mode { kStrict, kFused, kDebug };
Mode mode();
void set_mode(Mode mode);  // launches what is recorded

// Buckets (runtime/buckets.h): by powers of two, by the sizes given, or none at all.
void set_buckets(bool on, std::vector<int64_t> sizes);
bool buckets_on();
// The least one that holds n; 0: there is none. `grows`: small ones are left out, they would be full soon.
int64_t bucket_of(int64_t n, bool grows = false);

enum class Fallback { kWarn, kError };
Fallback fallback();
void set_fallback(Fallback fallback);

}  // namespace tpu::runtime
