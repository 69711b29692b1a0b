// The commands of a plugin's life in one lab, through the program: packed twice, installed from a
// folder and from an address, upgraded, built anew after an update, refused.
#include <filesystem>

#include "framework/base/files.h"
#include "framework/sharing/bundle.h"
#include "tests/sharing_integration/two_labs.h"

namespace attnlab::testing::commands_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Options for a machine that does other things, too. (The kit is left out: two_labs_test.cpp runs
/// it.)
Words quickly(Words words) {
  for (const char* word : {"--no-kit", "--time-limit", "1800", "--jobs", "2"}) {
    words.emplace_back(word);
  }
  return words;
}

void replace_in_file(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = file_text(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << path;
  write_file(path, text.replace(at, from.size(), to));
}

/// The bundle with one expected number changed, and without its signature.
void write_with_another_number(const std::string& path, const std::string& to) {
  sharing::Bundle bundle = sharing::read_bundle(path);
  for (sharing::ArchiveFile& file : bundle.files) {
    if (file.path != "expected/plain/out.safetensors") continue;
    file.bytes[file.bytes.size() - 1] ^= 0x01;  // the exponent of the last float32
  }
  write_file(to, write_bundle(bundle.contents, bundle.files, std::nullopt));
}

TEST(Commands, ServeAPluginFromItsFolderToItsNextVersions) {
  const TwoInstallations attnlabs;
  const LabMachine acme(attnlabs.first(), attnlabs.folder / "acme");
  acme.must({"new", "attention", "sharper", "--lab", "acme"});
  acme.must({"key", "new", "acme"});
  for (const char* folder : {"once", "twice", "public"}) fs::create_directories(acme.at(folder));
  const std::string name = "/sharper-0.1.0.attnlab", once = acme.at("once") + name;

  // The same folder gives the same bytes.
  acme.must(quickly({"plugin", "pack", "sharper", "--binary", "--out", "once"}));
  acme.must(quickly({"plugin", "pack", "sharper", "--binary", "--out", "twice"}));
  EXPECT_EQ(file_text(once), file_text(acme.at("twice") + name));

  // A folder with source is built once, with this machine's limits, and prints no path of a bundle.
  // The policy is asked before anything of it is built.
  const Ended asked = acme.attnlab(quickly({"plugin", "install", "sharper"}));
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_THAT(asked.err, HasSubstr("nothing was built"));
  EXPECT_THAT(asked.err, Not(HasSubstr("clean unpacking")));

  const Ended folder = acme.must(quickly({"plugin", "install", "sharper", "--yes"}));
  EXPECT_THAT(folder.out,
              AllOf(StartsWith("installed attention acme/sharper 0.1.0"), HasSubstr("its binary")));
  EXPECT_THAT(folder.err, Not(HasSubstr("building from source")));
  const Ended hasty =
      acme.attnlab({"plugin", "install", "sharper", "--yes", "--time-limit", "0.01"});
  EXPECT_NE(hasty.exit_code, 0);
  EXPECT_THAT(hasty.err, HasSubstr("time was up"));
  acme.must({"plugin", "remove", "sharper"});

  // A folder with a bundle, and an address: what was installed from the folder has the same bytes.
  EXPECT_THAT(acme.must(quickly({"plugin", "install", "once"})).out, HasSubstr("installed"));
  acme.must({"plugin", "remove", "sharper"});
  const WebServer server(attnlabs.folder / "acme", attnlabs.folder.path());
  acme.must(quickly({"plugin", "install", server.url() + "/once" + name}));
  EXPECT_THAT(acme.must({"list", "--installed"}).out, HasSubstr("acme/sharper"));

  // The next version, by way of an index; with a library that the other installation would build.
  replace_in_file(acme.at("sharper/sharper.cpp"), "\"0.1.0\"", "\"0.2.0\"");
  const std::string elsewhere = acme.at("elsewhere.so");
  write_file(elsewhere, sharing::read_bundle(once).file("binaries/0/sharper.so").bytes);
  replace_in(elsewhere, "0.1.0", "0.2.0");
  attnlabs.fit_to_second(elsewhere);
  acme.must(quickly(
      {"plugin", "pack", "sharper", "--binary", "--add-binary", elsewhere, "--out", "public"}));
  const sharing::Bundle both = sharing::read_bundle(acme.at("public/sharper-0.2.0.attnlab"));
  ASSERT_EQ(both.contents.binaries.size(), 2U);
  EXPECT_NE(both.contents.binaries[0].stamp, both.contents.binaries[1].stamp);
  EXPECT_EQ(both.file("binaries/1/sharper.so").bytes, file_text(elsewhere));
  EXPECT_THAT(acme.attnlab({"plugin", "pack", "sharper", "--add-binary", "none.so"}).err,
              AllOf(HasSubstr("none.so"), Not(HasSubstr("building"))));
  acme.must({"index", "make", "public", "--lab", "acme"});
  acme.must({"index", "add", server.url() + "/public"});
  EXPECT_THAT(acme.must(quickly({"plugin", "upgrade"})).out,
              StartsWith("installed attention acme/sharper 0.2.0"));
  EXPECT_THAT(acme.must(quickly({"plugin", "upgrade", "sharper"})).out, HasSubstr("is the newest"));
  EXPECT_THAT(acme.attnlab({"plugin", "install", once}).err, HasSubstr("0.2.0 was installed here"));

  // After an update of attnlab, which the other installation stands for.
  const LabMachine updated(attnlabs.second(), acme.home());
  EXPECT_THAT(updated.must({"list", "--installed"}).out, HasSubstr("REFUSED"));
  EXPECT_EQ(updated.attnlab({"plugin", "verify"}).exit_code, 1);
  EXPECT_THAT(updated.must(quickly({"plugin", "rebuild"})).out, HasSubstr("its binary"));
  EXPECT_THAT(updated.must(quickly({"plugin", "rebuild", "sharper", "--from-source"})).out,
              HasSubstr("built from source"));
  EXPECT_THAT(updated.must({"list", "attention"}).out, HasSubstr("sharper"));
  EXPECT_THAT(updated.must({"plugin", "verify"}).out, HasSubstr("acme/sharper 0.2.0: sound"));
  EXPECT_THAT(updated.must({"plugin", "rebuild"}).out, HasSubstr("nothing to rebuild"));

  // Numbers that the library does not give, at a lab that never met acme.
  const LabMachine borealis(attnlabs.first(), attnlabs.folder / "borealis");
  borealis.write(".config/attnlab/policy.yaml", "unsigned: allow\nfirst_use: allow\n");
  write_with_another_number(once, borealis.at("wrong.attnlab"));
  const Ended wrong = borealis.attnlab(quickly({"plugin", "install", "wrong.attnlab"}));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("step 'numbers' failed"), HasSubstr("expected/plain")));
  EXPECT_FALSE(fs::exists(borealis.plugins() + "/attention"));
  // Without its signature, where acme's key is known, it does not come that far.
  EXPECT_THAT(acme.attnlab({"plugin", "install", borealis.at("wrong.attnlab"), "--yes"}).err,
              mentions("not signed", "lab 'acme' has a key"));
  EXPECT_THAT(acme.attnlab({"plugin", "verify", borealis.at("wrong.attnlab")}).out,
              mentions("NOT SIGNED", "lab 'acme' has a key"));

  // A key that expires later leaves what came in before as it is.
  const std::string known = acme.at(".config/attnlab/keys/known.json");
  const std::string last_day = sharing::read_bundle(once).signer->expires;
  replace_in_file(known, "\"expires\": \"" + last_day, R"("expires": "2026-01-01)");
  EXPECT_THAT(updated.must({"plugin", "verify"}).out,
              AllOf(HasSubstr("sound"), HasSubstr("expired on 2026-01-01")));

  // A revoked key counts for what is installed, too.
  const std::string key = sharing::read_bundle(once).signer->key.id_text();
  acme.must({"key", "revoke", key});
  acme.write("small.yaml",
             "schema: 1\nname: small\nmodel: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: "
             "2}\nattention: {use: sharper}\ntask: {use: image_classification}\ndataset: {use: "
             "synthetic_images, train: 64, test: 32}\ntrain: {epochs: 1}\n");
  EXPECT_THAT(updated.attnlab({"run", "small.yaml"}).err, HasSubstr("was revoked on"));
  EXPECT_THAT(updated.attnlab({"plugin", "rollback", "sharper"}).err, HasSubstr("was revoked on"));
}

TEST(Commands, PackNothingThatDoesNotBuildFromACleanUnpacking) {
  const TwoInstallations attnlabs;
  const LabMachine acme(attnlabs.first(), attnlabs.folder / "acme");
  acme.must({"new", "attention", "sharper", "--lab", "acme"});
  // It builds in place; but what lies beside the folder is not in the bundle.
  acme.write("beside.cmake", "set(found yes)\n");
  write_file(acme.at("sharper/CMakeLists.txt"),
             "cmake_minimum_required(VERSION 3.25)\nproject(sharper NONE)\n"
             "include(${CMAKE_CURRENT_SOURCE_DIR}/../beside.cmake)\n");
  const Ended ended = acme.attnlab({"plugin", "pack", "sharper"});
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("cmake: exit code"), HasSubstr("beside.cmake")));
  EXPECT_FALSE(fs::exists(acme.at("sharper-0.1.0.attnlab")));
}

}  // namespace
}  // namespace attnlab::testing::commands_test
