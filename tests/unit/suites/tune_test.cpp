// `tune:` of a suite: which tries there are, what they choose, and who says so.
#include "framework/suites/tune.h"

#include <set>

#include "framework/comparison/comparison.h"
#include "framework/config/origins.h"
#include "framework/runs/run_status.h"
#include "framework/suites/dry_run.h"
#include "tests/unit/suites/made_suites.h"

namespace attnlab::tune_test {
namespace {

using namespace testing;
using nlohmann::json;

const std::string kTwo = "tune: {lr: [1.0e-4, 1.0e-3]}\n";

class TuneTest : public WithMadeParts {
 protected:
  TuneTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: standard\ntask: sorting\n"
                "dataset: pictures\ntrain: {protocol: sound}\nseeds: [0, 1]\n");
  }

  Suite load(const std::string& more, const Matcher& matcher = {}) const {
    return load_suite(temp_.write("s.yaml",
                                  "schema: 1\nattentions: [standard, quest]\n"
                                  "experiments: [small.yaml]\n" +
                                      more),
                      {}, parts().catalogue(), temp_ / "runs", false, matcher);
  }
  std::string refusal(const std::string& more) const {
    return temp_.without(message_of<ConfigError>([&] { load(more); }));
  }
  /// The texts of what is tried, of the first attention.
  std::vector<std::string> points(const std::string& more) const {
    std::vector<std::string> out;
    for (const TunePoint& point : load(more).tuning->cells.at(0).points) out.push_back(point.text);
    return out;
  }

  /// A run that took 2 s.
  /// @param validation  accuracy after each epoch; null: not finite
  static void end(const Cell& cell, RunState state, const std::vector<json>& validation = {},
                  double test = 0.5) {
    cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
    std::string lines = R"({"split": "train", "step": 1, "accuracy": 0.99})"
                        "\n";
    for (const json& value : validation) {
      lines += json({{"split", "validation"}, {"step", 1}, {"accuracy", value}}).dump() + "\n";
    }
    lines += json({{"split", "test"}, {"step", 1}, {"accuracy", test}}).dump() + "\n";
    write_file(cell.folder.file("metrics.jsonl"), lines);
    write_environment(cell.folder);
    const std::string reason = state == RunState::failed ? "no memory" : "";
    cell.folder.write_status({state, 1, 1, 1, 2, {{"accuracy", test}}, reason});
  }
  /// The tries as a call would find them.
  static std::vector<Cell> decided(const Suite& suite) {
    std::vector<Cell> tries = try_cells(suite);
    decide(tries, {});
    return tries;
  }
  /// Two tries of each attention: standard is best at the smaller rate, quest at the larger one.
  static void end_tries(const Suite& suite) {
    const std::vector<Cell> tries = try_cells(suite);
    end(tries.at(0), RunState::done, {0.5, 0.75}, 0.1);
    end(tries.at(1), RunState::done, {0.5, 0.25}, 0.9);
    end(tries.at(2), RunState::done, {0.25}, 0.9);
    end(tries.at(3), RunState::done, {nullptr, 0.625, 0.125}, 0.1);
  }
  static double rate_of(const Cell& cell) { return cell.experiment.train.optimizer.lr; }
  /// The names of what its run is asked.
  static std::vector<std::string> entries_in(const Cell& cell) {
    std::vector<std::string> names;
    const Node* section = cell.experiment.resolved.find("evaluate");
    if (section == nullptr) return names;
    for (const auto& [name, entry] : section->entries()) names.push_back(name);
    return names;
  }

  const TempFolder temp_;
};

// ---- tries

TEST_F(TuneTest, TriesEachValueWithEachAttentionAndASeedOfTheirOwn) {
  const Suite suite = load(kTwo);
  const std::vector<Cell> tries = try_cells(suite);
  ASSERT_EQ(tries.size(), 4U);
  std::set<std::pair<std::string, double>> seen;
  std::set<std::string> folders;
  for (const Cell& cell : tries) {
    seen.insert({cell.experiment.attention.label, rate_of(cell)});
    folders.insert(cell.folder.path());
    EXPECT_EQ(cell.seed, 1000);
    EXPECT_THAT(cell.experiment.seeds, ElementsAre(1000));
  }
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_EQ(folders.size(), 4U);
  EXPECT_THAT(tries[1].folder.path(),
              StartsWith(temp_ / "runs/s/tries/small,lr=0.001/standard/1000-"));
  // The same training as that of a seed with this value.
  EXPECT_EQ(tries[0].identity.configuration, suite.cells[0].identity.configuration);
  EXPECT_NE(tries[1].identity.configuration, suite.cells[0].identity.configuration);
}

TEST_F(TuneTest, AsksTriesNothingButWhatChoosesTheirEpoch) {
  const std::string asks =
      "set: {evaluate: {fog: {when: each, split: validation}, late: {split: validation}}, train: "
      "{early_stop: {metric: METRIC}}}\n";
  const auto entries = [&](const std::string& metric) {
    std::string text = asks;
    text.replace(text.find("METRIC"), 6, metric);
    const Suite suite = load(kTwo + text);
    EXPECT_THAT(entries_in(suite.cells[0]), ElementsAre("fog", "late"));
    const Cell one = try_cells(suite).at(0);
    EXPECT_EQ(one.identity.configuration, suite.cells[0].identity.configuration);
    return entries_in(one);
  };
  EXPECT_THAT(entries("accuracy"), IsEmpty());
  EXPECT_THAT(entries("fog/accuracy"), ElementsAre("fog"));
}

TEST_F(TuneTest, CutsAProductToTheBudgetByValuesThatWereTakenLeast) {
  const std::string lists = "tune: {lr: [1, 2, 3], dim: [4, 8, 16], budget: ";
  EXPECT_THAT(points(lists + "3}\n"), ElementsAre("lr=1, dim=4", "lr=2, dim=8", "lr=3, dim=16"));
  EXPECT_THAT(points(lists + "4}\n"),
              ElementsAre("lr=1, dim=4", "lr=1, dim=8", "lr=2, dim=8", "lr=3, dim=16"))
      << "those of the smaller budget, and one more";
  EXPECT_EQ(points(lists + "9}\n").size(), 9U);
  EXPECT_EQ(points("tune: {lr: [1, 2, 3], dim: [4, 8, 16]}\n"), points(lists + "9}\n"));
  EXPECT_THAT(points("tune: {lr: [3, 1, 2], budget: 2}\n"), ElementsAre("lr=3", "lr=1"))
      << "of one list the first values";
  EXPECT_THAT(points("tune: {zip: {lr: [1, 2], dim: [4, 8]}}\n"),
              ElementsAre("lr=1, dim=4", "lr=2, dim=8"));
}

TEST_F(TuneTest, TakesItsSeedFromTheSection) {
  const Suite suite = load("tune: {lr: [1, 2], seed: 7}\n");
  EXPECT_EQ(try_cells(suite).at(0).seed, 7);
}

TEST_F(TuneTest, TriesWhatTheSuiteMatchesAndSkipsNothingElse) {
  const auto matcher = [](const std::string&, const std::string& attention, const CellWith&) {
    return attention == "quest" ? parse_override("model.dim=24") : Node();
  };
  const Suite suite = load(kTwo + "skip: [{attention: standard, reason: known}]\n", matcher);
  const std::vector<Cell> tries = try_cells(suite);
  ASSERT_EQ(tries.size(), 2U) << "an attention without cells has no tries";
  for (const Cell& cell : tries) {
    EXPECT_EQ(cell.experiment.attention.label, "quest");
    EXPECT_EQ(cell.experiment.model.options.at("dim").as_int(), 24);
  }
}

// ---- the choice

TEST_F(TuneTest, RunsSeedsWithTheBestOnTheValidationSplit) {
  Suite suite = load(kTwo);
  end_tries(suite);
  choose_values(suite, decided(suite));
  ASSERT_EQ(suite.cells.size(), 4U);
  for (const Cell& cell : suite.cells) {
    const bool quest = cell.experiment.attention.label == "quest";
    EXPECT_EQ(rate_of(cell), quest ? 1e-3 : 1e-4) << "the test split says the opposite";
    EXPECT_EQ(cell.folder.path(),
              RunFolder::of(temp_ / "runs/s", cell.experiment, cell.seed, cell.identity).path());
  }
  EXPECT_FALSE(suite.tries_left);
  ASSERT_EQ(suite.tuned->attentions.size(), 2U);
  const TunedAttention& quest = suite.tuned->attentions[1];
  EXPECT_EQ(quest.tries[0].score, 0.25);
  EXPECT_EQ(quest.tries[1].score, 0.625) << "of its best epoch that is finite";
  EXPECT_EQ(quest.chosen, 1U);
  EXPECT_EQ(quest.seconds(), 4);
  EXPECT_EQ(suite.tuned->seconds(), 8);
  EXPECT_THAT(suite.tuned->keys, ElementsAre("train.optimizer.lr"));
}

TEST_F(TuneTest, FollowsTheDirectionOfWhatChoosesTheEpoch) {
  Suite suite = load(kTwo + "set: {train: {early_stop: {metric: accuracy, mode: min}}}\n");
  end_tries(suite);
  choose_values(suite, decided(suite));
  for (const TunedAttention& one : suite.tuned->attentions) {
    EXPECT_EQ(one.chosen, 1U) << one.attention;
  }
  EXPECT_EQ(suite.tuned->attentions[1].tries[1].score, 0.125);
}

TEST_F(TuneTest, CountsATryThatDiverged) {
  Suite suite = load(kTwo);
  std::vector<Cell> tries = try_cells(suite);
  end(tries.at(0), RunState::diverged, {0.99});
  end(tries.at(1), RunState::done, {0.25});
  end(tries.at(2), RunState::diverged);
  end(tries.at(3), RunState::diverged);
  choose_values(suite, decided(suite));
  EXPECT_EQ(suite.tuned->attentions[0].chosen, 1U);
  EXPECT_FALSE(suite.tuned->attentions[0].tries[0].score) << "it has no model";
  ASSERT_EQ(suite.cells.size(), 2U);
  ASSERT_EQ(suite.absent.size(), 2U);
  EXPECT_EQ(suite.absent[0].attention, "quest");
  EXPECT_THAT(suite.absent[0].gap.text(),
              says({"diverged:", "2 tries", "validation split", "tune"}));
  for (const Cell& cell : suite.cells) end(cell, RunState::done);
  EXPECT_TRUE(complete(suite)) << "a divergence is a result";
}

TEST_F(TuneTest, WaitsForTriesThatHaveNotEnded) {
  const Suite whole = load(kTwo);
  const std::vector<Cell> tries = try_cells(whole);
  end(tries.at(0), RunState::failed);
  end(tries.at(1), RunState::done, {0.25});
  end(tries.at(2), RunState::done, {0.25});
  Suite suite = whole;
  choose_values(suite, decided(suite));
  EXPECT_TRUE(suite.cells.empty());
  EXPECT_TRUE(suite.tries_left);
  EXPECT_FALSE(complete(suite));
  ASSERT_EQ(suite.absent.size(), 4U);
  EXPECT_THAT(suite.absent[0].gap.text(),
              says({"failed:", "1 of 2 tries", "lr=0.0001 failed: no memory", "--rerun failed"}));
  EXPECT_THAT(suite.absent[2].gap.text(),
              says({"pending:", "1 of 2 tries", "lr=0.001 is pending"}));

  // A dry run keeps them, as runs whose value is not known.
  Suite planned = whole;
  std::vector<Cell> waiting;
  choose_values(planned, decided(planned), &waiting);
  EXPECT_TRUE(planned.absent.empty());
  EXPECT_EQ(waiting.size(), 4U);
  end(tries.at(3), RunState::done, {0.5});
  planned = whole;
  waiting.clear();
  choose_values(planned, decided(planned), &waiting);
  EXPECT_EQ(planned.cells.size(), 2U);
  EXPECT_EQ(waiting.size(), 2U);
  EXPECT_THAT(tuning_plan(planned),
              mentions("train.optimizer.lr", "2 tries", "(lr=0.0001; lr=0.001)", "seed 1000",
                       "validation split",
                       "\n  small/standard  chosen by 2 tries\n  small/quest  lr=0.001\n"));
}

TEST_F(TuneTest, SaysWhereTheBestLiesAtTheEdge) {
  const auto edges = [&](const std::string& tune, std::size_t best) {
    Suite suite = load(tune);
    const std::vector<Cell> tries = try_cells(suite);
    for (std::size_t i = 0; i < tries.size(); ++i) {
      end(tries[i], RunState::done, {i % (tries.size() / 2) == best ? 0.75 : 0.5});
    }
    choose_values(suite, decided(suite));
    return suite.tuned->attentions.at(0).edges;
  };
  const std::string three = "tune: {lr: [1.0e-4, 1.0e-3, 1.0e-2]}\n";
  EXPECT_THAT(edges(three, 0), ElementsAre(mentions("train.optimizer.lr = 0.0001", "smallest")));
  EXPECT_THAT(edges(three, 1), IsEmpty());
  EXPECT_THAT(edges(three, 2), ElementsAre(mentions("train.optimizer.lr = 0.01", "largest")));
  EXPECT_THAT(edges("tune: {weight_decay: [0, 0.1, 0.2]}\n", 0), IsEmpty())
      << "nothing lies below 0";
  EXPECT_THAT(edges("tune: {shape: [cosine, constant]}\n", 1), IsEmpty()) << "words have no order";
}

// ---- who says so

TEST_F(TuneTest, IsPartOfTheAttentionAndOfAllThatReadersSee) {
  Suite suite = load(kTwo);
  end_tries(suite);
  choose_values(suite, decided(suite));
  for (std::string& note : suite.tuned->notes()) suite.notes.push_back(std::move(note));
  for (const Cell& cell : suite.cells) end(cell, RunState::done);
  decide(suite.cells, {});
  EXPECT_THAT(origins_text(suite.cells[0].experiment.resolved),
              HasSubstr("tune of attention 'standard' (" + temp_.path() +
                        "/s.yaml:4:8): train.optimizer.lr = 1.0e-4"));
  write_file(suite.folder + "/suite.json", suite_record(suite, "again"));
  const RunCollection found = find_runs({suite.folder});
  EXPECT_EQ(found.runs.size(), 4U) << "tries are not results";
  EXPECT_THAT(found.notes,
              ElementsAre(mentions("tune:", "2 tries of train.optimizer.lr", "seed 1000"),
                          HasSubstr("small/standard: the best"),
                          mentions("small/quest: the best", "0.001,", "largest", "beyond")));
  const Comparison comparison = compare_runs(found, {}, "standard", nullptr);
  EXPECT_THAT(difference_lines(comparison.differences), IsEmpty()) << "the comparison is fair";
  ASSERT_EQ(comparison.matched.size(), 1U);
  EXPECT_EQ(comparison.matched[0].key, "train.optimizer.lr");
  EXPECT_THAT(comparison_text(comparison, TableStyle::markdown),
              AllOf(HasSubstr("Tries before the seeds"),
                    HasSubstr("| small      | quest     | accuracy (%) | 25.00     | 62.50    | "
                              "lr=0.001  | 4.0 s")));
  const json tuned = json::parse(comparison_json(comparison)).at("tuned");
  ASSERT_EQ(tuned.size(), 2U);
  EXPECT_EQ(tuned[0].at("tries").at(0).at("score"), 0.75);
  EXPECT_EQ(tuned[0].at("chosen"), 0);
  EXPECT_THAT(
      suite_markdown(suite, summarise(suite), "again"),
      AllOf(HasSubstr("## Tries before the seeds"), HasSubstr("62.50"), Not(HasSubstr("90.00"))))
      << "what tries have on the test split is shown nowhere";
}

TEST_F(TuneTest, ReadsBackWhatItsRecordSays) {
  Suite suite = load(kTwo);
  end_tries(suite);
  choose_values(suite, decided(suite));
  suite.tuned->attentions[0].waits = "waits for something";
  const json written = tuning_json(*suite.tuned);
  EXPECT_EQ(tuning_json(read_tuning(written)), written);
  json wrong = written;
  wrong["attentions"][0]["chosen"] = 2;
  EXPECT_THROW(read_tuning(wrong), DataError);
}

TEST_F(TuneTest, NamesSeedsOfOneAttentionThatHaveOtherValues) {
  Suite suite = load(kTwo);
  end_tries(suite);
  choose_values(suite, decided(suite));
  for (const Cell& cell : suite.cells) {
    const bool other = cell.seed == 1 && cell.experiment.attention.label == "quest";
    const Experiment& first = suite.tuning->cells[1].candidates[0];
    end(other ? make_cell(first, 1, suite.folder) : cell, RunState::done);
  }
  const auto found = difference_lines(differences_of(find_runs({suite.folder + "/small"}).runs));
  EXPECT_THAT(found, ElementsAre(AllOf(HasSubstr("train.optimizer.lr"), HasSubstr("quest (seed 0)"),
                                       HasSubstr("quest (seed 1)"))));
}

TEST_F(TuneTest, ShowsTriesAndWhatWaitsForThemInItsStatus) {
  Suite suite = load(kTwo);
  const std::vector<Cell> tries = try_cells(suite);
  end(tries.at(0), RunState::done, {0.5});
  end(tries.at(1), RunState::interrupted);
  choose_values(suite, decided(suite));
  write_file(suite.folder + "/suite.json", suite_record(suite, "again"));
  const StatusReport report = status_of(temp_ / "runs", parts().catalogue());
  EXPECT_EQ(report.counts,
            (std::map<CellState, std::int64_t>{
                {CellState::done, 1}, {CellState::interrupted, 1}, {CellState::pending, 4}}));
  EXPECT_THAT(status_text(report), AllOf(HasSubstr("small,lr=0.001/standard/1000  interrupted"),
                                         HasSubstr("1 of 2 tries")));
}

TEST_F(TuneTest, SaysThatTriesWereChanged) {
  Suite suite = load(kTwo);
  end_tries(suite);
  EXPECT_EQ(earlier_tries_note(suite, decided(suite)), "");
  suite = load("tune: {lr: [1.0e-4, 1.0e-3, 1.0e-2]}\n");
  EXPECT_EQ(earlier_tries_note(suite, decided(suite)), "") << "more of the same are none";
  suite = load("tune: {lr: [1.0e-4, 1.0e-2]}\n");
  EXPECT_THAT(earlier_tries_note(suite, decided(suite)),
              mentions("small/standard, small/quest: 2 earlier tries", "not counted", "changed"));
}

TEST_F(TuneTest, CountsTriesAmongTheRunsOfADryRun) {
  Suite suite = load(kTwo);
  std::vector<Cell> waiting;
  const std::vector<Cell> tries = decided(suite);
  choose_values(suite, tries, &waiting);
  suite.cells = tries;
  suite.cells.insert(suite.cells.end(), waiting.begin(), waiting.end());
  SuiteForecast costs;
  for (const Cell& cell : suite.cells) {
    costs[{cell.experiment.name, cell.experiment.attention.label}] = {"d", 1000, 0, 10,
                                                                      1.0, 2.0,  1};
  }
  EXPECT_THAT(dry_run_text(suite, costs, 1, ""),
              AllOf(HasSubstr("8 runs: 8 to run"), HasSubstr("small, tries  quest "),
                    HasSubstr("  small/quest  chosen by 2 tries\n"), HasSubstr("8 runs to do")));
}

// ---- mistakes

TEST_F(TuneTest, RefusesWhatItCannotTryWithItsPlace) {
  EXPECT_THAT(refusal("tune: {learning_rates: [1, 2], lrr: [1, 2]}\n"),
              says_lines({{"s.yaml:4:8:", "tune.learning_rates:", "not a key"},
                          {"s.yaml:4:32:", "tune.lrr:", "did you mean 'lr'"}}));
  EXPECT_THAT(refusal("tune: {lr: [1.0e-4, -1]}\n"), StartsWith("s.yaml:4:8: train.optimizer.lr:"));
  EXPECT_THAT(refusal("tune: {}\n"), says({"s.yaml:4:7:", "tune:", "{lr: [1e-4, 1e-3]}"}));
  EXPECT_THAT(refusal("tune: {lr: [1.0e-4]}\n"),
              says({"s.yaml:4:7:", "tune:", "one combination", "`set`"}));
  EXPECT_THAT(refusal("tune: {lr: [1, 2], budget: 3}\n"),
              says({"s.yaml:4:7:", "tune:", "2 combinations", "budget of 3", "budget: 2"}));
  EXPECT_THAT(refusal("tune: {lr: [1, 2], budget: 1, seed: x}\n"),
              says_lines({{"s.yaml:4:28:", "tune.budget:", "from 2 on", "found 1"},
                          {"s.yaml:4:37:", "tune.seed:", "from 0 on", "found x"}}));
  EXPECT_THAT(refusal(kTwo + "grid: {dim: [4, 8]}\n"), says({"s.yaml:4:7:", "tune:", "'grid'"}));
  EXPECT_THAT(refusal("tune: {attention: [standard, quest]}\n"),
              says({"s.yaml:4:8:", "tune:", "'attention'", "'attentions'"}));
  EXPECT_THAT(refusal("tune: {model: [vit, lm]}\n"),
              says({"s.yaml:4:8:", "tune:", "'model'", "chooses a plugin"}));
  for (const char* key : {"root: [a, b]", "smoothing: [0, 1]", "protocol: [sound, last]"}) {
    EXPECT_THAT(refusal(std::string("tune: {") + key + "}\n"),
                says({"s.yaml:4:8:", "tune:", "does not vary", "judged"}))
        << key;
  }
}

TEST_F(TuneTest, RefusesExperimentsWhoseTriesCannotBeJudged) {
  for (const std::string protocol : {"last", "published"}) {
    EXPECT_THAT(refusal(kTwo + "set: {train: {protocol: " + protocol + "}}\n"),
                says({"s.yaml:4:7:", "tune:", "validation split", "'small' is " + protocol,
                      "set: {train: {protocol: sound}}"}));
  }
  EXPECT_THAT(refusal(kTwo + "seeds: [0, 1000]\n"),
              says({"s.yaml:4:7:", "tune.seed:", "1000", "'small'", "seed: N"}));
}

}  // namespace
}  // namespace attnlab::tune_test
