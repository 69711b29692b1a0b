// One lab makes an attention, another finds, installs and uses it, and the first repeats what the
// second measured.
#include <filesystem>

#include "framework/sharing/bundle.h"
#include "framework/sharing/hash.h"
#include "tests/sharing_integration/two_labs.h"

namespace attnlab::testing::two_labs_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Words kPatience = {"--time-limit", "1800", "--jobs", "2"};

Words with_patience(Words words) {
  words.insert(words.end(), kPatience.begin(), kPatience.end());
  return words;
}

constexpr const char* kSuite = R"(schema: 1
baseline: standard
attentions: [standard, sharper]
experiments: [small.yaml]
seeds: [0, 1]
)";
constexpr const char* kExperiment = R"(schema: 1
name: small
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: standard}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 64, test: 32}
train: {epochs: 1, batch_size: 16, log_every: 1, threads: 1}
)";

/// What a bundle of a plugin holds, and what its list says of it.
void expect_all_parts(const std::string& file) {
  const sharing::Bundle bundle = sharing::read_bundle(file);
  for (const char* path :
       {"source/CMakeLists.txt", "source/LICENSE", "source/CITATION.cff", "source/README.md",
        "source/sharper.cpp", "source/tests/sharper_test.cpp", "source/configs/sharper.yaml",
        "expected/plain/in.safetensors", "expected/plain/out.safetensors",
        "expected/plain/options.json", "binaries/0/sharper.so"}) {
    EXPECT_NO_THROW(EXPECT_NE(bundle.file(path).bytes, "")) << path;
  }
  const json manifest = json::parse(bundle.file("manifest.json").bytes);
  EXPECT_EQ(manifest.at("id"), "acme/sharper");
  const json report = json::parse(bundle.file("conformance.json").bytes);
  EXPECT_EQ(report.at("plugin"), "acme/sharper");
  EXPECT_GT(report.at("checks").size(), 5U);
  for (const json& check : report.at("checks")) EXPECT_NE(check.at("outcome"), "failed");
  EXPECT_EQ(bundle.contents.id.str(), "acme/sharper");
  EXPECT_EQ(bundle.contents.kind, "attention");
  EXPECT_EQ(bundle.contents.licence, manifest.at("licence"));
  EXPECT_EQ(bundle.contents.citation, manifest.at("citation"));
  ASSERT_EQ(bundle.contents.binaries.size(), 1U);
  EXPECT_FALSE(bundle.contents.binaries[0].stamp.empty());
  // The list names every file with its hash: reading compares them (BundleTest). As others read it:
  const Ended listed = run({{"sh", "-c",
                             "command -v zstd >/dev/null || exit 77; zstd -dc '" + file +
                                 "' | tar -xOf - bundle.json"}});
  if (listed.exit_code == 77) return;
  const json list = json::parse(listed.out);
  EXPECT_EQ(list.at("files").size(), bundle.files.size());
  for (const json& one : list.at("files")) {
    const std::string path = one.at("path");
    EXPECT_EQ(one.at("sha256"), sharing::sha256(bundle.file(path).bytes)) << path;
  }
}

TEST(TwoLabs, ShareAnAttentionAndItsResults) {
  const TwoInstallations attnlabs;
  const LabMachine acme(attnlabs.first(), attnlabs.folder / "acme");
  const LabMachine borealis(attnlabs.second(), attnlabs.folder / "borealis");

  // acme: makes, signs, publishes.
  acme.must({"new", "attention", "sharper", "--lab", "acme"});
  acme.must({"key", "new", "acme"});
  fs::create_directories(acme.at("public"));
  const Words pack = with_patience({"plugin", "pack", "sharper", "--out", "public", "--binary"});
  const Ended packed = acme.must(pack);
  EXPECT_THAT(packed.err, HasSubstr("signed with key"));
  const std::string bundle = acme.at("public/sharper-0.1.0.attnlab");
  ASSERT_TRUE(fs::exists(bundle));
  EXPECT_THAT(acme.must({"plugin", "verify", bundle}).out, HasSubstr("is whole, signed by"));
  expect_all_parts(bundle);
  acme.must({"index", "make", "public", "--lab", "acme"});
  const WebServer server(acme.at("public"), attnlabs.folder.path());

  // borealis: finds and installs; the binary is of another build.
  EXPECT_NE(borealis.attnlab({"index", "add", server.url()}).exit_code, 0);  // nobody says yes
  borealis.must({"index", "add", server.url(), "--yes"});
  EXPECT_THAT(borealis.must({"plugin", "search", "Learned"}).out, HasSubstr("acme/sharper"));
  const Ended installed = borealis.must(with_patience({"plugin", "install", "acme/sharper"}));
  EXPECT_THAT(installed.err, mentions("refused by its stamp", "sdk: expected", "2 case(s)",
                                      "expected numbers hold"));
  EXPECT_THAT(installed.out, AllOf(HasSubstr("built from source"), HasSubstr("signed by")));
  EXPECT_THAT(borealis.must({"list", "attention"}).out, HasSubstr("sharper"));
  EXPECT_THAT(borealis.must({"plugin", "verify"}).out, HasSubstr("acme/sharper 0.1.0: sound"));

  // borealis: measures, and packs what it measured.
  borealis.write("two.yaml", kSuite);
  borealis.write("small.yaml", kExperiment);
  borealis.must({"suite", "two.yaml"});
  const json lock = json::parse(file_text(borealis.at("runs/two/lock.json")));
  EXPECT_THAT(lock.dump(), HasSubstr("\"bundle\""));
  EXPECT_THAT(borealis.must({"cite", "runs/two"}).out, HasSubstr("acme: sharper"));
  borealis.must({"key", "new", "borealis"});
  borealis.must({"suite", "pack", "runs/two"});

  // acme: repeats it. Its own key is known, borealis' is met for the first time.
  fs::copy_file(borealis.at("two-1.0.0.attnlab"), acme.at("two.attnlab"));
  EXPECT_NE(acme.attnlab({"reproduce", "two.attnlab"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(acme.at("reproduced/two/runs")));
  const Ended again = acme.must({"reproduce", "two.attnlab", "--yes", "--time-limit", "1800"});
  EXPECT_THAT(again.out, AllOf(HasSubstr("sharper"), HasSubstr("standard"), HasSubstr("identical"),
                               Not(HasSubstr("DIFFERS"))));
  EXPECT_THAT(acme.must({"list", "--installed"}).out, HasSubstr("binary"));

  // An altered library is not loaded; removed, it is gone.
  const std::string library = fs::canonical(borealis.plugins() + "/attention/sharper.so");
  std::ofstream(library, std::ios::app) << "x";
  const Ended refused = borealis.attnlab({"run", "small.yaml", "attention=sharper"});
  EXPECT_THAT(refused.err, HasSubstr("altered since"));
  EXPECT_THAT(borealis.attnlab({"list"}).err, HasSubstr("altered since"));
  EXPECT_THAT(borealis.attnlab({"describe", "sharper"}).err, HasSubstr("altered since"));
  EXPECT_EQ(borealis.attnlab({"plugin", "verify"}).exit_code, 1);
  borealis.must({"plugin", "remove", "sharper"});
  EXPECT_THAT(borealis.must({"list", "attention"}).out, Not(HasSubstr("\n  sharper ")));
}

}  // namespace
}  // namespace attnlab::testing::two_labs_test
