// Another lab's plugin, for real: attnlab installed elsewhere, the sample built against it with
// find_package alone, dropped into a folder, compared with the others. Nothing of attnlab is
// rebuilt.
#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "tests/integration/workspace.h"

namespace attnlab::testing::out_of_tree_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Installs attnlab and builds the sample once for all tests of this file.
class OutOfTree : public Workspace {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TempFolder();
    must_run({ATTNLAB_TEST_CMAKE, "--install", build_tree(), "--prefix", prefix()});
    const auto begin = std::chrono::steady_clock::now();
    Invocation configure{{ATTNLAB_TEST_CMAKE, "-S", ATTNLAB_TEST_SAMPLE, "-B", *shared_ / "build",
                          "-DCMAKE_PREFIX_PATH=" + prefix(),
                          "-DCMAKE_CXX_COMPILER=" + std::string(ATTNLAB_TEST_COMPILER)}};
    if (const std::string torch = ATTNLAB_TEST_LIBTORCH; !torch.empty()) {
      configure.words.push_back("-DLibTorch_ROOT=" + torch);
    }
    must_run(configure.words);
    must_run({ATTNLAB_TEST_CMAKE, "--build", *shared_ / "build"});
    const Ended listed = installed({"list", "attention"}, {{"ATTNLAB_PLUGIN_PATH", built()}});
    EXPECT_THAT(listed.out, HasSubstr("learned_temperature"));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    std::cout << "from cmake -S to attnlab list showing the plugin: " << taken.count()
              << " s (aim: under 60)\n";
    RecordProperty("seconds_from_cmake_to_list", static_cast<int>(taken.count()));
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }

  static void must_run(const Words& words) {
    const Ended ended = run({words});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
  }
  static std::string prefix() { return *shared_ / "prefix"; }
  /// Where the sample's build puts its plugin: a folder that can be searched as it is.
  static std::string built() { return *shared_ / "build/lib/attnlab/plugins"; }
  static std::string plugin() { return built() + "/attention/learned_temperature.so"; }

  /// The installed program.
  static Ended installed(Words words, Environment environment, const std::string& folder = "/") {
    words.insert(words.begin(), prefix() + "/bin/attnlab");
    const Ended ended = run({words, folder, std::move(environment)});
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return ended;
  }

  inline static TempFolder* shared_ = nullptr;
  const Words small_ = {"model.dim=16",    "model.depth=1",      "dataset.train=64",
                        "dataset.test=32", "train.epochs=1",     "train.log_every=1",
                        "train.threads=1", "train.batch_size=16"};
};

TEST_F(OutOfTree, HasTheStoredRunsOfTheSuiteOverEveryDomain) {
  const Ended dry = installed({"suite", "cross_domain", "experiments=[cross_spurious]",
                               "attentions=[standard, quest]", "--dry-run"},
                              {}, folder_.path());
  EXPECT_THAT(dry.err, HasSubstr("6 runs are taken from")) << dry.story();
}

TEST_F(OutOfTree, IsFoundInEveryPlaceThatIsSearched) {
  // Columns are as wide as the longest name.
  const auto line = AllOf(HasSubstr("learned_temperature  "),
                          HasSubstr("  softmax(τ Q Kᵀ / √D) V with a learned τ"));
  EXPECT_THAT(installed({"list"}, {}, folder_.path()).out, Not(line));
  EXPECT_THAT(installed({"list"}, {{"ATTNLAB_PLUGIN_PATH", built()}}).out, line);

  fs::create_directories(at("plugins"));
  fs::copy_file(plugin(), at("plugins/learned_temperature.so"));
  EXPECT_THAT(installed({"list"}, {}, folder_.path()).out, line);

  const std::string user = "home/.local/share/attnlab/plugins/attention";
  fs::create_directories(at(user));
  fs::rename(at("plugins/learned_temperature.so"), at(user + "/learned_temperature.so"));
  EXPECT_THAT(installed({"list"}, {{"HOME", at("home")}}, folder_.path()).out, line);
}

TEST_F(OutOfTree, HasThePublicHeadersAndNoOthers) {
  std::vector<std::string> patterns;
  std::ifstream list(ATTNLAB_TEST_SAMPLE "/../../framework/public_headers.txt");
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && line[0] != '#') patterns.push_back(line);
  }
  const fs::path include = fs::path(prefix()) / "include/attnlab";
  std::set<std::string> matched;
  for (const auto& entry : fs::recursive_directory_iterator(include)) {
    if (!entry.is_regular_file()) continue;
    const std::string header = entry.path().lexically_relative(include);
    const auto pattern = std::find_if(patterns.begin(), patterns.end(), [&](const auto& one) {
      return ::fnmatch(one.c_str(), header.c_str(), FNM_PATHNAME) == 0;
    });
    EXPECT_NE(pattern, patterns.end()) << header;
    if (pattern != patterns.end()) matched.insert(*pattern);
  }
  EXPECT_THAT(patterns, ::testing::UnorderedElementsAreArray(matched));
}

TEST_F(OutOfTree, IsDescribedByTheInstalledProgram) {
  const Ended ended = installed({"describe", "acme/learned_temperature", "--json"},
                                {{"ATTNLAB_PLUGIN_PATH", built()}});
  const json manifest = json::parse(ended.out);
  EXPECT_EQ(manifest.at("id"), "acme/learned_temperature");
  EXPECT_EQ(manifest.at("options").at(0).at("name"), "initial");
  EXPECT_EQ(manifest.at("path"), fs::canonical(plugin()).string());
}

TEST_F(OutOfTree, ExportsNothingButItsEntry) {
  const Ended symbols = run({{"nm", "--dynamic", "--defined-only", plugin()}});
  ASSERT_EQ(symbols.exit_code, 0) << symbols.story();
  EXPECT_THAT(symbols.out, HasSubstr(" attnlab_plugin\n"));
  EXPECT_EQ(std::count(symbols.out.begin(), symbols.out.end(), '\n'), 1) << symbols.out;
}

TEST_F(OutOfTree, TrainsInAModelOfAttnlab) {
  Words words = {"run", "vit_synthetic", "attention=learned_temperature", "attention.initial=2"};
  words.insert(words.end(), small_.begin(), small_.end());
  installed(words, {{"ATTNLAB_PLUGIN_PATH", built()}}, folder_.path());
  const std::string folder = run_folder("vit_synthetic/learned_temperature");
  EXPECT_EQ(status_of(folder).at("state"), "done");
  const json environment = json::parse(file_text(folder + "/environment.json"));
  EXPECT_EQ(environment.at("attention").at("id"), "acme/learned_temperature");
  EXPECT_EQ(environment.at("attention").at("path"), fs::canonical(plugin()).string());
  EXPECT_THAT(environment.at("model").at("path").get<std::string>(),
              HasSubstr("/prefix/lib/attnlab/plugins/model/vit.so"));

  // Its own parameters learn, from where its option says.
  const auto learned = model_tensors(folder);
  const auto temperature = std::find_if(learned.begin(), learned.end(), [](const auto& item) {
    return item.first.find("log_temperature") != std::string::npos;
  });
  ASSERT_NE(temperature, learned.end());
  float values[2];
  ASSERT_GT(temperature->second.size(), sizeof values);
  std::memcpy(values, temperature->second.data() + temperature->second.size() - sizeof values,
              sizeof values);
  for (const float value : values) {
    EXPECT_NE(value, std::log(2.0F));
    EXPECT_NEAR(value, std::log(2.0F), 0.1);
  }
}

TEST_F(OutOfTree, LeavesTheModelsOwnWeightsAsTheyAreUnderOtherAttentions) {
  Words words = {"run", "vit_synthetic", "train.optimizer.lr=0"};
  words.insert(words.end(), small_.begin(), small_.end());
  for (const char* attention : {"attention=standard", "attention=learned_temperature"}) {
    Words with = words;
    with.emplace_back(attention);
    installed(with, {{"ATTNLAB_PLUGIN_PATH", built()}}, folder_.path());
  }
  auto with_parameters = model_tensors(run_folder("vit_synthetic/learned_temperature"));
  const auto without = model_tensors(run_folder("vit_synthetic/standard"));
  EXPECT_EQ(std::erase_if(with_parameters,
                          [](const auto& item) {
                            return item.first.find("log_temperature") != std::string::npos;
                          }),
            1U);
  EXPECT_EQ(with_parameters, without);
}

TEST_F(OutOfTree, StandsInASuiteBesideTheOthers) {
  folder_.write("three.yaml",
                "schema: 1\nbaseline: standard\n"
                "attentions: [standard, quest, learned_temperature,\n"
                "             {use: learned_temperature, as: sharp, initial: 4}]\n"
                "experiments: [vit_synthetic]\nseeds: [0]\n"
                "set:\n  model: {dim: 16, depth: 1}\n  dataset: {train: 64, test: 32}\n"
                "  train: {epochs: 1, batch_size: 16, threads: 1}\n");
  const Ended ended =
      installed({"suite", "three.yaml"}, {{"ATTNLAB_PLUGIN_PATH", built()}}, folder_.path());
  const std::string table = file_text(at("runs/three/table.md"));
  EXPECT_THAT(table, AllOf(HasSubstr("standard (baseline)"), HasSubstr("| quest "),
                           HasSubstr("| learned_temperature "), HasSubstr("| sharp ")));
  EXPECT_THAT(ended.out, HasSubstr(table));
  const json summary = json::parse(file_text(at("runs/three/table.json")));
  EXPECT_EQ(summary.at("complete"), true);
  for (const json& row : summary.at("rows")) EXPECT_EQ(row.at("states"), json({{"done", 1}}));
}

}  // namespace
}  // namespace attnlab::testing::out_of_tree_test
