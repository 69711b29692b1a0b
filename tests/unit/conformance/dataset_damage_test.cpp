// Damaged copies of data: the kit fails a dataset that trusts its files.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/conformance/wrong_dataset.h"

namespace attnlab::conformance::dataset_damage_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::Contains;
using testing::failure;
using ::testing::HasSubstr;

/// A file of bytes: how many, then each below 100. What is not checked is left out where asked.
class Bytes final : public Dataset {
 public:
  struct Form {
    bool trusts_the_count = false, blind = false;
    bool skips = false;              ///< one example stands for what is damaged
    std::string below{};             ///< where the file is: "/part"
    std::string before{}, behind{};  ///< words around the folder in info().source
  };
  Bytes(const std::string& folder, const Form& form) {
    try {
      read(folder + form.below + "/data.bin", form.trusts_the_count);
    } catch (const DataError&) {
      if (!form.skips) throw;
      text_ = "\1\1";
    }
    info_.name = "bytes";
    info_.source = form.before + folder + form.behind;
    info_.fingerprint = form.blind ? "bytes" : hex(fingerprint(text_));
    info_.fields = {{"class", {}, at::kLong}};
    info_.classes = 100;
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(text_.size()) - 1 : 0;
  }
  NamedTensors make_example(Split, std::int64_t index, Random*) const override {
    return {{"class", at::scalar_tensor(std::int64_t(text_[std::size_t(index) + 1]), at::kLong)}};
  }

 private:
  void read(const std::string& path, bool trusts_the_count) {
    if (!std::filesystem::exists(path)) throw DataMissingError("no data.bin");
    text_ = read_text(path);
    const std::size_t count = text_.empty() ? 0 : static_cast<unsigned char>(text_[0]);
    if (!trusts_the_count && (count == 0 || text_.size() != count + 1)) {
      throw DataError("data.bin: holds other bytes than its first says");
    }
    for (std::size_t i = 1; i <= count; ++i) {
      if (text_.at(i) < 0 || text_.at(i) >= 100)
        throw DataError("data.bin: a byte is not below 100");
    }
  }

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
  DatasetSubject subject(const Bytes::Form& form) const { return subject_in(folder_.path(), form); }
  static DatasetSubject subject_in(const std::string& path, const Bytes::Form& form) {
    DatasetSubject subject;
    subject.open_folder = [=](const std::string& folder) {
      return std::make_shared<Bytes>(folder, form);
    };
    subject.open = [=](std::uint64_t) { return std::make_shared<Bytes>(path, form); };
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
  ASSERT_EQ(tried.size(), 21U);
  EXPECT_EQ(tried.front(), "an undamaged copy of " + folder_.path());
  EXPECT_THAT(tried, Contains("a copy with data.bin cut off in the middle"));
  EXPECT_THAT(tried, Contains("a copy without README"));
}

TEST_F(DamageCheck, FindsWhatEndsInAnotherException) {
  EXPECT_THAT(failure("damage", subject({.trusts_the_count = true})),
              mentions("another exception", "DataError"));
}

TEST_F(DamageCheck, FindsAFingerprintThatDoesNotSeeDamage) {
  EXPECT_THAT(failure("damage", subject({.blind = true})),
              mentions("other examples", "fingerprint stays bytes"));
}

TEST_F(DamageCheck, FindsADatasetThatReadsOtherFiles) {
  DatasetSubject wrong = subject({});
  wrong.open_folder = [open = wrong.open](const std::string&) { return open(1); };
  EXPECT_THAT(failure("damage", wrong), HasSubstr("damaged copies is refused"));
}

TEST_F(DamageCheck, TakesAnotherDatasetForDamageThatWasNoticed) {
  const CheckResult result = run_check("damage", subject({.skips = true}));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_EQ(result.message, "0 of 20 damaged copies refused");
}

TEST_F(DamageCheck, FollowsLinksToFolders) {
  const attnlab::testing::TempFolder linking;
  std::filesystem::create_directory_symlink(folder_.path(), linking / "part");
  std::vector<std::string> tried;
  DatasetSubject linked = subject_in(linking.path(), {.below = "/part"});
  linked.trying = [&](const std::string& what) { tried.push_back(what); };
  const CheckResult result = run_check("damage", linked);
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(tried, Contains("a copy with part/data.bin cut off in the middle"));
}

TEST_F(DamageCheck, IsNotLedRoundByLinks) {
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "again");
  std::filesystem::create_symlink("nowhere", folder_ / "gone");
  std::filesystem::create_directory_symlink("..", folder_ / "above");
  const CheckResult result = run_check("damage", subject({}));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, HasSubstr(" of 20 damaged copies refused"));
}

TEST_F(DamageCheck, FindsAnUndamagedCopyThatIsRefused) {
  DatasetSubject wrong = subject({});
  wrong.open_folder = [](const std::string&) -> std::shared_ptr<const Dataset> {
    throw DataMissingError("it has moved");
  };
  EXPECT_THAT(failure("damage", wrong), says({folder_.path(), "links", "`root`", "moved"}));
}

TEST_F(DamageCheck, FindsAnUndamagedCopyThatIsAnotherDataset) {
  DatasetSubject wrong = subject({});
  wrong.open_folder = subject({.blind = true}).open_folder;
  EXPECT_THAT(failure("damage", wrong), mentions("fingerprint bytes", "folder itself"));
}

TEST_F(DamageCheck, FindsTheFolderBeforeWords) {
  for (const char* words : {" without 1 damaged files: a", "; without 3 crowds", ", in part"}) {
    const DatasetSubject wordy = subject({.behind = words});
    EXPECT_EQ(run_check("damage", wordy).outcome, Outcome::passed) << words;
    EXPECT_THAT(run_check("fingerprint", wordy).message, says({"changed files", "check damage"}));
  }
}

TEST_F(DamageCheck, TakesTheRootOfDataThatAreMadeFromFiles) {
  DatasetSubject made = subject({.before = "made by rule of "});
  EXPECT_EQ(run_check("damage", made).outcome, Outcome::not_applicable);
  made.root = folder_.path();
  EXPECT_EQ(run_check("damage", made).outcome, Outcome::passed);
  EXPECT_EQ(run_check("fingerprint", made).message, "0 other sets of examples compared");
}

// The folder that the source names, not all that stands below `root`.
TEST_F(DamageCheck, TakesTheFolderBelowTheRootThatTheSourceNames) {
  const attnlab::testing::TempFolder root;
  for (int i = 10; i < 30; ++i) root.write("a/" + std::to_string(i), "nobody reads this");
  root.write("z/data.bin", read_text(folder_ / "data.bin"));
  DatasetSubject made = subject_in(root / "z", {.before = "made by rule of "});
  made.root = root.path();
  const CheckResult result = run_check("damage", made);
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, HasSubstr(" of 10 damaged copies refused"));
}

TEST_F(DamageCheck, DoesNotFailForAGuess) {
  DatasetSubject made = subject({.before = "made by rule ", .behind = "/data.bin"});
  made.open_folder = [open = made.open](const std::string&) { return open(1); };
  made.root = folder_.path();
  EXPECT_EQ(run_check("damage", made).outcome, Outcome::not_applicable);
}

TEST_F(DamageCheck, CopiesEmptyFolders) {
  std::filesystem::create_directory(folder_ / "empty");
  DatasetSubject careful = subject({});
  careful.open_folder = [open = careful.open_folder](const std::string& folder) {
    if (!std::filesystem::exists(folder + "/empty")) throw DataError("no folder 'empty'");
    return open(folder);
  };
  const CheckResult result = run_check("damage", careful);
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
}

TEST_F(DamageCheck, DoesNotTakeAFolderForAFileBesideIt) {
  folder_.write("my/other.bin", "nobody reads this");
  folder_.write("my texts/a.bin", "nobody reads this");
  EXPECT_EQ(run_check("damage", subject({.behind = "/my texts/a.bin"})).outcome,
            Outcome::not_applicable);
}

TEST_F(DamageCheck, LeavesTheFilesAsTheyAre) {
  const std::string before = read_text(folder_ / "data.bin");
  run_check("damage", subject({}));
  EXPECT_EQ(read_text(folder_ / "data.bin"), before);
}

}  // namespace
}  // namespace attnlab::conformance::dataset_damage_test
