// Loading: sound plugins, and one broken plugin a failure with its exact message. After each
// failure the process is as it was, asking again gives the same answer, and a good plugin still
// works.
#include "framework/host/registry.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/host/process_state.h"
#include "framework/manifest/manifest_writer.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::registry_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::Words;

const std::string kRebuild = "attnlab_add_plugin()";

const Installation& tree() {
  static const Installation installation = Installation::of_this_program();
  return installation;
}

std::string broken_folder() { return tree().root + "/broken_plugins"; }
std::string broken(const std::string& name) { return broken_folder() + "/" + name + ".so"; }

/// The build tree's own plugins, and those in another folder.
Catalogue catalogue_with(const std::string& folder) {
  return Catalogue({{folder, "ATTNLAB_PLUGIN_PATH", true}, {tree().plugins(), "system", true}},
                   read_stamp(tree().library()));
}

Part part_of(const Catalogue& catalogue, const std::string& name) {
  const Candidate& plugin = catalogue.find(Kind::attention, name);
  Part part;
  part.kind = Kind::attention;
  part.name = part.label = name;
  part.options = Node::map();
  part.place = {"experiment.yaml", 4, 18};
  part.path = plugin.path;
  part.id = plugin.manifest->id;
  return part;
}

AttentionShape small_shape() {
  AttentionShape shape;
  shape.heads = 2;
  shape.head_dim = 4;
  return shape;
}

/// Builds attention 'standard' through the registry and runs it.
void expect_standard_works(Registry& registry) {
  const auto attention =
      registry.attention(part_of(registry.catalogue(), "standard"), small_shape());
  const Tensor x = at::ones({1, 2, 3, 4}, at::kFloat);
  AttentionInput input;
  input.queries = input.keys = input.values = x;
  AttentionContext context;
  // All values are equal, so whatever the weights are, their average is the value.
  EXPECT_TRUE(at::allclose(attention->forward(input, context), x));
}

/// Floating point, dtype and so on as every program starts with, said without `ProcessState`.
void expect_process_untouched(int threads) {
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  volatile double smallest = std::numeric_limits<double>::min();
  EXPECT_GT(smallest / 4, 0.0) << "denormals are flushed to zero";
  EXPECT_EQ(c10::get_default_dtype(), caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(at::get_num_threads(), threads);
}

/// The whole story of one broken plugin, loaded and refused with these words after its path.
void expect_refused(const std::string& name, const Words& reason) {
  Registry registry(catalogue_with(broken_folder()));
  const int threads = at::get_num_threads();
  at::manual_seed(7);
  const Tensor next_numbers = at::rand({4});
  at::manual_seed(7);
  const ProcessState before;
  const auto load = [&] { registry.load(Kind::attention, name); };
  const std::string message = message_of<PluginError>(load);
  EXPECT_THAT(message, AllOf(StartsWith(broken(name) + ": "), says(reason)));
  EXPECT_THAT(before.changes(), IsEmpty());
  expect_process_untouched(threads);
  EXPECT_EQ(message_of<PluginError>(load), message) << "when asked again";
  Registry another(catalogue_with(broken_folder()));
  EXPECT_EQ(message_of<PluginError>([&] { another.load(Kind::attention, name); }), message)
      << "when another registry asks";
  EXPECT_TRUE(at::equal(at::rand({4}), next_numbers)) << "random numbers were used up";
  expect_standard_works(registry);
}

/// A plugin that is refused by its file alone, with these words after its path.
void expect_refused_unloaded(const std::string& path, const std::string& name,
                             const Words& reason) {
  Registry registry(catalogue_with(fs::path(path).parent_path().string()));
  EXPECT_THAT(message_of<PluginError>([&] { registry.load(Kind::attention, name); }),
              AllOf(StartsWith(path + ": "), says(reason)));
  expect_standard_works(registry);
}

/// A copy of the build tree's quest.so, renamed inside and out so that it is a plugin of its own.
/// @param id  as long as "attnlab/quest"
std::string twin_of_quest(const std::string& id = "attnlab/twins") {
  std::string bytes = read_text(tree().plugins() + "/attention/quest.so");
  for (std::size_t at = 0; (at = bytes.find("attnlab/quest", at)) != std::string::npos;) {
    bytes.replace(at, id.size(), id);
  }
  return bytes;
}

std::string replaced(std::string text, const std::string& before, const std::string& after) {
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(Registry, LoadsAPluginOnce) {
  Registry registry(catalogue_with(broken_folder()));
  const PluginEntry& entry = registry.load(Kind::attention, "standard");
  EXPECT_EQ(entry.kind, Kind::attention);
  EXPECT_STREQ(entry.id, "attnlab/standard");
  EXPECT_NE(entry.attention, nullptr);
  EXPECT_EQ(&registry.load(Kind::attention, "attnlab/standard"), &entry);
}

TEST(Registry, BuildsEachLayersParametersFromItsOwnStream) {
  Registry registry(catalogue_with(broken_folder()));
  const AttentionBuilder build =
      registry.attention_builder(part_of(registry.catalogue(), "standard"), RandomStreams(3));
  at::manual_seed(11);
  const Tensor expected = at::rand({3});
  at::manual_seed(11);
  build(small_shape());
  EXPECT_TRUE(at::equal(at::rand({3}), expected))
      << "what the model draws next must not depend on its attention";
}

TEST(Registry, LeavesTheStateOfTheProcessAloneWhenAPluginIsSound) {
  const ProcessState before;
  Registry registry(catalogue_with(broken_folder()));
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    for (const Candidate* plugin : registry.catalogue().usable(kind)) {
      if (plugin->path.rfind(tree().plugins(), 0) == 0) registry.load(kind, plugin->manifest->name);
    }
  }
  EXPECT_THAT(before.changes(), IsEmpty());
}

TEST(ProcessState, SeesAndUndoesEveryKindOfChange) {
  const int threads = at::get_num_threads();
  const ProcessState before;
  EXPECT_THAT(before.changes(), IsEmpty());
  std::fesetround(FE_DOWNWARD);
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  at::set_num_threads(threads + 2);
  at::rand({1});
  EXPECT_THAT(before.changes(),
              ::testing::ElementsAre(mentions("floating-point mode", "-ffast-math"),
                                     "LibTorch's default dtype", "LibTorch's number of threads",
                                     "LibTorch's random numbers"));
  before.restore();
  EXPECT_THAT(before.changes(), IsEmpty());
  expect_process_untouched(threads);
}

TEST(BrokenPlugin, WithoutItsEntryIsRefused) {
  expect_refused("entry_missing", {"'attnlab_plugin'", "ATTNLAB_PLUGIN(...)"});
}

TEST(BrokenPlugin, WhoseEntryThrowsIsRefused) {
  expect_refused("entry_throws", {"an exception", "no licence server", "ATTNLAB_PLUGIN(...)"});
}

TEST(BrokenPlugin, WhoseEntryThrowsANumberIsRefused) {
  expect_refused("entry_throws_number",
                 {"something that is not", "std::exception", "ATTNLAB_PLUGIN(...)"});
}

TEST(BrokenPlugin, WhoseEntryReturnsNothingIsRefused) {
  expect_refused("entry_returns_nothing", {"returned nothing", "ATTNLAB_PLUGIN(...)"});
}

TEST(BrokenPlugin, WhoseEntryHasNoFactoryIsRefused) {
  expect_refused("entry_without_factory", {"how to build the attention", "ATTNLAB_PLUGIN(...)"});
}

TEST(BrokenPlugin, WhoseCodeHasAnotherIdIsRefused) {
  expect_refused("other_id", {"code is attention 'broken/somebody_else'",
                              "manifest says attention 'broken/other_id'", "attnlab_add_plugin()"});
}

TEST(BrokenPlugin, WhoseCodeIsOfAnotherKindIsRefused) {
  expect_refused("other_kind",
                 {"code is model 'broken/other_kind'",
                  "manifest says attention 'broken/other_kind'", "attnlab_add_plugin()"});
}

TEST(BrokenPlugin, WithAnUnresolvedSymbolIsRefusedBeforeItsCodeRuns) {
  expect_refused("unresolved_symbol",
                 {"undefined symbol", "attnlab_test_nowhere", "attnlab_add_plugin()"});
}

/// The refusal of a plugin that changes these parts of the process while it loads.
Words changes(Words what) {
  what.insert(what.end(), {": changes", "while it loads", "start-up code"});
  return what;
}

TEST(BrokenPlugin, ThatFlushesDenormalsIsRefused) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the floating-point mode is watched on x86-64 alone";
#endif
  expect_refused("changes_float_mode", changes({"the floating-point mode", "-ffast-math"}));
}

TEST(BrokenPlugin, ThatChangesTheRoundingIsRefused) {
  expect_refused("changes_rounding", changes({"the floating-point mode", "-ffast-math"}));
}

TEST(BrokenPlugin, ThatChangesTheDefaultDtypeIsRefused) {
  expect_refused("changes_default_dtype", changes({"LibTorch's default dtype"}));
}

TEST(BrokenPlugin, ThatChangesTheThreadsIsRefused) {
  expect_refused("changes_threads", changes({"LibTorch's number of threads"}));
}

TEST(BrokenPlugin, ThatDrawsRandomNumbersIsRefused) {
  expect_refused("changes_random_numbers", changes({"LibTorch's random numbers"}));
}

TEST(BrokenPlugin, ThatChangesItsSurroundingsIsRefusedAndTheyAreAsBefore) {
  const auto folder = std::filesystem::current_path();
  expect_refused("changes_surroundings", changes({"the working folder", "the umask", "the locale",
                                                  "ATTNLAB_TEST_STRAY", "signal 10"}));
  EXPECT_EQ(std::filesystem::current_path(), folder);
  EXPECT_NE(::umask(022), 0U);
  std::ostringstream number;
  number << 1.5;
  EXPECT_EQ(number.str(), "1.5");
  EXPECT_EQ(std::getenv("ATTNLAB_TEST_STRAY"), nullptr);
  EXPECT_EQ(std::signal(SIGUSR1, SIG_DFL), SIG_DFL);
}

TEST(BrokenPlugin, ThatTakesStandardInputIsRefused) {
  Registry registry(catalogue_with(broken_folder()));
  const int kept = ::dup(STDIN_FILENO);
  EXPECT_THAT(message_of<PluginError>([&] { registry.load(Kind::attention, "takes_input"); }),
              AllOf(StartsWith(broken("takes_input") + ": "), says(changes({"standard input"}))));
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

TEST(BrokenPlugin, ThatStartsAProcessIsRefused) {
  Registry registry(catalogue_with(broken_folder()));
  EXPECT_THAT(message_of<PluginError>([&] { registry.load(Kind::attention, "starts_process"); }),
              AllOf(StartsWith(broken("starts_process") + ": "), says(changes({"(a fork)"}))));
  expect_standard_works(registry);
}

TEST(BrokenPlugin, ThatThrowsAfterItChangedEverythingLeavesNoTrace) {
  expect_refused("changes_everything",
                 {"an exception", "and then it gave up", "ATTNLAB_PLUGIN(...)"});
}

// Whether the exception can be caught, or ends the process, depends on the C library and compiler.
TEST(BrokenPluginDeathTest, WhoseStaticObjectThrowsIsBlamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Registry registry(catalogue_with(broken_folder()));
        try {
          registry.load(Kind::attention, "constructor_throws");
        } catch (const PluginError& refusal) {
          std::cerr << refusal.what();
          std::abort();
        }
      },
      "broken_plugins/constructor_throws\\.so: .*static object's constructor.*(ends the "
      "process|the table's file is missing)");
}

TEST(BrokenPluginDeathTest, OfAHostileNameIsBlamedInPrintableWords) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const TempFolder folder;
  fs::create_symlink(broken("constructor_throws"), folder / "a\x1b[2J\nb.so");
  EXPECT_DEATH(
      {
        Registry registry(catalogue_with(folder.path()));
        try {
          registry.load(Kind::attention, "constructor_throws");
        } catch (const PluginError& refusal) {
          std::cerr << one_line(refusal.what());
          std::abort();
        }
      },
      "/a.x1b.2J b\\.so: .*static object's constructor");
}

TEST(BrokenPlugin, WithoutAManifestIsRefusedUnloaded) {
  expect_refused_unloaded(broken("no_manifest"), "no_manifest",
                          {"no section .attnlab.manifest", kRebuild});
}

TEST(BrokenPlugin, WhoseManifestIsNoJsonIsRefusedUnloaded) {
  Registry registry(catalogue_with(broken_folder()));
  const std::string message =
      message_of<PluginError>([&] { registry.load(Kind::attention, "manifest_is_no_json"); });
  EXPECT_THAT(message, StartsWith(broken("manifest_is_no_json") + ": invalid manifest: "));
  EXPECT_THAT(message, HasSubstr("parse error at line 1, column 46"));
  EXPECT_THAT(message, HasSubstr(kRebuild));
  expect_standard_works(registry);
}

TEST(BrokenPlugin, WhoseManifestLacksFieldsIsRefusedUnloaded) {
  expect_refused_unloaded(broken("manifest_lacks_fields"), "manifest_lacks_fields",
                          {"invalid manifest", "'version'", kRebuild});
}

TEST(BrokenPlugin, ThatIsNoElfFileIsRefused) {
  const TempFolder folder;
  const std::string path = folder.write("textual.so", "INPUT(libnothing.so)\n");
  expect_refused_unloaded(path, "textual", {"not an ELF file", kRebuild});
}

TEST(BrokenPlugin, ThatIsEmptyIsRefused) {
  const TempFolder folder;
  expect_refused_unloaded(folder.write("empty.so", ""), "empty", {"not an ELF file", kRebuild});
}

TEST(BrokenPlugin, ThatIsCutShortIsRefused) {
  const TempFolder folder;
  const std::string whole = twin_of_quest();
  const std::string path = folder.write("twins.so", whole.substr(0, whole.size() / 2));
  expect_refused_unloaded(path, "twins", {"is cut short", "ends after", kRebuild});
  folder.write("twins.so", whole.substr(0, whole.size() - 1));
  expect_refused_unloaded(path, "twins", {"is cut short", kRebuild});
  folder.write("twins.so", whole.substr(0, 40));
  expect_refused_unloaded(path, "twins", {"is cut short", "ELF header", kRebuild});
}

TEST(BrokenPlugin, OfAnotherHostIsRefusedWithTheCommandThatRebuildsIt) {
  const TempFolder folder;
  const std::string foreign =
      replaced(replaced(twin_of_quest(), "\"contract\":" + std::to_string(kContractVersion),
                        "\"contract\":9"),
               "\"build\":\"", "\"built\":\"");
  const std::string path = folder.write("twins.so", foreign);
  const std::string build = read_stamp(tree().library()).at("build");
  expect_refused_unloaded(path, "twins",
                          {"another host", "build: expected " + build + ", found nothing",
                           "built: expected nothing, found " + build,
                           "contract: expected " + std::to_string(kContractVersion) + ", found 9",
                           "-DCMAKE_PREFIX_PATH=" + tree().root + " && cmake --build"});
}

TEST(BrokenPlugin, OfAnotherHostLeavesItsNamesakeUsableByItsId) {
  const TempFolder folder;
  folder.write("quest.so",
               replaced(twin_of_quest("foreign/quest"),
                        "\"contract\":" + std::to_string(kContractVersion), "\"contract\":9"));
  Registry registry(catalogue_with(folder.path()));
  EXPECT_THAT(message_of<PluginError>([&] { registry.load(Kind::attention, "quest"); }),
              mentions("'quest'", "attnlab/quest or foreign/quest"));
  Part part = part_of(registry.catalogue(), "attnlab/quest");
  part.name = "quest";  // as a composition's part is called
  EXPECT_NE(registry.attention(part, small_shape()), nullptr);
}

TEST(BrokenPlugin, OfANameThatIsTakenIsRefusedAndSoIsTheOther) {
  const TempFolder folder;
  const std::string quest = tree().plugins() + "/attention/quest.so";
  const std::string copy = folder.write("anything.so", read_text(quest));
  const auto reason = mentions("'quest'", "more than one file", copy, quest, "rename one");
  Registry registry(catalogue_with(folder.path()));
  std::vector<std::string> refused;
  for (const Candidate& candidate : registry.catalogue().candidates()) {
    if (!candidate.refused.empty()) refused.push_back(candidate.refused);
  }
  EXPECT_THAT(refused, ::testing::ElementsAre(AllOf(StartsWith(copy), reason),
                                              AllOf(StartsWith(quest), reason)));
  EXPECT_THAT(message_of<PluginError>([&] { registry.load(Kind::attention, "quest"); }), reason);
  expect_standard_works(registry);
}

TEST(BrokenPlugin, WhoseFactoryThrowsIsBlamed) {
  Registry registry(catalogue_with(broken_folder()));
  const Part part = part_of(registry.catalogue(), "factory_throws");
  EXPECT_THAT(message_of<PluginError>([&] { registry.attention(part, small_shape()); }),
              says({broken("factory_throws"), "'factory_throws':", "cannot be built",
                    "the kernel table is empty"}));
  expect_standard_works(registry);
}

TEST(BrokenPlugin, WhoseFactoryThrowsANumberIsBlamed) {
  Registry registry(catalogue_with(broken_folder()));
  const Part part = part_of(registry.catalogue(), "factory_throws_number");
  EXPECT_THAT(message_of<PluginError>([&] { registry.attention(part, small_shape()); }),
              says({broken("factory_throws_number"), "'factory_throws_number':", "cannot be built",
                    "std::exception"}));
  expect_standard_works(registry);
}

// A run's folder is named after its parts are built.
TEST(BrokenPlugin, WhoseFactoryChangesTheWorkingFolderIsBlamedAndItIsAsBefore) {
  Registry registry(catalogue_with(broken_folder()));
  const Part part = part_of(registry.catalogue(), "changes_folder_when_built");
  const fs::path here = fs::current_path();
  EXPECT_THAT(message_of<PluginError>([&] { registry.attention(part, small_shape()); }),
              AllOf(StartsWith(broken("changes_folder_when_built") + ": "),
                    mentions("'changes_folder_when_built':", "working folder to /proc")));
  EXPECT_EQ(fs::current_path(), here);
  expect_standard_works(registry);
}

TEST(BrokenPlugin, WhoseCodeHonoursLessThanItsManifestIsBlamed) {
  Registry registry(catalogue_with(broken_folder()));
  const Part part = part_of(registry.catalogue(), "other_traits");
  EXPECT_THAT(message_of<PluginError>([&] { registry.attention(part, small_shape()); }),
              AllOf(StartsWith(broken("other_traits") + ": "),
                    mentions("'other_traits':", "'bias'", "kTraits")));
  expect_standard_works(registry);
}

TEST(BrokenPlugin, IsListedWithItsReasonBesideTheGoodOnes) {
  const Catalogue catalogue = catalogue_with(broken_folder());
  EXPECT_THAT(catalogue.names(Kind::attention), ::testing::IsSupersetOf({"quest", "standard"}));
  std::vector<std::string> refused;
  for (const Candidate& candidate : catalogue.candidates()) {
    if (!candidate.refused.empty()) refused.push_back(fs::path(candidate.path).stem());
  }
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("manifest_is_no_json",
                                                       "manifest_lacks_fields", "no_manifest"));
}

}  // namespace
}  // namespace attnlab::registry_test
