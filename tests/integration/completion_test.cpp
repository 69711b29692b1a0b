// Completion: what the program answers, and the shells' scripts.
#include <set>
#include <sstream>

#include "tests/integration/workspace.h"
#include "tests/support/python.h"

namespace attnlab::testing::completion_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_program(const std::string& name) {
  return run({.words = {"sh", "-c", "command -v " + name}}).exit_code == 0;
}

class Completion : public Workspace {
 protected:
  /// What bash would offer for these words, the last being under the cursor, as bash splits them.
  std::vector<std::string> bash(const std::vector<std::string>& words) {
    const std::string program = build_tree() + "/bin/attnlab";
    std::string script =
        "source <('" + program + "' completion bash)\nCOMP_WORDS=('" + program + "'";
    std::string line = "attnlab";
    for (const std::string& word : words) {
      script += " '" + word + "'";
      line += (word == "=" || line.back() == '=' ? "" : " ") + word;
    }
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) + "\nCOMP_LINE='" + line +
              "'\nCOMP_POINT=" + std::to_string(line.size()) +
              "\n_attnlab\n[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const Ended ended = run({.words = {"bash", "-c", script}, .folder = folder_.path()});
    EXPECT_EQ(ended.err, "");
    return lines_of(ended.out);
  }
};

TEST_F(Completion, OffersCommandsFromTheProgramsHelp) {
  std::set<std::string> expected;
  for (const std::string& line : lines_of(must({"--help"}).out)) {
    if (line.starts_with("  ")) expected.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  EXPECT_GE(expected.size(), 8u);
  EXPECT_THAT(bash({""}), IsSupersetOf(expected));
  EXPECT_THAT(bash({"desc"}), ElementsAre("describe"));
  EXPECT_THAT(bash({"config", ""}), ElementsAre("show", "explain", "diff", "schema"));
  EXPECT_THAT(bash({"no-such-command", ""}), IsEmpty());
}

TEST_F(Completion, OffersEveryOptionThatACommandsHelpLists) {
  for (const Words& command :
       {Words{"run"}, Words{"suite"}, Words{"list"}, Words{"describe"}, Words{"eval"},
        Words{"compare"}, Words{"config", "show"}, Words{"config", "diff"}}) {
    Words help = command, line = command;
    help.push_back("--help");
    line.push_back("--");
    std::vector<std::string> listed;
    for (const std::string& text : lines_of(must(help).out)) {
      const std::size_t start = text.find("--");
      if (text.rfind("  -", 0) != 0 || start == std::string::npos) continue;
      listed.push_back(text.substr(start, text.find(' ', start) - start));
    }
    EXPECT_THAT(listed, Contains("--help")) << command.back();
    EXPECT_THAT(bash(line), ::testing::UnorderedElementsAreArray(listed)) << command.back();
  }
}

TEST_F(Completion, OffersPluginsCompositionsAndFiles) {
  EXPECT_THAT(bash({"describe", "attnlab/que"}), ElementsAre("attnlab/quest"));
  EXPECT_THAT(bash({"describe", "attention/que"}), ElementsAre("attention/quest"));
  EXPECT_THAT(bash({"list", "da"}), ElementsAre("dataset"));
  folder_.write("configs/experiments/a/my_experiment.yaml", "schema: 1\n");
  folder_.write("configs/suites/my_suite.yaml", "schema: 1\n");
  EXPECT_THAT(bash({"run", "my"}), ElementsAre("my_experiment"));
  EXPECT_THAT(bash({"suite", "my"}), ElementsAre("my_suite"));
  EXPECT_THAT(bash({"validate", "tin"}), ElementsAre("tiny.yaml"));
  EXPECT_THAT(bash({"run", "tin"}), ElementsAre("tiny.yaml"));
}

TEST_F(Completion, OffersKeysOfTheCompositionLevelByLevel) {
  EXPECT_THAT(bash({"run", "tiny.yaml", "trai"}), ElementsAre("train."));
  EXPECT_THAT(bash({"run", "tiny.yaml", "model.pat"}), ElementsAre("model.patch_size="));
  EXPECT_THAT(bash({"run", "tiny.yaml", "train.optimizer.l"}),
              ElementsAre("train.optimizer.lr=", "train.optimizer.layer_decay="));
  EXPECT_THAT(bash({"run", "tiny.yaml", "train.optimizer.groups.head.lr_scale=0.1",
                    "train.optimizer.groups.head.w"}),
              ElementsAre("train.optimizer.groups.head.weight_decay="));
  EXPECT_THAT(bash({"run", "tiny.yaml", "see"}), ElementsAre("seeds=", "seeds+=", "seeds-="));
  folder_.write("s.yaml", "schema: 1\nattentions: [quest]\nexperiments: [tiny.yaml]\n");
  EXPECT_THAT(bash({"suite", "s.yaml", "set.train.ep"}), ElementsAre("set.train.epochs="));
  EXPECT_THAT(bash({"validate", "s.yaml", "base"}), ElementsAre("baseline="));
  EXPECT_THAT(bash({"config", "explain", "tiny.yaml", "train.ep"}), ElementsAre("train.epochs"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention.e"}), IsEmpty());
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention", "=", "quest", "attention.e"}),
              ElementsAre("attention.eps="))
      << "of the plugin that the line chose";
}

TEST_F(Completion, OffersValuesBehindTheEqualsSignAlone) {
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention", "=", "que"}), ElementsAre("quest"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "train.device", "="}), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "model.qkv_bias", "=", "f"}), ElementsAre("false"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "train.epochs", "="}), ElementsAre("2"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "--progress", "j"}), ElementsAre("json"));
}

TEST_F(Completion, OffersPythonFilesAndTheOptionsOfTheirClasses) {
  folder_.write("warm_idea.py", packable_attention());
  folder_.write("warm_folder/other.py", packable_attention());
  folder_.write("warm.txt", "no Python\n");
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention", "=", "warm"}),
              ElementsAre("warm_folder/", "warm_idea.py"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention.use", "=", "warm_folder/"}),
              ElementsAre("warm_folder/other.py"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "dataset", "=", "warm_i"}), ElementsAre("warm_idea.py"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "task", "=", "warm"}), IsEmpty());
  if (!python_is_there()) return;
  Words chosen = {"run", "tiny.yaml", "attention", "=", "warm_idea.py", "attention.o"};
  EXPECT_THAT(bash(chosen), ElementsAre("attention.options."));
  chosen.back() = "attention.options.";
  EXPECT_THAT(bash(chosen), ElementsAre("attention.options.temperature="));
}

TEST_F(Completion, OffersEvaluationsByName) {
  const std::string entries =
      "evaluate: {small: {set: {dataset: {test: 8}}}, noise: {over: {dataset.noise: [0, 1]}}}\n";
  folder_.write("judged.yaml", "extends: tiny.yaml\n" + entries);
  EXPECT_THAT(bash({"run", "judged.yaml", "evaluate."}),
              ElementsAre("evaluate.small.", "evaluate.noise."));
  folder_.write("run/config.yaml", must({"config", "show", "judged.yaml"}).out);
  EXPECT_THAT(bash({"eval", "run", ""}),
              ElementsAre("clean", "small", "noise", "noise/0", "noise/1"));
  folder_.write("others.yaml", "evaluate: {large: {set: {dataset: {test: 16}}}}\n");
  EXPECT_THAT(bash({"eval", "run", "--with", "others.yaml", "l"}), ElementsAre("large"));
  EXPECT_THAT(bash({"eval", "elsewhere", "small"}), IsEmpty());
}

TEST_F(Completion, OffersAttentionsThatAreCompositions) {
  folder_.write("configs/attention/quest_wide.yaml", "use: quest\neps: 0.5\n");
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention", "=", "quest_"}), ElementsAre("quest_wide"));
  EXPECT_THAT(bash({"run", "tiny.yaml", "attention.use", "=", "quest_"}),
              ElementsAre("quest_wide"));
  EXPECT_THAT(bash({"compare", "--baseline", "quest_"}), ElementsAre("quest_wide"));
}

TEST_F(Completion, HelpsWithFilesThatAreWrong) {
  folder_.write("bad.yaml", "schema: 1\nextends: gone.yaml\nmodel: {use: vit}\n");
  EXPECT_THAT(bash({"run", "bad.yaml", "model.dep"}), ElementsAre("model.depth="));
  EXPECT_THAT(bash({"run", "none.yaml", "train.ep"}), ElementsAre("train.epochs="));
}

TEST_F(Completion, ScriptsParseWhereTheirShellsAre) {
  EXPECT_EQ(
      run({.words = {"bash", "-n", folder_.write("c.bash", must({"completion", "bash"}).out)}})
          .exit_code,
      0);
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string script = must({"completion", shell}).out;
    EXPECT_THAT(script, HasSubstr("completion complete"));
    if (!has_program(shell)) continue;
    const Ended ended = run({.words = {shell, "-n", folder_.write("c." + shell, script)}});
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
  }
  EXPECT_THAT(attnlab({"completion", "csh"}).err, HasSubstr("did you mean 'zsh'?"));
}

TEST_F(Completion, WorksInFishWhereItIs) {
  if (!has_program("fish")) GTEST_SKIP() << "needs fish";
  const std::string script = folder_.write("c.fish", must({"completion", "fish"}).out);
  const Ended ended =
      run({.words = {"fish", "-c",
                     "set -x PATH " + build_tree() + "/bin $PATH; source " + script +
                         "; complete -C 'attnlab run tiny.yaml train.epo'"},
           .folder = folder_.path()});
  EXPECT_THAT(ended.out, HasSubstr("train.epochs="));
}

TEST_F(Completion, LoadsNeitherLibTorchNorPlugins) {
  for (const Words& words :
       {Words{"run", "--"}, Words{"eval", "--"}, Words{"run", "tiny.yaml", "model."}}) {
    Words line = {"completion", "complete"};
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_THAT(must(line, {{"LD_DEBUG", "files"}}).err, Not(HasSubstr("libtorch"))) << words[0];
  }
}

}  // namespace
}  // namespace attnlab::testing::completion_test
