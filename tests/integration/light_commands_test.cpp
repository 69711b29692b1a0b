// list, describe, validate, config show: from manifests alone, without LibTorch.
#include <filesystem>
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing::light_commands_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class LightCommands : public Workspace {};

TEST_F(LightCommands, OpenNoLibTorch) {
  const Environment watch = {{"LD_DEBUG", "files"}};
  for (const Words& words :
       {Words{"list"}, Words{"list", "--json"}, Words{"describe", "quest"},
        Words{"validate", "tiny.yaml"}, Words{"config", "show", "tiny.yaml"},
        Words{"config", "explain", "tiny.yaml"}, Words{"config", "diff", "tiny.yaml", "tiny.yaml"},
        Words{"config", "schema"}}) {
    const Ended ended = must(words, watch);
    EXPECT_THAT(ended.err, HasSubstr("libattnlab_core.so")) << "LD_DEBUG shows no files";
    EXPECT_THAT(ended.err, Not(HasSubstr("libtorch"))) << words[0];
    EXPECT_THAT(ended.err, Not(HasSubstr("quest.so"))) << words[0];
  }
  EXPECT_THAT(must({"run", "tiny.yaml", "--dry-run"}, watch).err, HasSubstr("libtorch"))
      << "the check above could not fail";
}

TEST_F(LightCommands, SayThatTheirOutputWasLostWhereAReaderLeftOrAFileMayNotGrow) {
  const std::string list = build_tree() + "/bin/attnlab list --json";
  for (const std::string& script : {"{ sleep 0.2; " + list + "; echo code $? >&2; } | true",
                                    "ulimit -f 1; " + list + " > list.json; echo code $? >&2"}) {
    const Ended ended = run({{"bash", "-c", script}, folder_.path()});
    EXPECT_THAT(ended.err, HasSubstr("standard output: cannot write")) << script;
    EXPECT_THAT(ended.err, HasSubstr("code 1\n")) << script;
  }
}

TEST_F(LightCommands, ListEveryPluginOfTheTree) {
  const json listed = json::parse(must({"list", "--json"}).out);
  EXPECT_EQ(listed.at("refused"), json::array());
  std::map<std::string, json> plugins;
  for (const json& plugin : listed.at("plugins")) plugins[plugin.at("id")] = plugin;
  for (const char* id :
       {"attnlab/standard", "attnlab/quest", "attnlab/vit", "attnlab/image_classification",
        "attnlab/idx_images", "attnlab/cifar", "attnlab/synthetic_images"}) {
    EXPECT_EQ(plugins.count(id), 1U) << id;
  }
  EXPECT_EQ(plugins["attnlab/quest"].at("kind"), "attention");
  EXPECT_TRUE(plugins["attnlab/quest"].at("traits").at("causal"));
}

TEST_F(LightCommands, ListOneKindByItsName) {
  const Ended ended = must({"list", "attention"});
  EXPECT_THAT(ended.out, HasSubstr("quest"));
  EXPECT_THAT(ended.out, Not(HasSubstr("vit")));
}

TEST_F(LightCommands, DescribeAPluginForProgramsToo) {
  const json quest = json::parse(must({"describe", "attnlab/quest", "--json"}).out);
  EXPECT_EQ(quest.at("id"), "attnlab/quest");
  EXPECT_EQ(quest.at("options").at(0).at("name"), "eps");
  EXPECT_EQ(quest.at("path"), build_tree() + "/lib/attnlab/plugins/attention/quest.so");
  EXPECT_THAT(must({"describe", "quest"}).out, HasSubstr("eps (float in [0, 1], default 1e-12)"));
}

TEST_F(LightCommands, DescribeSuggestsNearNames) {
  EXPECT_THAT(refusal({"describe", "qest"}), mentions("plugin 'qest'", "did you mean 'quest'?"));
}

/// Where `run` would put an experiment: its hash is the folder's name.
std::string planned_folder(const Ended& dry_run) {
  const std::size_t start = dry_run.out.find("would go to ");
  EXPECT_NE(start, std::string::npos) << dry_run.story();
  return start == std::string::npos ? "" : dry_run.out.substr(start);
}

TEST_F(LightCommands, ConfigShowWritesAnExperimentOfTheSameHash) {
  const Words changes = {"train.epochs=3", "attention=quest", "attention.eps=1e-3", "seeds=[4]"};
  Words show = {"config", "show", "tiny.yaml"};
  Words plan = {"run", "tiny.yaml", "--dry-run"};
  for (Words* words : {&show, &plan}) words->insert(words->end(), changes.begin(), changes.end());
  const std::string shown = must(show).out;
  EXPECT_THAT(shown, HasSubstr("eps: 1e-3"));
  EXPECT_THAT(shown, HasSubstr("weight_decay: 0.05")) << "defaults are filled in";
  folder_.write("whole.yaml", shown);
  EXPECT_EQ(must({"config", "show", "whole.yaml"}).out, shown);
  must({"validate", "whole.yaml"});
  const Ended dry = must(plan);
  EXPECT_THAT(dry.out, ContainsRegex("[0-9]+ parameters, [0-9.e-]+ GFLOPs "));
  EXPECT_THAT(dry.out, Not(HasSubstr("parameters, 0 GFLOPs")));
  EXPECT_THAT(dry.out, Not(HasSubstr("published")));
  const Words counts = {"published.parameters=5.7e6", "published.multiply_adds=1.26e9"};
  Words published = plan;
  published.insert(published.end(), counts.begin(), counts.end());
  EXPECT_THAT(must(published).out,
              AllOf(ContainsRegex("[0-9]+ parameters \\(published: 5.7 million\\)"),
                    ContainsRegex("[0-9.e-]+ GFLOPs [a-z() ]+\\(published: 2.52\\)")));
  const std::string planned = planned_folder(dry);
  EXPECT_THAT(planned, HasSubstr("runs/tiny/quest/4-"));
  EXPECT_EQ(planned_folder(must({"run", "whole.yaml", "--dry-run"})), planned);
  EXPECT_FALSE(exists("runs")) << "a dry run writes nothing";
}

TEST_F(LightCommands, HelpsHoweverItIsAsked) {
  EXPECT_EQ(must({"help", "run"}).out, must({"run", "--help"}).out);
  EXPECT_EQ(must({"help", "config", "show"}).out, must({"config", "show", "--help"}).out);
  const std::string help = must({"--help"}).out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  const std::string version = must({"version"}).out;
  EXPECT_EQ(must({"-V"}).out, version);
  EXPECT_EQ(must({"--version"}).out, version);
  EXPECT_THAT(
      version,
      ContainsRegex(
          "attnlab [0-9.]+\nframework revision [0-9a-f]{16}, contract 4\nLibTorch [0-9.]+"));
}

TEST_F(LightCommands, SayWhatIsMissingAndHowValuesAreGiven) {
  EXPECT_THAT(refusal({"run"}), HasSubstr("EXPERIMENT|RUN_DIR is missing"));
  EXPECT_THAT(refusal({"status"}), HasSubstr("DIR is missing"));
  EXPECT_THAT(refusal({"new", "attention"}), HasSubstr("NAME is missing"));
  EXPECT_THAT(refusal({"run", "tiny.yaml", "train.epochs", "3"}),
              mentions("train.epochs: ", "key=value", "train.epochs=3"));
  EXPECT_THAT(refusal({"run", "tiny.yaml", "--epochs", "3"}),
              mentions("key=value", "train.epochs=3"));
  EXPECT_THAT(refusal({"validate", "tiny.yaml", "train.device=gpu"}), HasSubstr("cuda"));
}

TEST_F(LightCommands, ValidateTakesEveryExperimentAndSuiteOfTheProject) {
  // Compositions in configs/ may be named, and are looked for where the program is called.
  fs::create_directory_symlink(ATTNLAB_TEST_CONFIGS, at("configs"));
  Words words = {"validate"};
  for (const char* folder : {"experiments", "suites"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(std::string(ATTNLAB_TEST_CONFIGS) + "/" + folder)) {
      if (entry.path().extension() == ".yaml") words.push_back(entry.path());
    }
  }
  EXPECT_GT(words.size(), 60U) << "the folders are there";
  must(words);
}

TEST_F(LightCommands, FindCompositionsByNameFromAnyFolder) {
  EXPECT_THAT(must({"validate", "vit_synthetic", "quickstart"}).out,
              mentions("vit_synthetic: valid: model vit", "quickstart: valid: ", "6 runs"));
  for (const char* name : {"vit_synthetic", "experiments/smoke/vit_synthetic.yaml",
                           "configs/experiments/smoke/vit_synthetic.yaml"}) {
    folder_.write("own.yaml", std::string("extends: ") + name + "\ntrain: {epochs: 7}\n");
    EXPECT_THAT(must({"config", "show", "own.yaml"}).out, HasSubstr("epochs: 7")) << name;
  }
  folder_.write("configs/experiments/vit_synthetic.yaml", "schema: 1\nextends: tiny.yaml\n");
  EXPECT_THAT(attnlab({"validate", "vit_synthetic"}).err,
              HasSubstr("configs/experiments/vit_synthetic.yaml:2:"))
      << "the project's own comes first";
  EXPECT_THAT(attnlab({"run", "quickstart"}).err, HasSubstr("attnlab suite quickstart"));
  EXPECT_THAT(attnlab({"suite", "timeseries_synthetic"}).err,
              HasSubstr("attnlab run timeseries_synthetic"));
}

TEST_F(LightCommands, ConfigShowTellsWhereValuesCameFrom) {
  const std::string origins =
      must({"config", "show", "tiny.yaml", "train.epochs=3", "--origins"}).out;
  EXPECT_THAT(origins, HasSubstr("argument 'train.epochs=3': train.epochs = 3\n"
                                 "    before, tiny.yaml:6:17: 2\n"));
  EXPECT_THAT(origins, HasSubstr("tiny.yaml:2:39: model.dim = 16\n"));
}

TEST_F(LightCommands, ValidateSaysWhatIsSoundAndWhatIsNot) {
  folder_.write("bad.yaml", "schema: 1\nextends: tiny.yaml\ntrain: {epohcs: 3}\n");
  const Ended ended = attnlab({"validate", "bad.yaml", "tiny.yaml"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.out,
              says_lines({{"tiny.yaml: valid: ", "model vit", "attention standard",
                           "dataset synthetic_images", "task image_classification", "1 seed"},
                          {}}));
  EXPECT_THAT(ended.err,
              says_lines({{"bad.yaml:3:9: train: ", "'epohcs'", "did you mean 'epochs'?"}, {}}));
}

TEST_F(LightCommands, KnowTheirOwnNames) {
  EXPECT_EQ(attnlab({}).exit_code, 2);
  EXPECT_THAT(must({"--help"}).out, mentions("\n  suite SUITE ", "4 data missing"));
  EXPECT_THAT(must({"run", "--help"}).out, HasSubstr("--resume"));
  EXPECT_THAT(refusal({"lsit"}), mentions("command 'lsit'", "did you mean 'list'?"));
}

}  // namespace
}  // namespace attnlab::testing::light_commands_test
