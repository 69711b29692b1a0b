// Kills at random moments: what is gone on with ends as if nobody had disturbed it. For
// ATTNLAB_KILL_SECONDS (60) seconds, or ATTNLAB_KILLS kills (scripts/night.sh: a thousand); all
// follow from ATTNLAB_KILL_SEED (1) but for the machine's own speed.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/integration/sequences.h"

namespace attnlab::testing::kills_test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The process that started another one; 0 where it has ended.
pid_t parent_of(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(in, line);
  std::istringstream rest(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string state;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

/// All processes below one.
std::vector<pid_t> below(pid_t top) {
  std::vector<pid_t> found = {top};
  std::vector<pid_t> all;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process > 0) all.push_back(process);
  }
  std::sort(all.begin(), all.end());  // children mostly come after their parents
  for (const pid_t process : all) {
    const bool known = std::find(found.begin(), found.end(), parent_of(process)) != found.end();
    if (known) found.push_back(process);
  }
  found.erase(found.begin());
  return found;
}

enum class Victim { parent, child, all };

class Kills : public Sequences {
 protected:
  /// Starts the command and kills somebody within `most`; what it had reported by then is there.
  /// @returns whether it came in time.
  bool kill_once(const Sequence& sequence, const std::string& folder, Clock::duration most,
                 const Outcome& expected) {
    const auto delay = std::uniform_int_distribution<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::microseconds>(most).count())(random_);
    const auto victim = static_cast<Victim>(std::uniform_int_distribution<int>(0, 2)(random_));
    Process process(in(folder, sequence.command));
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    // The program, which this test started alone, and what is below it.
    const std::vector<pid_t> family = below(::getpid());
    for (std::size_t i = family.size(); i-- > 0;) {
      const bool wanted =
          victim == Victim::all || (victim == Victim::parent && i == 0) ||
          (victim == Victim::child && i == std::min<std::size_t>(1, family.size() - 1));
      if (wanted) ::kill(family[i], SIGKILL);
    }
    const Ended ended = process.wait();
    std::cout << sequence.name << ": after " << delay / 1000 << " ms "
              << (ended.signal != 0 ? "killed" : "ended with " + std::to_string(ended.exit_code))
              << ", " << family.size() << " processes\n";
    expect_reported(ended, folder, expected, sequence.tolerance);
    return ended.signal != 0 || ended.exit_code != 0;
  }

  std::mt19937_64 random_{static_cast<std::uint64_t>(number_from("ATTNLAB_KILL_SEED", 1))};
};

TEST_F(Kills, AtRandomMomentsChangeNothing) {
  const std::int64_t wanted = number_from("ATTNLAB_KILLS", 0);
  const auto end = Clock::now() + std::chrono::seconds(number_from("ATTNLAB_KILL_SECONDS", 60));
  std::map<std::string, Outcome> expected;
  std::map<std::string, Clock::duration> lasts;
  std::int64_t kills = 0, rounds = 0;
  const std::vector<Sequence> all = sequences();
  while (wanted > 0 ? kills < wanted : Clock::now() < end || rounds == 0) {
    const Sequence& sequence = all[static_cast<std::size_t>(rounds++) % all.size()];
    SCOPED_TRACE(std::string(sequence.name) + ", round " + std::to_string(rounds));
    if (expected.count(sequence.name) == 0) {
      const std::string folder = prepared(sequence, "undisturbed");
      const Clock::time_point begin = Clock::now();
      finish(sequence, folder);
      lasts[sequence.name] = Clock::now() - begin;
      expected[sequence.name] = outcome_of(folder);
    }
    const std::string folder = prepared(sequence, "work");
    const Outcome& outcome = expected[sequence.name];
    for (int i = 0; i < 3; ++i) {
      kills += kill_once(sequence, folder, lasts[sequence.name], outcome) ? 1 : 0;
    }
    finish(sequence, folder);
    expect_outcome(folder, outcome, sequence.tolerance);
    ASSERT_FALSE(HasFailure());
  }
  std::cout << kills << " kills in " << rounds << " rounds\n";
  EXPECT_GT(kills, 0) << "none came in time";
}

}  // namespace
}  // namespace attnlab::testing::kills_test
