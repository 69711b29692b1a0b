// Damaged copies of data: the kit fails a dataset that trusts its files.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/conformance/wrong_dataset.h"

namespace attnlab::conformance::dataset_damage_test {
namespace {

using ::testing::Contains;
using testing::failure;
using ::testing::HasSubstr;

/// A file of bytes: how many, then each below 100. What is not checked is left out where asked.
class Bytes final : public Dataset {
 public:
  struct Faults {
    bool trusts_the_count = false, blind = false;
  };
  Bytes(const std::string& folder, const Faults& faults) {
    if (!std::filesystem::exists(folder + "/data.bin")) throw DataMissingError("no data.bin");
    text_ = read_text(folder + "/data.bin");
    const std::size_t count = text_.empty() ? 0 : static_cast<unsigned char>(text_[0]);
    if (!faults.trusts_the_count && (count == 0 || text_.size() != count + 1)) {
      throw DataError("data.bin: holds other bytes than its first says");
    }
    for (std::size_t i = 1; i <= count; ++i) {
      if (text_.at(i) < 0 || text_.at(i) >= 100)
        throw DataError("data.bin: a byte is not below 100");
    }
    info_.name = "bytes";
    info_.source = folder;
    info_.fingerprint = faults.blind ? "bytes" : hex(fingerprint(text_));
    info_.fields = {{"class", {}, at::kLong}};
    info_.classes = 100;
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(text_.size()) - 1 : 0;
  }
  NamedTensors example(Split split, std::int64_t index, Random*) const override {
    if (index < 0 || index >= size(split)) throw DataError("no such example");
    return {{"class", at::scalar_tensor(std::int64_t(text_[std::size_t(index) + 1]), at::kLong)}};
  }

 private:
  std::string text_;
  DatasetInfo info_;
};

class DamageCheck : public ::testing::Test {
 protected:
  DamageCheck() {
    std::string text(31, '\5');
    text[0] = 30;
    folder_.write("data.bin", text);
    folder_.write("README", "nobody reads this");
  }
  DatasetSubject subject(const Bytes::Faults& faults) const {
    DatasetSubject subject;
    subject.open_folder = [=](const std::string& folder) {
      return std::make_shared<Bytes>(folder, faults);
    };
    subject.open = [=, path = folder_.path()](std::uint64_t) {
      return std::make_shared<Bytes>(path, faults);
    };
    return subject;
  }

  attnlab::testing::TempFolder folder_;
};

TEST_F(DamageCheck, PassesWhereDamageIsRefusedOrAnotherDataset) {
  std::vector<std::string> tried;
  DatasetSubject sound = subject({});
  sound.trying = [&](const std::string& what) { tried.push_back(what); };
  const CheckResult result = run_check("damage", sound);
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, HasSubstr(" of 20 damaged copies refused"));
  EXPECT_EQ(tried.size(), 20U);
  EXPECT_THAT(tried, Contains("a copy with data.bin cut off in the middle"));
  EXPECT_THAT(tried, Contains("a copy without README"));
}

TEST_F(DamageCheck, FindsWhatEndsInAnotherException) {
  EXPECT_THAT(failure("damage", subject({.trusts_the_count = true})),
              HasSubstr("ends in another exception than a DataError"));
}

TEST_F(DamageCheck, FindsAFingerprintThatDoesNotSeeDamage) {
  EXPECT_THAT(failure("damage", subject({.blind = true})),
              HasSubstr("gives other examples, but the fingerprint stays bytes"));
}

TEST_F(DamageCheck, FindsADatasetThatReadsOtherFiles) {
  DatasetSubject wrong = subject({});
  wrong.open_folder = [open = wrong.open](const std::string&) { return open(1); };
  EXPECT_THAT(failure("damage", wrong), HasSubstr("damaged copies is refused"));
}

TEST_F(DamageCheck, LeavesTheFilesAsTheyAre) {
  const std::string before = read_text(folder_ / "data.bin");
  run_check("damage", subject({}));
  EXPECT_EQ(read_text(folder_ / "data.bin"), before);
}

}  // namespace
}  // namespace attnlab::conformance::dataset_damage_test
