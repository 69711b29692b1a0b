// Files of predictions: what they hold, and what is none.
#include "framework/runs/predictions.h"

#include <filesystem>

#include "tests/support/compositions.h"
#include "tests/support/kept_predictions.h"
#include "tests/support/made_runs.h"

namespace attnlab::predictions_test {
namespace {

using namespace testing;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

class PredictionsTest : public ::testing::Test {
 protected:
  /// The record that a result with such a file comes back as.
  EvaluationRecord kept(const std::string& bytes) const {
    EvaluationRecord record = evaluated("swap", {{"accuracy", 0.5}});
    keep(temp_.path(), record, bytes);
    return read_evaluations(temp_.path()).records.at(0);
  }
  Predictions read(const EvaluationRecord& record) const {
    return read_predictions(temp_.path(), record);
  }
  std::string damage(const std::string& bytes) const {
    const EvaluationRecord record = kept(bytes);
    return message_of<DataError>([&] { read(record); });
  }

  const TempFolder temp_;
  const MadePredictions made_{
      {4, 7, 9}, {{"accuracy", {1, 0, 1}}, {"nll", {0.5, 2.25, -1e-300}}}, {1, 2, 3}, "print"};
};

TEST_F(PredictionsTest, ComeBackAsTheyWere) {
  const Predictions read = this->read(kept(bytes_of(made_)));
  EXPECT_THAT(read.examples, ElementsAre(4, 7, 9));
  EXPECT_THAT(read.terms, ElementsAre(1, 2, 3));
  EXPECT_EQ(read.scores.size(), 2U);
  EXPECT_THAT(read.scores.at("nll"), ElementsAre(0.5, 2.25, -1e-300));
  EXPECT_EQ(read.data, "print");
  EXPECT_EQ(predictions_file("swap/0.01", "ab"), "evaluations/swap~0.01-ab.safetensors");
}

TEST_F(PredictionsTest, StandBesideAResultWhateverItsFileIsCalled) {
  kept(bytes_of(made_));
  const std::string from = temp_ / "evaluations/swap-0123456789abcdef";
  for (const char* ending : {".json", ".safetensors"}) {
    fs::rename(from + ending, temp_ / "evaluations/00001" + ending);
  }
  const EvaluationRecord moved = read_evaluations(temp_.path()).records.at(0);
  EXPECT_THAT(read(moved).examples, ElementsAre(4, 7, 9));
}

TEST_F(PredictionsTest, ThatAreNotTheResultsOwnAreRefused) {
  EvaluationRecord record = kept(bytes_of(made_));
  const std::string path = temp_ / predictions_file("swap", record.hash);
  MadePredictions other = made_;
  other.scores["accuracy"][1] = 1;
  write_file(path, bytes_of(other));
  const auto message = [&] { return message_of<DataError>([&] { read(record); }); };
  EXPECT_THAT(message(), AllOf(HasSubstr(path + ": damaged"), HasSubstr("not what its result"),
                               HasSubstr("swap --again")));
  fs::remove(path);
  EXPECT_THAT(message(), AllOf(HasSubstr(path), HasSubstr("missing"), HasSubstr("--again")));
  record.predictions.clear();
  EXPECT_THAT(message_of<ConfigError>([&] { read(record); }),
              AllOf(HasSubstr("'swap' kept no predictions"), HasSubstr("predictions: true")));
}

TEST_F(PredictionsTest, OfAnotherFormAreRefused) {
  const std::string whole = bytes_of(made_);
  EXPECT_THAT(damage(""), HasSubstr("ends before its header"));
  EXPECT_THAT(damage(whole.substr(0, 20)), HasSubstr("ends in its header"));
  EXPECT_THAT(damage(whole.substr(0, whole.size() - 8)), HasSubstr("column of F64"));
  MadePredictions uneven = made_;
  uneven.terms = {1, 2};
  EXPECT_THAT(damage(bytes_of(uneven)), HasSubstr("not of one length"));
  const std::uint64_t length = 2;
  const std::string head(reinterpret_cast<const char*>(&length), sizeof(length));
  EXPECT_THAT(damage(head + "[]"), mentions("header", "map"));
  EXPECT_THAT(damage(head + "{}"), HasSubstr("example"));
}

}  // namespace
}  // namespace attnlab::predictions_test
