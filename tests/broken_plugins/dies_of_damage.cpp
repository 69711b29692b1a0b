// A dataset that ends the process where its file was cut, after it has said more than is shown.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "framework/base/files.h"
#include "tests/broken_plugins/broken.h"

namespace {

using attnlab::NamedTensors;
using attnlab::Split;

constexpr std::size_t kValues = 64;

struct Options {
  std::string root;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with values.bin");
  }
};

class Dying final : public attnlab::Dataset {
 public:
  Dying(const Options& options, const attnlab::DatasetSetup&) {
    const std::string path = options.root + "/values.bin";
    if (!std::filesystem::exists(path)) throw attnlab::DataError(path + ": is not there");
    values_ = attnlab::read_text(path);
    if (values_.size() < kValues) {
      for (int frame = 0; frame < 8; ++frame) std::fprintf(stderr, "frame %d\n", frame);
      std::abort();
    }
    info_.name = "dies_of_damage";
    info_.source = options.root;
    info_.fingerprint = attnlab::hex(attnlab::fingerprint(values_));
    info_.fields = {{"x", {}, at::kFloat}};
  }
  const attnlab::DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kValues; }
  NamedTensors make_example(Split, std::int64_t index, attnlab::Random*) const override {
    const auto value = static_cast<unsigned char>(values_[static_cast<std::size_t>(index)]);
    return {{"x", at::scalar_tensor(value, at::kFloat)}};
  }

 private:
  std::string values_;
  attnlab::DatasetInfo info_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Dying, Options,
               {.id = "broken/dies_of_damage",
                .version = "1.0.0",
                .summary = "broken on purpose",
                .licence = "Apache-2.0",
                .gives = {"x"}})
