// SPDX-License-Identifier: Apache-2.0
// The program cache.
#include "runtime/cache.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hlo/hash.h"
#include "pjrt/options.h"
#include "runtime/buckets.h"
#include "runtime/chip.h"
#include "runtime/config.h"
#include "runtime/counters.h"
#include "runtime/progress.h"
#include "runtime/schema.h"

namespace tpu::runtime {
namespace {

namespace fs = std::filesystem;

// Raise it when the layout of an entry changes.
constexpr char kMagic[8] = {'t', 'p', 'u', 'c', 'a', 'c', 'h', '1'};

// A program takes 3 to some hundred memory mappings, and Linux gives a process 65,530 by default: past them
// the compiler crashes. At half of them programs are dropped; they come back from disk. Looked at once in so
// many programs.
constexpr size_t kLookEvery = 32;

constexpr size_t kLongestLog = 1024;

// The most elements that the results of a light program have together, and the most ops of one that is
// compiled like a single op.
constexpr int64_t kFewElements = 1 << 18;
constexpr int kFewOps = 4;

struct Header {
  char magic[8];
  uint64_t size;
  uint64_t check[2];  // hash of the bytes
};

// Held while a program is compiled. The file goes with the lock: who waited looks for the program first.
class FileLock {
 public:
  explicit FileLock(const std::string& entry) {
    if (entry.empty()) return;
    path_ = entry + ".lock";
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (file_ < 0) return;
    ::unlink(path_.c_str());
    ::close(file_);
  }
  FileLock(const FileLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

bool crowded() {
  static const size_t most = [] {
    size_t given = 65530;
    std::ifstream("/proc/sys/vm/max_map_count") >> given;
    return given / 2;
  }();
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t mappings = 0;
  char part[1 << 16];
  for (ssize_t n; (n = ::read(file, part, sizeof part)) > 0;) mappings += std::count(part, part + n, '\n');
  ::close(file);
  return mappings > most;
}

std::string hex(const hlo::Hash& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash[0]),
                static_cast<unsigned long long>(hash[1]));
  return text;
}

hlo::Hash hash_bytes(std::string_view bytes) {
  hlo::Hasher hasher;
  hasher.bytes(bytes);
  return hasher.done();
}

// Why a folder must not be used, or "".
std::string unsafe(const std::string& folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0) return std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "it is no folder";
  if (info.st_uid != ::geteuid()) return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others can write to it";
  return "";
}

}  // namespace

ProgramCache& program_cache() {
  static auto* cache = new ProgramCache;
  return *cache;
}

const std::string& ProgramCache::folder() {
  if (ready_) return folder_;
  ready_ = true;
  if (config().cache_dir.empty()) return folder_;
  std::error_code error;
  const bool there = fs::exists(config().cache_dir, error);
  if (!there && fs::create_directories(config().cache_dir, error))
    fs::permissions(config().cache_dir, fs::perms::owner_all, error);
  if (std::string why = unsafe(config().cache_dir); !why.empty()) {
    TORCH_WARN(
        "compiled programs are not kept: the cache folder ", config().cache_dir, " can't be used: ", why,
        ". Set TORCH_TPU_CACHE_DIR to a folder that only you can write to, or to 0 to turn the cache off.");
    return folder_;
  }
  return folder_ = config().cache_dir;
}

std::shared_ptr<const pjrt::Executable> ProgramCache::load(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return nullptr;
  struct Close {
    int file;
    ~Close() { ::close(file); }
  } close{file};
  struct stat info;
  const char* why = nullptr;
  std::string bytes;
  if (::fstat(file, &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH))) {
    why = "it belongs to another user, or others can write to it";
  } else {
    bytes.resize(static_cast<size_t>(info.st_size));
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t n = ::read(file, bytes.data() + got, bytes.size() - got);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    Header header;
    if (got < sizeof header) {
      why = "it is truncated";
    } else {
      std::memcpy(&header, bytes.data(), sizeof header);
      const std::string_view body(bytes.data() + sizeof header, got - sizeof header);
      if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
        why = "it is no entry of this version";
      else if (header.size != body.size())
        why = "it is truncated";
      else if (const hlo::Hash check = hash_bytes(body);
               check[0] != header.check[0] || check[1] != header.check[1])
        why = "its contents are damaged";
      else
        try {
          return std::make_shared<pjrt::Executable>(runtime().client().deserialize(body));
        } catch (const pjrt::Error&) {
          why = "the plugin can't load it";
        }
    }
  }
  TORCH_WARN("the cached program ", path, " is not used: ", why, ". It is compiled again.");
  return nullptr;
}

void ProgramCache::store(const std::string& path, const pjrt::Executable& executable) {
  std::string body;
  try {
    body = executable.serialize();
  } catch (const pjrt::Error&) {
    return;  // a plugin that can't serialize has no disk cache
  }
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.size = body.size();
  const hlo::Hash check = hash_bytes(body);
  header.check[0] = check[0];
  header.check[1] = check[1];
  const std::string aside = path + "." + std::to_string(::getpid());
  const int file = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += body;
  const bool whole = ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  // A full disk costs the entry, nothing else.
  if (!whole || ::rename(aside.c_str(), path.c_str()) != 0) ::unlink(aside.c_str());
}

void ProgramCache::remember(Compilation compilation) {
  if (log_.size() >= kLongestLog) log_.pop_front();
  log_.push_back(std::move(compilation));
}

void ProgramCache::collect(bool on) {
  collects_ = on;
  collected_.clear();
}

const std::string& ProgramCache::options(Effort effort) {
  std::string& encoded = options_[static_cast<size_t>(effort)];
  if (!encoded.empty()) return encoded;
  // All are flags of XLA:CPU; a plugin that does not know them does not need them.
  pjrt::CompileOptions options;
  // Its default loses NaN in maximum and minimum.
  options.xla_flags["xla_cpu_enable_fast_min_max"] = false;
  // So do the YNNPACK kernels that it takes for large reductions; those for products are right, and fast.
  options.xla_flags["xla_cpu_experimental_ynn_fusion_type"] =
      std::string("LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT");
  // Its default is half of what processors with AVX-512 have; others take the width that they have.
  options.xla_flags["xla_cpu_prefer_vector_width"] = int64_t{512};
  if (effort == Effort::kOneOp) {  // measured in docs/plugins.md
    options.xla_flags["xla_disable_hlo_passes"] = std::string("fusion-wrapper");
    options.xla_flags["xla_backend_optimization_level"] = int64_t{1};
  }
  if (effort == Effort::kLight) {  // kernels of one LLVM module instead of one each, and less code in it
    options.xla_flags["xla_backend_optimization_level"] = int64_t{1};
    options.xla_extra_options["xla_cpu_disable_new_fusion_emitters"] = "";
    options.xla_extra_options["xla_cpu_disable_loop_unrolling"] = "";
  }
  return encoded = runtime().client().supported(options).encode();
}

void ProgramCache::forget() {
  programs_.clear();
  forget_plans();  // they hold programs, too
  buckets().forget();
}

void ProgramCache::keep(const hlo::Hash& program, std::shared_ptr<const pjrt::Executable> executable) {
  if (++kept_ % kLookEvery == 0 && crowded()) forget();
  programs_.emplace(program, std::move(executable));
}

std::shared_ptr<const pjrt::Executable> ProgramCache::get(const hlo::Hash& program, const CompileNote& note,
                                                          const std::function<Extent()>& extent,
                                                          const std::function<std::string()>& text) {
  if (collects_) collected_.push_back(text());
  if (auto found = programs_.find(program); found != programs_.end()) {
    ++counters().memory_hits;
    return found->second;
  }
  const auto [ops, elements] = extent();
  const Effort effort = elements <= kFewElements ? Effort::kLight
                        : ops <= kFewOps         ? Effort::kOneOp
                                                 : Effort::kFull;
  std::string path;
  const auto from_disk = [&] {
    auto loaded = load(path);
    if (loaded) {
      ++counters().disk_hits;
      remember({note, 0, true});
      keep(program, loaded);
    }
    return loaded;
  };
  if (const std::string& dir = folder(); !dir.empty()) {
    const hlo::Hash outside = hash_bytes(runtime().client().identity() + '\n' + options(effort));
    path = dir + "/" + hex({program[0] ^ outside[0], program[1] + outside[1]}) + ".tpuexe";
    if (auto loaded = from_disk()) return loaded;
  }
  // Of several processes that want the same program one compiles it, the others wait for it.
  const FileLock others_wait(path);
  if (!path.empty())
    if (auto loaded = from_disk()) return loaded;
  const std::string source = text();
  const Progress progress(note);
  const auto start = std::chrono::steady_clock::now();
  const auto compile = [&](Effort effort) {
    return std::make_shared<const pjrt::Executable>(runtime().client().compile(source, options(effort)));
  };
  std::shared_ptr<const pjrt::Executable> made;
  try {
    try {
      made = compile(effort);
    } catch (const pjrt::Error&) {
      if (effort != Effort::kOneOp) throw;
      made = compile(Effort::kFull);  // XLA:CPU runs a scatter only inside the wrapper that is left out
    }
  } catch (const pjrt::Error& error) {
    TORCH_CHECK(false,
                "torch_tpu made a program that the compiler refuses. This is a defect of torch_tpu; please "
                "report it with "
                "this text.\n",
                error.what(), "\n", source);
  }
  const auto took = std::chrono::steady_clock::now() - start;
  ++counters().compilations;
  remember({note, std::chrono::duration<double>(took).count(), false});
  counters().compile_microseconds += std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  if (!path.empty()) store(path, *made);
  keep(program, made);
  return made;
}

}  // namespace tpu::runtime
