// Language models through the program: shipped experiments evaluated by lines, memory and context;
// each line's own perplexity; texts of another vocabulary.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing::language_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

class Language : public Workspace {
 protected:
  /// A shipped experiment on less text. @returns its folder.
  std::string trained(const std::string& experiment, Words more = {}) const {
    Words words = {"run",
                   ATTNLAB_TEST_CONFIGS "/experiments/smoke/" + experiment + ".yaml",
                   "train.epochs=1",
                   "train.threads=1",
                   "dataset.train=20000",
                   "dataset.validation=0",
                   "dataset.test=700"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
    return run_folder(experiment + "/standard");
  }
  json evaluated(const std::string& run, Words more) const {
    Words words = {"eval", run, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(must(words).out);
  }
  /// A table's rows of one evaluation, each by column.
  std::vector<std::map<std::string, double>> rows(const std::string& file,
                                                  const std::string& evaluation) const {
    const std::vector<std::string> lines = split(file_text(at(file)), '\n');
    const std::vector<std::string> heading = split(lines.at(0), ',');
    std::vector<std::map<std::string, double>> all;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> cells = split(lines[i], ',');
      if (cells.at(0) != evaluation) continue;
      std::map<std::string, double>& row = all.emplace_back();
      for (std::size_t c = 1; c < cells.size(); ++c) {
        if (!cells[c].empty()) row[heading.at(c)] = std::stod(cells[c]);
      }
    }
    return all;
  }
};

const std::string kAsked =
    "evaluate:\n"
    "  lines: {set: {dataset: {lines: true, window: 100}, task: {context: false}}}\n"
    "  memory: {set: {dataset: {eval_rows: 1}}, over: {model.memory: [0, 32]}}\n"
    "  by: {set: {task: {context: true}}}\n";

TEST_F(Language, GivesLinesMemoriesAndContextsOfATransformerXl) {
  folder_.write("asked.yaml", kAsked);
  const Words ask = {"--with", "asked.yaml", "--examples", "lines.csv"};
  const std::string run = trained("transformer_xl_synthetic", {"train.eval_batch_size=64"});
  const json many = evaluated(run, ask);
  const auto number = [&](const char* name) { return many.at(name).get<double>(); };
  for (const char* entry : {"lines", "memory/0", "memory/32", "by"}) {
    const double nll = number((std::string(entry) + "/nll").c_str());
    EXPECT_GT(nll, 0.5) << entry;
    EXPECT_LT(nll, std::log(28.0)) << entry << ": worse than knowing nothing";
    EXPECT_NEAR(number((std::string(entry) + "/perplexity").c_str()), std::exp(nll), 1e-9);
  }
  EXPECT_NE(number("memory/0/nll"), number("memory/32/nll"));
  EXPECT_GT(number("by/context/1/nll"), number("by/context/32/nll"));
  // The lines' own numbers are what the mean is of.
  double nats = 0, terms = 0;
  const auto lines = rows("lines.csv", "lines");
  EXPECT_GT(lines.size(), 10U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    EXPECT_EQ(line.at("example"), double(i));
    EXPECT_NEAR(line.at("perplexity"), std::exp(line.at("nll")), 1e-9);
    nats += line.at("nll") * line.at("terms");
    terms += line.at("terms");
  }
  EXPECT_EQ(terms, 700) << "every character of the text once";
  EXPECT_NEAR(nats / terms, number("lines/nll"), 1e-5);
  // Whatever stands beside them.
  std::filesystem::remove_all(at("runs"));
  const json one = evaluated(trained("transformer_xl_synthetic", {"train.eval_batch_size=1"}), ask);
  EXPECT_NEAR(one.at("lines/nll").get<double>(), number("lines/nll"), 1e-5);
  EXPECT_EQ(rows("lines.csv", "lines"), lines) << "the same bits: each is asked alone";
}

TEST_F(Language, GivesAModelOfFixedContextByContextAndByLine) {
  const std::string run = trained("language_synthetic");
  const json own = status_of(run).at("metrics");
  EXPECT_LT(own.at("nll").get<double>(), std::log(28.0));
  folder_.write("asked.yaml",
                "evaluate:\n  lines: {set: {dataset: {lines: true}, task: {context: false}}}\n"
                "  short: {set: {dataset: {window: 16}}}\n"
                "  long: {set: {dataset: {window: 64}}}\n");
  const Ended ended = attnlab({"eval", run, "--with", "asked.yaml", "--examples", "none.csv"});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, mentions("long failed: ", "positions for 32 tokens"));
  EXPECT_FALSE(exists("none.csv"));
  EXPECT_THAT(ended.err, mentions("none.csv: ", "not written", "evaluation failed"));
  const json found =
      evaluated(run, {"lines", "short", "--with", "asked.yaml", "--examples", "found.csv"});
  EXPECT_GT(found.at("lines/nll").get<double>(), 0.5);
  EXPECT_EQ(rows("found.csv", "short").size(), 44U) << "699 targets in windows of 16";
}

TEST_F(Language, RefusesATextOfAnotherVocabulary) {
  std::string text, other;
  for (int i = 0; i < 40; ++i)
    text += "red green blue\ngreen red\n", other += "uno dos tres\nuno\n";
  for (const auto& [name, words] : {std::pair("text", text), std::pair("other", other)}) {
    folder_.write(std::string(name) + "/train.txt", words);
    folder_.write(std::string(name) + "/test.txt", words);
  }
  folder_.write("other/more.txt", other);
  folder_.write("words.yaml",
                "schema: 1\nmodel: {use: transformer_lm, dim: 8, depth: 1, heads: 2, context: 8}\n"
                "attention: {use: standard}\ntask: {use: language_modelling}\n"
                "dataset: {use: text_stream, root: text, unit: word, window: 8}\n"
                "train: {epochs: 1, batch_size: 4, threads: 1}\n");
  must({"run", "words.yaml"});
  folder_.write("asked.yaml",
                "evaluate:\n"
                "  other: {set: {dataset: {root: other}}}\n"
                "  fewer: {set: {dataset: {max_size: 3}}}\n"
                "  own: {set: {dataset: {window: 4, test: " +
                    at("other/more.txt") +
                    "}}}\n"
                    "  lines: {set: {dataset: {lines: true}}}\n"
                    "  swap: {over: {dataset.word_swap: [0.5]}}\n");
  const std::string run = run_folder("words/standard");
  const Ended ended = attnlab({"eval", run, "--with", "asked.yaml"});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, mentions("other failed: ", "vocabulary of 'other'", "of 'text'",
                                  "dataset.vocabulary"));
  EXPECT_THAT(ended.out, HasSubstr("fewer failed: "));
  const json found = evaluated(run, {"own", "lines", "swap", "--with", "asked.yaml"});
  for (const char* name : {"own/nll", "lines/nll", "swap/0.5/nll"}) {
    EXPECT_TRUE(found.contains(name)) << name << " in " << found;
  }
}

}  // namespace
}  // namespace attnlab::testing::language_test
