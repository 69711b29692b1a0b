// Below all reading and writing the n-th call fails: the folder stays usable, and what was reported
// is there. Some n of each kind and command; ATTNLAB_FAULT_POINTS=0 takes all of them (scripts/
// night.sh), ATTNLAB_FAULT_ONLY=NAME one command.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "tests/integration/sequences.h"

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;

class InjectedFaults : public Sequences, public ::testing::WithParamInterface<Sequence> {
 protected:
  /// The command with a fault. @param at  which call; 0: none
  Ended with_fault(const std::string& folder, const std::string& kind, std::int64_t at) {
    fs::remove(calls_);
    const char* const later_too = kind == "enospc" && at > 0 ? "+" : "";  // a disk stays full
    return run(in(folder, GetParam().command,
                  {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                   {"ATTNLAB_FAULT", kind + ":" + std::to_string(at) + later_too},
                   {"ATTNLAB_FAULT_BELOW", folder},
                   {"ATTNLAB_FAULT_CALLS", calls_}}));
  }

  std::int64_t calls() const {
    const std::string bytes = file_text(calls_);
    std::int64_t count = 0;
    if (bytes.size() == sizeof count) std::memcpy(&count, bytes.data(), sizeof count);
    return count;
  }

  /// Which of so many calls are tried.
  static std::vector<std::int64_t> points(std::int64_t all) {
    std::int64_t some = number_from("ATTNLAB_FAULT_POINTS", 1);
    if (some == 0) some = all;
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < std::min(some, all); ++i) {
      chosen.push_back(1 + (2 * i + 1) * all / (2 * some));
    }
    return chosen;
  }

  void try_fault(const std::string& kind, std::int64_t at, const Outcome& before,
                 const Outcome& expected) {
    SCOPED_TRACE(std::string(GetParam().name) + ": " + kind + ":" + std::to_string(at));
    const std::string folder = prepared(GetParam(), "work");
    const Ended ended = with_fault(folder, kind, at);
    EXPECT_EQ(ended.signal, 0) << ended.story();
    const bool harmless = kind == "short" || kind == "eintr";
    if (harmless || ended.exit_code == 0) {
      EXPECT_EQ(ended.exit_code, 0) << ended.story();
      expect_outcome(folder, expected);  // no fault is silent
    } else {
      EXPECT_NE(ended.out + ended.err, "");
      for (const auto& [name, text] : before) {  // what was there is there, or is new and whole
        const Outcome now = outcome_of(folder);
        const bool kept =
            now.count(name) > 0 && (now.at(name) == text || now.at(name) == expected.at(name));
        EXPECT_TRUE(kept || name.find("evaluations/") != std::string::npos) << name;
      }
    }
    finish(GetParam(), folder);
    expect_outcome(folder, expected);
    if (HasFailure()) std::cout << ended.story();
  }

  const std::string calls_ = at("calls");
};

TEST_P(InjectedFaults, LeaveTheFolderUsableAndNothingReportedLost) {
  const char* only = std::getenv("ATTNLAB_FAULT_ONLY");
  if (only != nullptr && std::string(only) != GetParam().name) GTEST_SKIP() << "not asked for";
  const Outcome before = outcome_of(prepared(GetParam(), "undisturbed"));
  std::int64_t tried = 0;
  Outcome expected;
  for (const std::string kind : {"short", "eintr", "eio", "enospc", "fsync", "rename"}) {
    const std::string folder = prepared(GetParam(), "undisturbed");
    const Ended ended = with_fault(folder, kind, 0);
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
    if (expected.empty()) expected = outcome_of(folder);
    expect_outcome(folder, expected);
    const std::int64_t all = calls();
    ASSERT_GT(all, 0) << kind << ": the library below the program counts nothing";
    for (const std::int64_t at : points(all)) {
      try_fault(kind, at, before, expected);
      ++tried;
    }
    std::cout << GetParam().name << ", " << kind << ": " << all << " calls\n";
  }
  std::cout << GetParam().name << ": " << tried << " faults\n";
}

INSTANTIATE_TEST_SUITE_P(Commands, InjectedFaults, ::testing::ValuesIn(sequences()),
                         [](const auto& all) { return std::string(all.param.name); });

}  // namespace
}  // namespace attnlab::testing
