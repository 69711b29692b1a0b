// A loader whose workers cannot start.
#include <cstdlib>

#include "framework/base/threads.h"
#include "framework/data/loader.h"
#include "tests/support/data_files.h"
#include "tests/support/few_threads.h"

namespace attnlab::loader_threads_test {
namespace {

using testing::message_of;

class Counting final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return 20; }
  NamedTensors make_example(Split, std::int64_t index, Random*) const override {
    return {{"x", at::tensor({static_cast<double>(index)}, at::kDouble)}};
  }

 private:
  DatasetInfo info_;
};

/// Asks for workers while three threads can start, and again. Ends the process: 0, as it should.
[[noreturn]] void ask_for_workers() {
  const Counting dataset;
  LoaderSettings settings;
  settings.workers = 40;
  const auto make = [&] {
    return Loader(dataset, RandomStreams(0), plan_in_order(20, 4), settings).next();
  };
  std::string message;
  {
    const testing::FewThreads few(3);
    message = message_of<ThreadError>([&] { make(); });
  }
  std::exit(message.find("train.workers") != message.npos && make().has_value() ? 0 : 1);
}

// In a process of its own: TBB, which other tests make work, may start threads at any time later.
TEST(LoaderThreadsDeathTest, SayWhatToDoWhereTheyCannotStart) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ask_for_workers(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace attnlab::loader_threads_test
