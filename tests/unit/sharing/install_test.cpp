// Installing: what is in use afterwards.
#include "framework/sharing/install.h"

#include <gmock/gmock.h>

#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::install_test {
namespace {

using attnlab::testing::mentions;
using sharing::Installed;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(InstallTest, TakesABinaryWhoseStampFits) {
  const Installed one = install(bundle_of("1.0.0", {"other", "here"}));
  EXPECT_EQ(one.built, "binary");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, BuildsFromSourceWhereNoStampFits) {
  EXPECT_EQ(install(bundle_of("1.0.0", {"other"})).built, "source");
  EXPECT_EQ(in_use(), "1.0.0");
}

TEST_F(InstallTest, RefusesALibraryThatIsNotWhatTheBundleSays) {
  built_version_ = "6.6.6";
  EXPECT_THAT(answer(bundle_of("1.0.0")), HasSubstr("attention acme/sharp 6.6.6"));
  EXPECT_EQ(in_use(), "");
}

/// A bundle with one binary, whose parts need not agree.
std::string bundle_with(const sharing::Contents& contents, const std::string& manifest,
                        const std::string& compiler, const std::string& listed) {
  sharing::Contents all = contents;
  std::vector<sharing::ArchiveFile> files = made_files();
  files.push_back({"manifest.json", manifest});
  files.push_back({"binaries/0/sharp.so", library("acme/sharp", "1.0.0", compiler)});
  all.binaries.push_back({"binaries/0/sharp.so", {{"compiler", listed}}});
  return write_bundle(all, files, std::nullopt);
}

TEST_F(InstallTest, RefusesALibraryWhoseManifestIsNotTheBundles) {
  const std::string said = manifest_text("acme/sharp", "1.0.0", "any");
  EXPECT_EQ(answer(bundle_with(made_contents(), said, "here", "here")), "installed");
  store().remove(store().need("sharp"));
  options_.allow_downgrade = true;  // other bundles of the version that was here
  for (const auto& [from, to] : {std::pair{R"("takes":[])", R"("takes":["mask"])"},
                                 std::pair{R"("traits":{})", R"("traits":{"causal":true})"}}) {
    std::string other = said;
    other.replace(other.find(from), std::string(from).size(), to);
    EXPECT_THAT(answer(bundle_with(made_contents(), other, "here", "here")),
                mentions("step 'manifest' failed", "the library's manifest"));
  }
  EXPECT_EQ(in_use(), "");
}

TEST_F(InstallTest, RefusesABinaryWhoseStampIsNotTheListedOne) {
  const std::string said = manifest_text("acme/sharp", "1.0.0", "any");
  EXPECT_THAT(answer(bundle_with(made_contents(), said, "other", "here")),
              mentions("step 'manifest' failed", "compiler: expected here, found other"));
  EXPECT_EQ(in_use(), "");
}

TEST_F(InstallTest, RefusesABundleThatPraisesItselfOtherwiseThanItsLibrary) {
  const std::string said = manifest_text("acme/sharp", "1.0.0", "any");
  const auto answer_to = [&](const std::function<void(sharing::Contents&)>& change) {
    sharing::Contents contents = made_contents();
    change(contents);
    return answer(bundle_with(contents, said, "here", "here"));
  };
  EXPECT_THAT(answer_to([](auto& contents) { contents.summary = "the best"; }),
              mentions("summed up as made up", "the best"));
  EXPECT_THAT(answer_to([](auto& contents) { contents.licence = "MIT"; }),
              mentions("licence Apache-2.0", "MIT"));
  EXPECT_THAT(answer_to([](auto& contents) { contents.citation = "somebody"; }),
              mentions("cited as nobody, 2026", "somebody"));
  EXPECT_EQ(in_use(), "");
}

TEST_F(InstallTest, RefusesAnotherKindOfAnInstalledId) {
  install(bundle_of("1.0.0", {"here"}));
  sharing::Contents contents = made_contents("acme/sharp", "1.1.0");
  contents.kind = "model";
  EXPECT_THAT(answer(write_bundle(contents, made_files(), std::nullopt)),
              mentions("acme/sharp", "an attention", "a model"));
  EXPECT_EQ(in_use(), "1.0.0");
  store().remove(store().need("acme/sharp"));
  EXPECT_THAT(answer(write_bundle(contents, made_files(), std::nullopt)),
              Not(HasSubstr("is installed here as")));
}

TEST_F(InstallTest, GoesBackToTheVersionBefore) {
  install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  EXPECT_EQ(roll_back().version, "1.0.0");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_THROW(roll_back(), ConfigError);
}

TEST_F(InstallTest, LeavesWhatALinkOfAnotherFormLeadsTo) {
  install(bundle_of("1.0.0", {"here"}));
  const fs::path link = folder_ / "share/plugins/attention/sharp.so";
  const fs::path library = fs::canonical(link);
  fs::remove(link);
  fs::create_symlink(library, link);  // as a backup that was restored may have it
  store().clean();
  EXPECT_TRUE(fs::exists(library));
}

TEST_F(InstallTest, ForNowLeavesTheWayBackAsItWas) {
  for (const char* version : {"0.9.0", "1.0.0", "1.1.0"}) install(bundle_of(version, {"here"}));
  EXPECT_EQ(entries(), 2U) << "one version before is kept";
  options_.for_now = true;
  install(bundle_of("1.2.0", {"here"}));
  install(bundle_of("1.3.0", {"here"}));  // the process that used 1.2.0 was killed
  options_.for_now = false;
  for (const char* version : {"1.2.0", "1.1.0", "1.0.0"}) {
    EXPECT_EQ(roll_back().version, version);
    EXPECT_EQ(in_use(), version);
  }
  EXPECT_THROW(roll_back(), ConfigError);
}

TEST_F(InstallTest, RebuildsWhatTheHostRefuses) {
  install(bundle_of("1.0.0", {"here"}));
  tools_.host = {{"compiler", "newer"}};
  tools_.build = [](const auto&, const std::string& work, const auto&) {
    fs::create_directories(work);
    write_file(work + "/made.so", library("acme/sharp", "1.0.0", "newer"));
    return work + "/made.so";
  };
  const Installed again = rebuild();
  EXPECT_EQ(again.built, "source");
  EXPECT_EQ(read_manifest(store().find("sharp")->library()).stamp.at("compiler"), "newer");
  EXPECT_EQ(in_use(), "1.0.0");
}

TEST_F(InstallTest, LeavesAnotherLabsPluginOfTheSameNameAlone) {
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_THAT(answer(bundle_of("9.0.0", {"here"}, nullptr, "other/sharp")),
              mentions("'sharp' is taken", "acme/sharp"));
  EXPECT_EQ(store().find("sharp")->id.str(), "acme/sharp");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(InstallTest, LeavesAFileThatItDidNotInstallAlone) {
  fs::create_directories(folder_ / "share/plugins/attention");
  const std::string own = folder_.write("share/plugins/attention/sharp.so", "built by hand");
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("not installed from a bundle"));
  EXPECT_EQ(file_text(own), "built by hand");
  fs::remove(own);
  fs::create_symlink("/nowhere/else.so", own);
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("not installed from a bundle"));
}

TEST_F(InstallTest, MakesItAnewWhereThatWasAskedFor) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  options_.kit = false;
  EXPECT_EQ(install(bytes).built, "binary");
  EXPECT_FALSE(store().find("sharp")->kit);
  options_.from_source = true;
  EXPECT_EQ(install(bytes).built, "source");
  options_.from_source = false;
  options_.kit = true;
  EXPECT_TRUE(install(bytes).kit) << "the kit was left out, and is now asked for";
  EXPECT_THROW(roll_back(), ConfigError) << "the same bundle is not an earlier version";
}

}  // namespace
}  // namespace attnlab::testing::install_test
