// Predictions that evaluations kept, in a packed result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/runs/predictions.h"
#include "framework/sharing/result_bundle.h"
#include "tests/support/kept_predictions.h"
#include "tests/support/made_runs.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing::packed_predictions_test {
namespace {

TEST(PackedPredictions, StandBesideTheirResultAndAreReadThere) {
  const TempFolder temp;
  temp.write("runs/small/quest/0-0123456789abcdef/config.yaml",
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: quest}\n");
  const RunFolder run(temp / "runs/small/quest/0-0123456789abcdef");
  write_environment(run);
  run.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  MadePredictions made;
  made.examples = {3, 5};
  made.scores["accuracy"] = {1, 0};
  keep(run.path(), evaluated("fog", {{"accuracy", 0.5}}), bytes_of(made));
  write_evaluation(run.path(), evaluated("snow", {{"accuracy", 0.25}}));  // kept none
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  std::size_t count = 0;
  for (const auto& file : sharing::result_files(temp / "runs", none, false).files) {
    if (file.path.find("/evaluations/") == std::string::npos) continue;
    temp.write("unpacked/" + file.path, file.bytes);
    ++count;
  }
  EXPECT_EQ(count, 3U);
  const std::string unpacked = temp / "unpacked/runs/run-00001";
  const std::vector<EvaluationRecord> records = read_evaluations(unpacked).records;
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(read_predictions(unpacked, records.at(0)).examples, ::testing::ElementsAre(3, 5));
}

}  // namespace
}  // namespace attnlab::testing::packed_predictions_test
