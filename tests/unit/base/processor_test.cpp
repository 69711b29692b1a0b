// ATTNLAB_CPU, and what it tells libraries.
#include "framework/base/processor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "framework/base/error.h"

namespace attnlab::processor_test {
namespace {

/// Environment variables as they were, when the scope ends.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }

 private:
  static std::optional<std::string> of(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  static std::map<std::string, std::optional<std::string>> all() {
    std::map<std::string, std::optional<std::string>> found;
    for (const char* name : {"ATTNLAB_CPU", "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE",
                             "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"}) {
      found[name] = of(name);
    }
    return found;
  }
  std::map<std::string, std::optional<std::string>> before_ = all();
};

TEST(InstructionSet, IsTheProcessorsBestWhereNothingIsAsked) {
  const Environment restored;
  ::unsetenv("ATTNLAB_CPU");
  ::setenv("OPENBLAS_CORETYPE", "mine", 1);
  EXPECT_FALSE(asked_instruction_set());
  hold_libraries_to_instruction_set();
  EXPECT_STREQ(std::getenv("OPENBLAS_CORETYPE"), "mine");
  ::setenv("ATTNLAB_CPU", "", 1);
  EXPECT_FALSE(asked_instruction_set());
}

TEST(InstructionSet, IsRefusedWhereThereIsNone) {
  const Environment restored;
  for (const char* word : {"avx", "AVX2", "avx2 ", "fast"}) {
    ::setenv("ATTNLAB_CPU", word, 1);
    try {
      asked_instruction_set();
      ADD_FAILURE() << word;
    } catch (const ConfigError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find(std::string("'") + word + "'"), std::string::npos) << said;
      EXPECT_NE(said.find("sse4, avx2 or avx512"), std::string::npos) << said;
    }
  }
}

TEST(InstructionSet, HoldsLibrariesToo) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the names are those of x86";
#else
  const Environment restored;
  ::setenv("ATTNLAB_CPU", "avx2", 1);
  if (!__builtin_cpu_supports("avx2")) {
    EXPECT_THROW(hold_libraries_to_instruction_set(), ConfigError);
    return;
  }
  hold_libraries_to_instruction_set();
  EXPECT_EQ(asked_instruction_set(), "avx2");
  EXPECT_STREQ(std::getenv("ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_STREQ(std::getenv("OPENBLAS_CORETYPE"), "Haswell");
  EXPECT_STREQ(std::getenv("ONEDNN_MAX_CPU_ISA"), "AVX2");
  EXPECT_STREQ(std::getenv("MKL_ENABLE_INSTRUCTIONS"), "AVX2");
#endif
}

}  // namespace
}  // namespace attnlab::processor_test
