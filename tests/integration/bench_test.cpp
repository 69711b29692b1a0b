// attnlab bench attention on tiny shapes: what is reported, not how long anything takes.
#include "tests/integration/workspace.h"

namespace attnlab::testing::bench_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Bench : public Workspace {
 protected:
  Ended bench(Words more, Environment environment = {}) const {
    Words words = {"bench", "attention", "--seconds", "0", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return attnlab(std::move(words), std::move(environment));
  }
  json report(Words more, Environment environment = {}) const {
    more.push_back("--json");
    const Ended ended = bench(std::move(more), std::move(environment));
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return ended.exit_code == 0 ? json::parse(ended.out) : json();
  }
};

void expect_times(const json& times) {
  EXPECT_GT(times.at("seconds"), 0);
  EXPECT_GT(times.at("standard_seconds"), 0);
  EXPECT_GE(times.at("rounds"), 3);
  EXPECT_LE(times.at("interval").at(0), times.at("ratio"));
  EXPECT_GE(times.at("interval").at(1), times.at("ratio"));
}

TEST_F(Bench, ReportsEveryAttentionAtEveryShape) {
  const json out = report({"standard", "quest", "--shapes", "2x2x16x8,1×3×64×4"});
  EXPECT_EQ(out.at("threads"), 1);
  EXPECT_EQ(out.at("kernel"), "automatic");
  EXPECT_FALSE(out.at("instructions").get<std::string>().empty());
  EXPECT_FALSE(out.at("machine").at("cpu").get<std::string>().empty());
  ASSERT_EQ(out.at("shapes").size(), 2U);
  const json& second = out.at("shapes").at(1);
  EXPECT_EQ(second.at("shape"), "1×3×64×4");
  EXPECT_EQ(second.at("heads"), 3);
  EXPECT_EQ(second.at("length"), 64);
  for (const json& block : out.at("shapes")) {
    EXPECT_GT(block.at("matmul_flops"), 1e6);
    EXPECT_GT(block.at("standard_share").at("forward"), 0);
    EXPECT_LT(block.at("standard_share").at("training"), 1);
    ASSERT_EQ(block.at("attentions").size(), 2U);
    EXPECT_EQ(block.at("attentions").at(0).at("attention"), "standard");
    EXPECT_EQ(block.at("attentions").at(1).at("attention"), "quest");
    for (const json& cell : block.at("attentions")) {
      expect_times(cell.at("forward"));
      expect_times(cell.at("training"));
    }
  }
}

TEST_F(Bench, CountsTheMemoryOfWeightsOutputAndGradients) {
  const json out = report({"standard", "quest", "--shapes", "2x2x64x8"});
  const json& cells = out.at("shapes").at(0).at("attentions");
  constexpr std::int64_t kWeights = 2 * 2 * 64 * 64 * 4, kChannels = 2 * 2 * 64 * 8 * 4;
  const std::int64_t standard = cells.at(0).at("peak_bytes");
  EXPECT_GE(standard, kWeights + 4 * kChannels) << "weights, output, three gradients";
  EXPECT_LE(standard, 3 * (kWeights + 4 * kChannels));
  EXPECT_EQ(cells.at(0).at("peak_ratio"), 1.0);
  constexpr std::int64_t kNorms = 2 * 2 * 64 * 4;
  EXPECT_EQ(cells.at(1).at("peak_bytes"), standard + kNorms)
      << "the norms of the keys, and no copy of them";
}

TEST_F(Bench, TakesOptionsAndLabels) {
  const json out = report({"{use: quest, as: soft, eps: 0.5}", "--shapes", "1x1x8x4"});
  EXPECT_EQ(out.at("shapes").at(0).at("attentions").at(0).at("attention"), "soft");
  EXPECT_THAT(out.at("bars").at(0).at("what"), HasSubstr("soft: time over standard's"));
  const json by_environment = report({"{use: quest, as: '${env:LABEL}', eps: '${env:EPS}'}",
                                      "${env:SECOND,standard}", "--shapes", "1x1x8x4"},
                                     {{"LABEL", "mine"}, {"EPS", "0.5"}});
  const json& named = by_environment.at("shapes").at(0).at("attentions");
  EXPECT_EQ(named.at(0).at("attention"), "mine");
  EXPECT_EQ(named.at(1).at("attention"), "standard");
  EXPECT_THAT(bench({"{use: quest, eps: '${env:NO_SUCH_NAME}'}"}).err,
              HasSubstr("environment has no NO_SUCH_NAME"));
  const Ended wrong = bench({"{use: quest, epz: 0.5}"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'eps'?"));
}

TEST_F(Bench, SaysWhetherQuestKeepsItsLimit) {
  const json out = report({"quest", "--shapes", "1x1x8x4,1x1x16x4"});
  ASSERT_EQ(out.at("bars").size(), 2U);
  for (const json& bar : out.at("bars")) {
    EXPECT_EQ(bar.at("limit"), 1.05);
    double worst = 0;
    bool above = false;
    for (const json& block : out.at("shapes")) {
      const bool forward = bar.at("what") == "quest: time over standard's, forward";
      const json& times = block.at("attentions").at(0).at(forward ? "forward" : "training");
      worst = std::max<double>(worst, times.at("ratio"));
      above |= times.at("interval").at(0) > 1.05;
    }
    EXPECT_EQ(bar.at("worst"), worst);
    EXPECT_EQ(bar.at("verdict"), above ? "missed" : worst > 1.05 ? "unclear" : "holds");
  }
}

TEST_F(Bench, ComparesLinearMechanismsWithThemselvesAtAQuarterOfTheLength) {
  const json out = report({"linear", "cosine", "--shapes", "4x1x64x4,1x1x8x4"});
  std::vector<std::string> what;
  for (const json& bar : out.at("bars")) {
    what.push_back(bar.at("what"));
    EXPECT_EQ(bar.at("limit"), 5);
    EXPECT_EQ(bar.at("shape"), "1×1×64×4") << "one example at both lengths";
    EXPECT_GT(bar.at("worst"), 0);
    EXPECT_THAT(bar.at("verdict"), AnyOf("holds", "unclear", "missed"));
  }
  const auto bar = [](const std::string& name, const std::string& pass) {
    return AllOf(StartsWith(name + ": "), mentions("n = 64", "n = 16"), EndsWith(", " + pass));
  };
  EXPECT_THAT(what, ElementsAre(bar("linear", "forward"), bar("linear", "forward + backward"),
                                bar("cosine", "forward"), bar("cosine", "forward + backward")));
}

TEST_F(Bench, ComparesDoublyStochasticWithItsIterationsOfSoftmax) {
  const json out = report({"{use: doubly_stochastic, max_iter: 7}", "--shapes", "1x2x16x4"});
  ASSERT_EQ(out.at("bars").size(), 2U);
  for (const json& bar : out.at("bars")) {
    EXPECT_THAT(bar.at("what"), HasSubstr("7 softmax passes"));
    EXPECT_EQ(bar.at("limit"), 1);
    EXPECT_EQ(bar.at("shape"), "1×2×16×4");
    EXPECT_LE(bar.at("interval").at(0), bar.at("worst"));
  }
}

TEST_F(Bench, LeavesATypedGapWhereAMechanismCannot) {
  const json out = report({"doubly_stochastic", "quest", "--causal", "--shapes", "1x1x8x4"});
  EXPECT_EQ(out.at("causal"), true);
  const json& cells = out.at("shapes").at(0).at("attentions");
  EXPECT_EQ(cells.at(0).at("absent").at("why"), "incompatible");
  EXPECT_THAT(cells.at(0).at("absent").at("reason"), HasSubstr("causal"));
  EXPECT_EQ(cells.at(0).count("forward"), 0U);
  expect_times(cells.at(1).at("forward"));
}

TEST_F(Bench, GoesOnWhateverAMechanismThrows) {
  const Ended ended = bench({"throws_number_in_forward", "throws_lines_in_forward", "quest",
                             "--shapes", "1x1x8x4", "--json"},
                            {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  ASSERT_EQ(ended.exit_code, 1) << ended.story();
  const json out = json::parse(ended.out);
  const json& cells = out.at("shapes").at(0).at("attentions");
  EXPECT_EQ(cells.at(0).at("absent").at("why"), "failed");
  EXPECT_THAT(cells.at(0).at("absent").at("reason"), HasSubstr("not a std::exception"));
  EXPECT_EQ(cells.at(1).at("absent").at("why"), "failed");
  EXPECT_EQ(cells.at(1).at("absent").at("reason"), "first line forged line");
  expect_times(cells.at(2).at("forward"));
}

TEST_F(Bench, NamesTheKernelThatIsTaken) {
  const Words words = {"standard", "--shapes", "1x1x8x4"};
  const auto kernel = [](const json& out) {
    return out.at("shapes").at(0).at("attentions").at(0).at("kernel");
  };
  EXPECT_EQ(kernel(report(words)), "headwise");
  const json out = report(words, {{"ATTNLAB_ATTENTION_KERNEL", "explicit"}});
  EXPECT_EQ(kernel(out), "explicit");
  EXPECT_EQ(out.at("kernel"), "explicit");
}

TEST_F(Bench, RefusesShapesThatNoMachineHolds) {
  const Ended ended = bench({"quest", "--shapes", "1x1x16000000000x4"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, mentions("1×1×16000000000×4: ", "standard attention", "GiB are free"));
  const Ended beyond = bench({"quest", "--shapes", "1x1x10000000000000000x64"});
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("4294967296.0 GiB"));
}

TEST_F(Bench, PrintsATableForPeople) {
  const Ended ended = bench({"standard", "quest", "--shapes", "1x2x16x8"});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  for (const char* part : {"LibTorch", "n = 16 (1×2×16×8): ", "GFLOP/s", "\n  standard   headwise",
                           "\n  quest      headwise", "\nlimits\n",
                           "quest: time over standard's, forward", "at most 1.05"}) {
    EXPECT_THAT(ended.out, HasSubstr(part));
  }
}

TEST_F(Bench, KnowsEveryAttentionOfTheTree) {
  const json out = report({"--shapes", "1x1x8x4"});
  std::vector<std::string> names;
  for (const json& cell : out.at("shapes").at(0).at("attentions")) {
    names.push_back(cell.at("attention"));
    if (cell.count("absent") == 0) continue;
    // Without --causal, what needs an order.
    EXPECT_THAT(cell.at("absent").at("reason").get<std::string>(), HasSubstr("trait 'ordered'"));
  }
  json listed = json::parse(must({"list", "attention", "--json"}).out);
  EXPECT_EQ(names.size(), listed.at("plugins").size());
  EXPECT_EQ(names.at(0), "standard");
}

TEST_F(Bench, SaysWhatIsWrongWithAnArgument) {
  EXPECT_THAT(refusal({"bench"}), HasSubstr("something is missing"));
  EXPECT_THAT(refusal({"bench", "atention"}), HasSubstr("did you mean 'attention'?"));
  EXPECT_THAT(refusal({"bench", "attention", "qest"}), HasSubstr("did you mean 'quest'?"));
  for (const char* shape : {"4x4x64", "4x4x64x0", "4x4x64x8x2", "4x4xlongx8", ""}) {
    EXPECT_THAT(refusal({"bench", "attention", "--shapes", shape}), HasSubstr("4×4×1024×64"))
        << shape;
  }
  EXPECT_THAT(refusal({"bench", "attention", "--seconds", "-1"}), HasSubstr("from 0 on"));
}

}  // namespace
}  // namespace attnlab::testing::bench_test
