// Where memory or threads are short, commands say so and end; none waits for ever.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "tests/integration/workspace.h"

namespace attnlab::testing::limits_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kNoRoom = 5, kHung = 124;  // timeout's

class Limits : public Workspace {
 protected:
  /// The program under a limit of `ulimit`. @param before  what else starts it
  Ended limited(const std::string& limit, const Words& words, const Words& before = {}) const {
    Invocation call = invocation(words);
    Words all = {"timeout", "--kill-after=1", "120"};
    all.insert(all.end(), before.begin(), before.end());
    for (const std::string& word :
         {std::string("bash"), std::string("-c"), "ulimit " + limit + " && exec \"$0\" \"$@\""}) {
      all.push_back(word);
    }
    all.insert(all.end(), call.words.begin(), call.words.end());
    call.words = all;
    return run(call);
  }
};

TEST_F(Limits, OfTheAddressSpaceAreSaidWhereTheyEndAStart) {
  for (const char* kibibytes : {"150000", "250000", "400000", "700000"}) {
    const Ended ended = limited("-v " + std::string(kibibytes), {"attention", "apply", "--help"});
    EXPECT_EQ(ended.exit_code, kNoRoom) << kibibytes << ended.story();
    EXPECT_THAT(ended.err, AllOf(HasSubstr("a start needs about"), HasSubstr("(ulimit -v)")))
        << kibibytes;
  }
}

TEST_F(Limits, OfDataAreSaidWhereTheyEndAStart) {
  for (const char* kibibytes : {"60000", "120000"}) {
    const Ended ended = limited("-d " + std::string(kibibytes), {"attention", "apply", "--help"});
    EXPECT_EQ(ended.exit_code, kNoRoom) << kibibytes << ended.story();
    EXPECT_THAT(ended.err, HasSubstr("(ulimit -d)")) << kibibytes;
  }
}

TEST_F(Limits, ThatSufficeChangeNothing) {
  const Ended ended = limited("-v 100000000", {"run", "tiny.yaml", "--out", "runs"});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
}

TEST_F(Limits, HangNoRun) {
  for (const char* kibibytes : {"950000", "1100000"}) {
    const std::string out = "runs" + std::string(kibibytes);
    const Ended ended = limited("-v " + std::string(kibibytes), {"run", "tiny.yaml", "--out", out});
    EXPECT_NE(ended.exit_code, kHung) << kibibytes << ended.story();
    // (oneDNN writes to memory that it did not get.)
    const bool said = ended.err.find("(ulimit -v)") != ended.err.npos;
    EXPECT_TRUE(ended.exit_code == 0 || said || ended.signal == SIGSEGV)
        << kibibytes << ended.story();
  }
}

TEST_F(Limits, OfThreadsAreSaidWhereNoneIsLeft) {
  // The superuser has no such limit.
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  const Words other_user = {"setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"};
  const Words before = ::geteuid() == 0 ? other_user : Words{};
  if (limited("-u 1000", {"--version"}, before).exit_code != 0) {
    GTEST_SKIP() << "another user cannot start the program where it lies";
  }
  const Words light = {"attention", "apply", "--help"};
  const Words heavy = {"run", "tiny.yaml", "train.threads=2", "--out", "runs"};
  // With three LibTorch's own pool would wait for a thread for ever.
  for (const auto& [most, words] : {std::pair("1", light), std::pair("3", heavy)}) {
    const Ended ended = limited("-u " + std::string(most), words, before);
    EXPECT_EQ(ended.exit_code, kNoRoom) << ended.story();
    EXPECT_THAT(ended.err,
                mentions("cannot start a thread", most + std::string(" processes"), "ulimit -u"));
  }
}

}  // namespace
}  // namespace attnlab::testing::limits_test
