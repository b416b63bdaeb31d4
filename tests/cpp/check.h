// SPDX-License-Identifier: Apache-2.0
// A small test frame: TEST(name) { CHECK_EQ(1 + 1, 2); } and one main per binary.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace check {

struct Failure : std::runtime_error {
  Failure(const char* file, int line, const std::string& text)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + text) {}
};

// Thrown by SKIP: the test does not apply here, for the reason given.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registrar {
  Registrar(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

template <class T>
std::string show(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out << std::boolalpha << value;
    return out.str();
  } else if constexpr (requires {
                         value.begin();
                         value.end();
                       }) {
    std::string text = "{";
    for (const auto& element : value) text += (text.size() > 1 ? ", " : "") + show(element);
    return text + "}";
  } else {
    return "a value that cannot be printed";
  }
}

// A function, so that temporaries live through the comparison.
template <class A, class B>
void expect_equal(const A& a, const B& b, const char* a_text, const char* b_text, const char* file,
                  int line) {
  if (a == b) return;
  throw Failure(file, line,
                std::string(a_text) + " is " + show(a) + ", expected " + b_text + " = " + show(b));
}

// Runs the tests whose name contains the first command line argument (all without one).
inline int run_all(int argc, char** argv) {
  int passed = 0, failed = 0, skipped = 0;
  for (const Test& test : tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    try {
      test.run();
      ++passed;
      std::printf("ok    %s\n", test.name);
    } catch (const Skip& skip) {
      ++skipped;
      std::printf("skip  %s: %s\n", test.name, skip.what());
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAIL  %s\n      %s\n", test.name, error.what());
    }
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed", passed, failed);
  if (skipped > 0) std::printf(", %d skipped", skipped);
  std::printf("\n");
  return failed == 0 && passed + skipped > 0 ? 0 : 1;
}

}  // namespace check

#define TEST(name)                                                    \
  static void test_##name();                                          \
  static const check::Registrar registrar_##name(#name, test_##name); \
  static void test_##name()

#define SKIP(reason) throw check::Skip(reason)

#define CHECK(...)                                                                           \
  do {                                                                                       \
    if (!(__VA_ARGS__)) throw check::Failure(__FILE__, __LINE__, "not true: " #__VA_ARGS__); \
  } while (false)

#define CHECK_EQ(a, b) check::expect_equal((a), (b), #a, #b, __FILE__, __LINE__)

// The expression must throw a std::exception whose text contains `substring`.
#define CHECK_THROWS(expression, substring)                                                         \
  do {                                                                                              \
    bool check_threw = false;                                                                       \
    try {                                                                                           \
      (void)(expression);                                                                           \
    } catch (const std::exception& error) {                                                         \
      check_threw = true;                                                                           \
      if (std::string(error.what()).find(substring) == std::string::npos) {                         \
        throw check::Failure(__FILE__, __LINE__,                                                    \
                             #expression " threw '" + std::string(error.what()) + "', expected '" + \
                                 std::string(substring) + "' in it");                               \
      }                                                                                             \
    }                                                                                               \
    if (!check_threw) throw check::Failure(__FILE__, __LINE__, #expression " did not throw");       \
  } while (false)

int main(int argc, char** argv) { return check::run_all(argc, argv); }
