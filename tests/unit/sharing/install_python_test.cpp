// Installing Python files: what lies where, and what is refused.
#include <gmock/gmock.h>

#include "framework/experiment/installed.h"
#include "framework/manifest/python_plugin.h"
#include "framework/sharing/bundle.h"
#include "tests/support/python.h"
#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::install_python_test {
namespace {

using attnlab::testing::mentions;
using sharing::ArchiveFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

class InstallPython : public InstallTest {
 protected:
  InstallPython() {
    tools_.build = [](const auto&, const auto&, const auto&) -> std::string {
      throw Error("nothing is built of Python");
    };
  }
  void SetUp() override {
    if (!python_is_there()) GTEST_SKIP() << "needs python3";
  }

  /// A bundle as `attnlab plugin pack` makes it. @param more  files in it beside mine.py
  std::string bundle(const std::string& text, const std::vector<ArchiveFile>& more = {},
                     const std::string& version = "1.0.0") {
    const TempFolder source;
    const std::string path = source.write("lab/mine.py", text);
    for (const ArchiveFile& file : more) source.write("lab/" + file.path, file.bytes);
    const PythonFile& file = python_file({path, ""});
    std::vector<ArchiveFile> files = {{"manifest.json", packed_manifest(file, "acme"), false},
                                      {"python/mine.py", text, false}};
    for (const ArchiveFile& one : more) files.push_back({"python/" + one.path, one.bytes, false});
    sharing::Contents contents = made_contents("acme/mine", version);
    contents.summary = file.candidate.manifest->summary;
    contents.citation = file.candidate.manifest->citation;
    return write_bundle(contents, files, std::nullopt);
  }
  std::string link() const { return folder_ / "share/plugins/attention/mine.py"; }
};

TEST_F(InstallPython, IsKnownByItsNameWithoutACompiler) {
  const sharing::Installed one =
      install(bundle("from helpers import scale\n" + packable_attention(),
                     {{"helpers.py", "scale = 2\n", false}}));
  EXPECT_EQ(one.built, "python");
  EXPECT_EQ(damage_of(*store().find("mine")), "");
  const Catalogue catalogue({{folder_ / "share/plugins", "user", true}}, {{"compiler", "here"}});
  const Candidate& found = catalogue.find(Kind::attention, "mine");
  EXPECT_EQ(found.manifest->id, "acme/mine");
  EXPECT_EQ(found.manifest->options.at(0).name, "temperature");
  EXPECT_EQ(found.path, fs::canonical(one.library()).string() + ":Mine");
  EXPECT_TRUE(fs::exists(one.folder + "/python/helpers.py"));
  EXPECT_EQ(installed_from(found.path)->id, "acme/mine");
  EXPECT_NO_THROW(check_installed(found.path));
  // The same once more is there already; another version takes its place and gives it back.
  EXPECT_EQ(install(bundle("from helpers import scale\n" + packable_attention(),
                           {{"helpers.py", "scale = 2\n", false}}))
                .folder,
            one.folder);
  install(bundle(packable_attention("1.1.0"), {}, "1.1.0"));
  EXPECT_EQ(store().find("mine")->version, "1.1.0");
  sharing::roll_back(*store().find("mine"), store(), keys(), options_);
  EXPECT_EQ(store().find("mine")->version, "1.0.0");
  EXPECT_EQ(damage_of(*store().find("mine")), "");
  store().remove(*store().find("mine"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(link())));
  EXPECT_FALSE(fs::exists(folder_ / "share/plugins/installed/acme"));
}

TEST_F(InstallPython, IsNotUsedOnceAnythingBesideItIsAltered) {
  const sharing::Installed one = install(
      bundle("import helpers\n" + packable_attention(), {{"helpers.py", "scale = 2\n", false}}));
  const std::string path = fs::canonical(one.library()).string() + ":Mine";
  const auto said = [&] {
    try {
      check_installed(path);
      return std::string("used");
    } catch (const PluginError& error) {
      return std::string(error.what());
    }
  };
  const std::string folder = one.folder + "/python/", helper = read_text(folder + "helpers.py");
  EXPECT_EQ(said(), "used");
  write_file(folder + "helpers.py", "scale = 3\n");
  EXPECT_THAT(said(),
              mentions("was altered", "acme/mine 1.0.0", "attnlab plugin remove acme/mine"));
  EXPECT_THAT(damage_of(*store().find("mine")), HasSubstr("was altered"));
  write_file(folder + "helpers.py", helper);
  EXPECT_EQ(said(), "used");
  write_file(folder + "torch.py", "which would be imported in torch's place\n");
  EXPECT_THAT(said(), HasSubstr("was altered"));
  fs::remove(folder + "torch.py");
  fs::create_directory(folder + "__pycache__");
  write_file(folder + "__pycache__/helpers.cpython-311.pyc", "other code");
  EXPECT_THAT(said(), HasSubstr("was altered"));
  fs::remove_all(folder + "__pycache__");
  EXPECT_EQ(said(), "used");
}

TEST_F(InstallPython, HasNothingInItThatItDoesNotImport) {
  const std::string other = bundle(packable_attention(), {{"more.py", "x = 1\n", false}});
  EXPECT_THAT(answer(other), AllOf(HasSubstr("step 'manifest' failed"),
                                   HasSubstr("'python/more.py'"), HasSubstr("does not import")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(link())));
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallPython, IsWhatItsManifestSays) {
  const auto with = [&](const std::string& text, const std::string& manifest) {
    sharing::Contents contents = made_contents("acme/mine");
    contents.summary = "softmax(Q K / t) V";
    contents.citation = "Somebody: Mine, 2026";
    return write_bundle(contents,
                        {{"manifest.json", manifest, false}, {"python/mine.py", text, false}},
                        std::nullopt);
  };
  const TempFolder source;
  const std::string text = packable_attention();
  const std::string manifest =
      packed_manifest(python_file({source.write("mine.py", text), ""}), "acme");
  const std::string hotter =
      manifest.substr(0, manifest.find("10")) + "99" + manifest.substr(manifest.find("10") + 2);
  ASSERT_NE(hotter, manifest);
  EXPECT_THAT(answer(with(text, hotter)), HasSubstr("is not what the manifest"));
  EXPECT_THAT(answer(with("import torch\ndef (:\n", manifest)),
              HasSubstr("mine.py:2:5: syntax error"));
  EXPECT_THAT(answer(with("import torch\n", manifest)), HasSubstr("there is no class 'Mine'"));
  EXPECT_EQ(answer(with(text, manifest)), "installed");
}

TEST_F(InstallPython, TakesNoLibrarysPlace) {
  install(bundle_of("1.0.0", {"here"}, nullptr, "acme/mine"));
  EXPECT_THAT(answer(bundle(packable_attention("2.0.0"), {}, "2.0.0")),
              mentions("acme/mine", "as an attention,", "an attention in Python",
                       "attnlab plugin remove acme/mine"));
  store().remove(*store().find("mine"));
  options_.allow_downgrade = true;
  EXPECT_EQ(answer(bundle(packable_attention())), "installed");
  EXPECT_THAT(answer(bundle_of("2.0.0", {"here"}, nullptr, "acme/mine")),
              mentions("as an attention in Python", "is an attention:"));
  EXPECT_THAT(answer(bundle_of("2.0.0", {"here"}, nullptr, "borealis/mine")),
              mentions("'mine' is taken", "acme/mine"));
}

TEST_F(InstallPython, PassesTheSameQuestionsAsALibrary) {
  options_.policy.unsigned_bundles = sharing::Rule::ask;
  std::string asked;
  options_.ask = [&](const std::string& question) {
    asked = question;
    return false;
  };
  EXPECT_THAT(answer(bundle(packable_attention())), mentions("not signed", "policy"));
  EXPECT_THAT(asked, HasSubstr("with your rights"));
  tools_.test = [](const auto&, const auto&, const auto&) -> std::string {
    throw Error("checks failed: shapes");
  };
  options_.policy.unsigned_bundles = sharing::Rule::allow;
  EXPECT_THAT(answer(bundle(packable_attention())), HasSubstr("step 'kit' failed"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(link())));
}

}  // namespace
}  // namespace attnlab::testing::install_python_test
