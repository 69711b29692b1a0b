// Files of stored runs. (What suites make of them: tests/unit/suites/stored_cells_test.cpp.)
#include "framework/runs/stored_run.h"

#include "framework/base/files.h"
#include "tests/support/compositions.h"
#include "tests/support/made_runs.h"

namespace attnlab::stored_run_test {
namespace {

using namespace testing;

TEST(StoredRun, KeepsOfWhichWeightsItsEvaluationsAre) {
  const TempFolder temp;
  StoredRun run;
  run.config = "schema: 1\n";
  run.status.state = RunState::done;
  for (const char* weights : {"average", ""}) {
    run.evaluations = {{"fog", "0123456789abcdef", "test", true, "", {}, kMadeMetrics}};
    run.evaluations[0].weights = weights;
    const std::string text = stored_json(run);
    EXPECT_EQ(text.find("\"weights\"") == std::string::npos, *weights == '\0')
        << "one of an earlier version does not say it";
    const StoredRun read = read_stored(temp.write("run.json", text));
    EXPECT_EQ(read.evaluations.at(0).weights, weights);
    EXPECT_EQ(stored_json(read), text);
  }
}

}  // namespace
}  // namespace attnlab::stored_run_test
