// A dataset that loads, and ends the process when it is built.
#include <cstdio>
#include <cstdlib>

#include "tests/broken_plugins/broken.h"

namespace {

struct CrashingOptions {
  std::string root;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the data");
  }
};

class CrashingDataset final : public attnlab::Dataset {
 public:
  CrashingDataset(const CrashingOptions&, const attnlab::DatasetSetup&) {
    std::fputs("index out of bounds\n", stderr);
    std::abort();
  }

  const attnlab::DatasetInfo& info() const override { return info_; }
  std::int64_t size(attnlab::Split) const override { return 0; }

 protected:
  attnlab::NamedTensors make_example(attnlab::Split, std::int64_t,
                                     attnlab::Random*) const override {
    return {};
  }

 private:
  attnlab::DatasetInfo info_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, CrashingDataset, CrashingOptions,
               ::attnlab::broken::info("broken/dataset_crashes_when_built"))
