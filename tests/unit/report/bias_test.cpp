// The last recorded bias of made-up runs, and what is not a bias.
#include "framework/report/bias.h"

#include <cmath>

#include "tests/support/compositions.h"

namespace attnlab::bias_test {
namespace {

using namespace testing;

class ReportBiasTest : public ::testing::Test {
 protected:
  void add_run(const std::string& attention, std::int64_t seed, const std::string& lines) {
    RunRecord run;
    run.experiment = "sorting";
    run.attention = attention;
    run.seed = seed;
    run.folder = temp_ / (attention + std::to_string(seed));
    temp_.write(attention + std::to_string(seed) + "/metrics.jsonl", lines);
    runs_.push_back(std::move(run));
  }
  static std::string line(int step, int layer, const std::string& heads,
                          const std::string& more = "") {
    return R"({"split":"trace","step":)" + std::to_string(step) + R"(,"layer":)" +
           std::to_string(layer) + more + R"(,"bias":{"first":-1,"heads":)" + heads + "}}\n";
  }

  TempFolder temp_;
  std::vector<RunRecord> runs_;
};

TEST_F(ReportBiasTest, IsThatOfEachLayersLastRecord) {
  add_run("indirect", 3,
          line(1, 0, "[[9,9,9]]") + line(1, 1, "[[9,9,9]]") + line(50, 0, "[[1,2,3],[4,null,6]]") +
              line(50, 1, "[[7,8,9]]") + line(50, 1, "[[0,0,0]]", R"(,"call":1)"));
  const std::vector<BiasFigure> found = biases_of(runs_);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].experiment + " " + found[0].attention, "sorting indirect");
  EXPECT_EQ(found[0].seed, 3);
  EXPECT_EQ(found[0].step, 50);
  EXPECT_EQ(found[0].first, -1);
  ASSERT_EQ(found[0].heads.size(), 2U);
  EXPECT_THAT(found[0].heads[0], ElementsAre(1, 2, 3));
  EXPECT_EQ(found[0].heads[1][0], 4);
  EXPECT_TRUE(std::isnan(found[0].heads[1][1]));
  EXPECT_EQ(found[1].layer, "1");
  EXPECT_EQ(found[2].layer, "1 call 1");
}

TEST_F(ReportBiasTest, LeavesOutWhatIsNone) {
  add_run("standard", 0, R"({"split":"trace","step":1,"layer":0,"entropy":2})");
  add_run("cut", 0, line(1, 0, "[[1,2]]") + R"({"split":"trace","step":2,"layer":0,"bias":{"fi)");
  add_run("odd", 0,
          line(1, 0, "[[1,2],[3]]") + line(2, 0, "[]") + line(3, 0, "[[]]") + line(4, 0, "7") +
              R"({"split":"trace","step":5,"layer":0,"bias":0.5})" + "\n" +
              R"({"split":"trace","step":6,"layer":"0","bias":{"first":0,"heads":[[1]]}})");
  const std::vector<BiasFigure> found = biases_of(runs_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].attention, "cut");
  EXPECT_EQ(found[0].step, 1);
}

TEST_F(ReportBiasTest, KeepsTheFirstSeedWhateverItsSizeAndOthersWithinTheLimit) {
  for (int seed = 0; seed < 4; ++seed) add_run("indirect", seed, line(1, 0, "[[1,2,3]]"));
  const auto seeds = [&](std::size_t most) {
    std::vector<std::int64_t> all;
    for (const BiasFigure& figure : biases_of(runs_, most)) all.push_back(figure.seed);
    return all;
  };
  EXPECT_THAT(seeds(1), ElementsAre(0));
  EXPECT_THAT(seeds(8), ElementsAre(0, 1));
  EXPECT_THAT(seeds(100), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace attnlab::bias_test
