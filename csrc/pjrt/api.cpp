// SPDX-License-Identifier: Apache-2.0
// Loading of plugins.
#include "pjrt/api.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace tpu::pjrt {
namespace {

std::string real_path(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? std::string(real.get()) : path;
}

uint64_t hash_bytes(uint64_t hash, const unsigned char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x100000001b3ull;
  return hash;
}

// The wheels' plugins carry no ELF build-id note, and hashing 200 MB at each start is too slow. The size with
// the first and last pages (ELF header, notes where there are some, section table) and pages spread over the
// file change with any rebuild. A cold start reads 40 pages, some tenths of a millisecond.
std::string identify(const std::string& path) {
  constexpr int kPages = 40;
  constexpr off_t kPage = 4096;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  struct stat info{};
  std::string id;
  if (::fstat(fd, &info) == 0) {
    uint64_t hash = 0xcbf29ce484222325ull;
    std::vector<unsigned char> page(kPage);
    off_t last = std::max<off_t>(info.st_size - kPage, 0);
    for (int i = 0; i < kPages; ++i) {
      ssize_t got = ::pread(fd, page.data(), page.size(), last / (kPages - 1) * i);
      if (got > 0) hash = hash_bytes(hash, page.data(), static_cast<size_t>(got));
    }
    ssize_t got = ::pread(fd, page.data(), page.size(), last);
    if (got > 0) hash = hash_bytes(hash, page.data(), static_cast<size_t>(got));
    char text[48];
    std::snprintf(text, sizeof text, "%llx-%016llx", static_cast<unsigned long long>(info.st_size),
                  static_cast<unsigned long long>(hash));
    id = text;
  }
  ::close(fd);
  return id;
}

// XLA reads its log level from the environment when it is loaded. Set for that time only, so that neither
// child processes nor other libraries inherit it.
class QuietLoad {
 public:
  QuietLoad() : set_(std::getenv(kName) == nullptr) {
    if (set_) ::setenv(kName, "3", 0);
  }
  ~QuietLoad() {
    if (set_) ::unsetenv(kName);
  }
  QuietLoad(const QuietLoad&) = delete;
  QuietLoad& operator=(const QuietLoad&) = delete;

 private:
  static constexpr const char* kName = "TF_CPP_MIN_LOG_LEVEL";
  bool set_;
};

std::unique_ptr<Api> open_plugin(const std::string& path) {
  if (path.empty()) throw LoadError(path, "the path is empty");
  // A bare name is left to the search path of dlopen.
  struct stat info{};
  if (path.find('/') != std::string::npos) {
    if (::stat(path.c_str(), &info) != 0) throw LoadError(path, std::strerror(errno));
    if (S_ISDIR(info.st_mode)) throw LoadError(path, "it is a directory, not a shared library");
  }
  QuietLoad quiet;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw LoadError(
        path, std::string("it is not a loadable shared library: ") + (reason ? reason : "unknown reason"));
  }
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"));
  if (get == nullptr) {
    throw LoadError(path, "it is a shared library but no PJRT plugin (it has no symbol GetPjrtApi)");
  }
  const PJRT_Api* table = get();
  if (table == nullptr) throw LoadError(path, "its GetPjrtApi returned null");
  int major = table->pjrt_api_version.major_version;
  if (major != PJRT_API_MAJOR) {
    throw LoadError(path, "it has PJRT API version " + std::to_string(major) + "." +
                              std::to_string(table->pjrt_api_version.minor_version) +
                              ", expected major version " + std::to_string(PJRT_API_MAJOR));
  }
  link_map* map = nullptr;
  bool found = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0';
  auto api = std::make_unique<Api>(table, found ? map->l_name : path);
  if (api->has(&PJRT_Api::PJRT_Plugin_Initialize)) PJRT_CALL(*api, PJRT_Plugin_Initialize);
  return api;
}

}  // namespace

const Api& Api::load(const std::string& path) {
  // Leaked on purpose: buffers may outlive static destruction.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<Api>>;
  static auto& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  std::unique_ptr<Api>& slot = loaded[real_path(path)];
  if (!slot) slot = open_plugin(path);
  return *slot;
}

Api::Api(const PJRT_Api* table, std::string path) : path_(std::move(path)), build_id_(identify(path_)) {
  std::memcpy(&table_, table, std::min<size_t>(table->struct_size, sizeof table_));
}

std::pair<int, int> Api::version() const {
  return {table_.pjrt_api_version.major_version, table_.pjrt_api_version.minor_version};
}

Values Api::attributes() const {
  if (!has(&PJRT_Api::PJRT_Plugin_Attributes)) return {};
  auto args = PJRT_CALL(*this, PJRT_Plugin_Attributes);
  return to_values(args.attributes, args.num_attributes);
}

const PJRT_Extension_Base* Api::extension(PJRT_Extension_Type type) const {
  const PJRT_Extension_Base* extension = table_.extension_start;
  while (extension != nullptr && extension->type != type) extension = extension->next;
  return extension;
}

Error Api::take(PJRT_Error* error, const char* name) const {
  auto message = PJRT_ARGS(PJRT_Error_Message_Args, .error = error);
  table_.PJRT_Error_Message(&message);
  auto code = PJRT_ARGS(PJRT_Error_GetCode_Args, .error = error);
  PJRT_Error* failed = table_.PJRT_Error_GetCode(&code);
  if (failed != nullptr) code.code = PJRT_Error_Code_UNKNOWN;
  Error result(code.code, name, {message.message, message.message_size});
  if (failed != nullptr) destroy(failed);
  destroy(error);
  return result;
}

void Api::destroy(PJRT_Error* error) const noexcept {
  auto args = PJRT_ARGS(PJRT_Error_Destroy_Args, .error = error);
  table_.PJRT_Error_Destroy(&args);
}

void Api::throw_missing(const char* name) const {
  auto [major, minor] = version();
  std::string plugin = std::to_string(major) + "." + std::to_string(minor);
  std::string header = std::to_string(PJRT_API_MAJOR) + "." + std::to_string(PJRT_API_MINOR);
  std::string text = "the plugin '" + path_ + "' (PJRT " + plugin + ") does not have this function";
  if (minor < PJRT_API_MINOR) text += "; a plugin of PJRT " + header + " or newer has a place for it";
  throw Error(PJRT_Error_Code_UNIMPLEMENTED, name, text);
}

Values to_values(const PJRT_NamedValue* values, size_t count) {
  Values result;
  for (const PJRT_NamedValue& value : std::span(values, count)) {
    std::string name(value.name, value.name_size);
    switch (value.type) {
      case PJRT_NamedValue_kString:
        result[name] = std::string(value.string_value, value.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        result[name] = value.int64_value;
        break;
      case PJRT_NamedValue_kFloat:
        result[name] = value.float_value;
        break;
      case PJRT_NamedValue_kBool:
        result[name] = value.bool_value;
        break;
      case PJRT_NamedValue_kInt64List: {
        std::string text;
        for (int64_t part : std::span(value.int64_array_value, value.value_size)) {
          text += (text.empty() ? "" : ".") + std::to_string(part);
        }
        result[name] = text;
        break;
      }
    }
  }
  return result;
}

}  // namespace tpu::pjrt
