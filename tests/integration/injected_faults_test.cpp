// Below all reading and writing the n-th call fails: the folder stays usable, and what was reported
// is there. Some n of each kind and command; ATTNLAB_FAULT_POINTS=0 takes all of them, of the kind
// ATTNLAB_FAULT_KIND alone where it is set (scripts/night.sh).
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "tests/integration/sequences.h"

namespace attnlab::testing::injected_faults_test {
namespace {

namespace fs = std::filesystem;

class InjectedFaults : public Sequences, public ::testing::WithParamInterface<Sequence> {
 protected:
  /// The command with a fault. @param at  which call; 0: none
  Ended disturbed(const std::string& folder, const std::string& kind, std::int64_t at) {
    const char* const later_too = kind == "enospc" && at > 0 ? "+" : "";  // a disk stays full
    const std::string fault = kind + ":" + std::to_string(at) + later_too;
    return run(in(folder, GetParam().command, with_fault(folder, fault)));
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

  static std::size_t runs_in(const Outcome& outcome) {
    return static_cast<std::size_t>(std::count_if(
        outcome.begin(), outcome.end(),
        [](const auto& one) { return fs::path(one.first).filename() == "config.yaml"; }));
  }

  void try_fault(const std::string& kind, std::int64_t at, const Outcome& before,
                 const Outcome& expected) {
    SCOPED_TRACE(std::string(GetParam().name) + ": " + kind + ":" + std::to_string(at));
    const std::string folder = prepared(GetParam(), "work");
    const double tolerance = GetParam().tolerance;
    const Ended ended = disturbed(folder, kind, at);
    EXPECT_EQ(ended.signal, 0) << ended.story();
    const bool harmless = kind == "short" || kind == "eintr";
    if (harmless || ended.exit_code == 0) {
      EXPECT_EQ(ended.exit_code, 0) << ended.story();
      expect_outcome(folder, expected, tolerance);  // no fault is silent
    } else {
      EXPECT_NE(ended.out + ended.err, "");
      expect_reported(ended, folder, expected, tolerance);
      for (const auto& [name, text] : before) {  // what was there is there, or is new and whole
        if (GetParam().begun) break;             // what was begun may have gone on
        const Outcome now = outcome_of(folder);
        const bool kept =
            now.count(name) > 0 && (now.at(name) == text || now.at(name) == expected.at(name));
        EXPECT_TRUE(kept) << name << "\n" << ended.story();
      }
    }
    finish(GetParam(), folder);
    expect_outcome(folder, expected, tolerance);
    if (HasFailure()) std::cout << ended.story();
  }
};

TEST_P(InjectedFaults, LeaveTheFolderUsableAndNothingReportedLost) {
  const Outcome before = outcome_of(prepared(GetParam(), "undisturbed"));
  const char* only = std::getenv("ATTNLAB_FAULT_KIND");
  std::int64_t tried = 0;
  Outcome expected;
  for (const std::string kind : {"short", "eintr", "eio", "enospc", "fsync", "rename"}) {
    if (only != nullptr && only != kind) continue;
    const std::string folder = prepared(GetParam(), "undisturbed");
    const Ended ended = disturbed(folder, kind, 0);
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
    if (expected.empty()) expected = outcome_of(folder);
    expect_outcome(folder, expected, GetParam().tolerance);
    // Else what is to be kept was not seen.
    EXPECT_GT(expect_reported(ended, folder, expected, GetParam().tolerance), 0U) << ended.story();
    const bool trains = GetParam().before.empty();
    EXPECT_EQ(reported_done(ended.out).size(), trains ? runs_in(expected) : 0U) << ended.story();
    const std::int64_t all = calls();
    ASSERT_GT(all, 0) << kind << ": the library below the program counts nothing";
    for (const std::int64_t at : points(all)) {
      try_fault(kind, at, before, expected);
      ++tried;
    }
    std::cout << GetParam().name << ", " << kind << ": " << all << " calls\n";
  }
  EXPECT_GT(tried, 0) << "ATTNLAB_FAULT_KIND is not one of the kinds";
  std::cout << GetParam().name << ": " << tried << " faults\n";
}

INSTANTIATE_TEST_SUITE_P(Commands, InjectedFaults, ::testing::ValuesIn(sequences()),
                         [](const auto& all) { return std::string(all.param.name); });

}  // namespace
}  // namespace attnlab::testing::injected_faults_test
