// A loader whose workers cannot start.
#include "framework/base/threads.h"
#include "framework/data/loader.h"
#include "tests/support/data_files.h"
#include "tests/support/few_threads.h"

namespace attnlab {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

class Counting final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return 20; }
  NamedTensors example(Split, std::int64_t index, Random*) const override {
    return {{"x", at::tensor({static_cast<double>(index)}, at::kDouble)}};
  }

 private:
  DatasetInfo info_;
};

TEST(LoaderThreads, SayWhatToDoWhereTheyCannotStart) {
  const Counting dataset;
  LoaderSettings settings;
  settings.workers = 40;  // more than any other test starts
  const auto make = [&] {
    return Loader(dataset, RandomStreams(0), plan_in_order(20, 4), settings).next();
  };
  {
    const testing::FewThreads few(3);
    EXPECT_THAT(message_of<ThreadError>([&] { make(); }), HasSubstr("train.workers"));
  }
  EXPECT_TRUE(make().has_value()) << "with threads again";
}

}  // namespace
}  // namespace attnlab
