// Bundles that want to do harm, through the program: what they reach, and what is left of them.
#include <csignal>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/confine.h"
#include "framework/sharing/index.h"
#include "tests/sharing_integration/two_labs.h"
#include "tests/support/encodings.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::attacks_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Attacks : public OneInstallation {
 protected:
  /// A bundle whose build is these lines of CMake.
  std::string bundle(const std::string& cmake) {
    return home_.write(
        "evil.attnlab",
        write_bundle(made_contents("acme/evil"),
                     {{"source/CMakeLists.txt",
                       "cmake_minimum_required(VERSION 3.25)\nproject(evil NONE)\n" + cmake},
                      {"source/LICENSE", "none"},
                      {"manifest.json", "{}"}},
                     {}));
  }
  /// Installs it, which must fail and leave nothing behind. @returns what was said, and the log.
  std::string failure(const std::string& file) {
    const Ended ended = lab_.attnlab({"plugin", "install", file, "--time-limit", "60"});
    EXPECT_NE(ended.exit_code, 0) << ended.story();
    EXPECT_FALSE(fs::exists(lab_.plugins() + "/attention"));
    std::error_code error;
    for (const auto& left : fs::directory_iterator(lab_.plugins() + "/installed", error)) {
      EXPECT_EQ(left.path().filename(), "lock");
    }
    std::string text = ended.err;
    for (const auto& log : fs::directory_iterator(lab_.at(".local/share/attnlab/logs"), error)) {
      text += file_text(log.path().string());
    }
    return text;
  }
};

TEST_F(Attacks, ABuildReachesNoNetwork) {
  const WebServer server(home_.path(), home_.path());
  home_.write("secret", "from the web");
  const std::string said = failure(
      bundle("file(DOWNLOAD " + server.url() +
             "/secret ${CMAKE_BINARY_DIR}/got STATUS status)\n"
             "message(STATUS \"download: ${status}\")\nfile(READ ${CMAKE_BINARY_DIR}/got text)\n"
             "message(STATUS \"got <${text}>\")\n"));
  EXPECT_THAT(said, HasSubstr("download: "));
  EXPECT_THAT(said, Not(HasSubstr("from the web")));
}

TEST_F(Attacks, ABuildWritesOnlyInItsFolder) {
  for (const std::string& place :
       {home_ / "home/.bashrc", lab_.plugins() + "/attention/evil.so", home_ / "outside",
        std::string("${CMAKE_SOURCE_DIR}/../../escaped")}) {
    const std::string said = failure(bundle("file(WRITE \"" + place + "\" harm)\n"));
    EXPECT_THAT(said, HasSubstr("step 'build' failed")) << place;
  }
  EXPECT_FALSE(fs::exists(home_ / "home/.bashrc"));
  EXPECT_FALSE(fs::exists(home_ / "outside"));
}

TEST_F(Attacks, ABuildReadsNothingOfTheUsers) {
  lab_.write("secret", "my secret");
  lab_.must({"key", "new", "acme"});
  const std::string said =
      failure(bundle("file(READ \"" + lab_.at("secret") + "\" text)\nmessage(\"<${text}>\")\n"));
  EXPECT_THAT(said, Not(HasSubstr("my secret>")));
  const std::string key = failure(bundle("file(READ \"" + lab_.at(".config/attnlab/keys/acme.key") +
                                         "\" text)\nmessage(\"<${text}>\")\n"));
  EXPECT_THAT(key, Not(HasSubstr("untrusted comment")));
}

TEST_F(Attacks, ABuildReadsNothingThatLiesBesideAttnlab) {
  // As in ~/.local, where attnlab may have been installed.
  for (const char* place : {"/notes", "/share/notes", "/share/attnlab/plugins/notes"}) {
    fs::create_directories(fs::path(prefix() + place).parent_path());
    write_file(prefix() + place, "my secret");
    const std::string said =
        failure(bundle("file(READ \"" + prefix() + place + "\" text)\nmessage(\"<${text}>\")\n"));
    fs::remove(prefix() + place);
    EXPECT_THAT(said, AllOf(HasSubstr("step 'build' failed"), Not(HasSubstr("my secret>"))));
  }
}

TEST_F(Attacks, ABuildEmptiesAndOpensNoFileOfTheUsers) {
  const sharing::Walls sandbox = sharing::possible_walls();
  if (!sandbox.read_only) GTEST_SKIP() << sandbox.text();
  lab_.write("thesis", "years of work");
  fs::permissions(lab_.at("thesis"), fs::perms::owner_read | fs::perms::owner_write);
  failure(bundle("execute_process(COMMAND truncate -s 0 " + lab_.at("thesis") +
                 ")\nexecute_process(COMMAND chmod 777 " + lab_.at("thesis") + ")\n"));
  EXPECT_EQ(file_text(lab_.at("thesis")), "years of work");
  EXPECT_EQ(fs::status(lab_.at("thesis")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Attacks, ABuildThatLinksToOtherPluginsMadeNone) {
  lab_.write("other/attention/evil.so", "another's");
  EXPECT_THAT(
      failure(bundle("file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib/attnlab)\n"
                     "file(CREATE_LINK " +
                     lab_.at("other") + " ${CMAKE_BINARY_DIR}/lib/attnlab/plugins SYMBOLIC)\n")),
      HasSubstr("made 0 plugins"));
}

TEST_F(Attacks, ABuildThatNeverEndsIsEnded) {
  lab_.write("x", "");
  const std::string file = bundle("execute_process(COMMAND sleep 10000)\n");
  const Ended ended = lab_.attnlab({"plugin", "install", file, "--time-limit", "0.5"});
  EXPECT_THAT(ended.err, HasSubstr("time was up"));
}

TEST_F(Attacks, ASignalEndsABuildAndLeavesNothingBehind) {
  const std::string build = "execute_process(COMMAND sleep 10007)\n";
  const std::string file = bundle(build);
  lab_.write("source/CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\nproject(slow NONE)\n" + build);
  lab_.write("source/LICENSE", "none");
  const std::string scratch = lab_.at("scratch");
  const auto builds = [&] {
    return run({{"sh", "-c", "ps ax -o args | grep -c '^sleep 10007$'"}}).out != "0\n";
  };
  const std::vector<Words> commands = {{"plugin", "install", file, "--yes"},
                                       {"plugin", "install", lab_.at("source"), "--yes"},
                                       {"plugin", "pack", lab_.at("source")}};
  for (const Words& words : commands) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      SCOPED_TRACE(words[1] + " " + words[2] + " " + std::to_string(signal));
      fs::create_directories(scratch);
      Process process(lab_.invocation(words, {{"TMPDIR", scratch}}));
      ASSERT_TRUE(wait_for(builds));
      process.send(signal);
      const Ended ended = process.wait();
      EXPECT_EQ(ended.exit_code, 130) << ended.story();
      EXPECT_THAT(ended.err, HasSubstr("nothing is left behind\n"));
      EXPECT_FALSE(builds());
      EXPECT_TRUE(fs::is_empty(scratch));
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(lab_.plugins() + "/installed", none)) {
        EXPECT_FALSE(entry.path().filename().string().starts_with(".staging")) << entry.path();
      }
    }
  }
}

TEST_F(Attacks, AFullDiskLeavesNothingBehind) {
  const std::string file = home_.write(
      "large.attnlab",
      write_bundle(made_contents("acme/evil"),
                   {{"source/CMakeLists.txt", std::string(300'000, ' ')}, {"manifest.json", "{}"}},
                   {}));
  Invocation small{
      {prefix() + "/bin/attnlab", "plugin", "install", file}, lab_.home(), {{"HOME", lab_.home()}}};
  small.largest_file = 100 * 1024;
  const Ended ended = run(small);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("nothing was installed"));
  EXPECT_THAT(failure(file), HasSubstr("step 'build' failed"));  // with room, it is its content
}

TEST_F(Attacks, AReplayedOrExpiredIndexIsNoticed) {
  lab_.must({"key", "new", "acme"});
  const std::string folder = lab_.at("public");
  fs::create_directories(folder);
  lab_.must({"index", "make", folder, "--lab", "acme"});
  fs::copy(folder, lab_.at("old"), fs::copy_options::recursive);
  lab_.must({"index", "make", folder, "--lab", "acme"});
  lab_.must({"index", "add", folder});
  fs::remove_all(folder);
  fs::rename(lab_.at("old"), folder);
  const Ended replayed = lab_.attnlab({"index", "update"});
  EXPECT_EQ(replayed.exit_code, 1);
  EXPECT_THAT(replayed.err, HasSubstr("old index"));
  EXPECT_THAT(lab_.attnlab({"plugin", "install", "sharp"}).err, HasSubstr("served again"));
}

TEST_F(Attacks, AnIndexServedOnAndOnIsNoticed) {
  const Lab acme("acme");
  const std::string folder = lab_.at("public");
  fs::create_directories(folder);
  make_index(folder, "acme", acme.key, acme.text, 90);
  lab_.must({"index", "add", folder});
  make_index(folder, "acme", acme.key, acme.text, -1);  // as it is the day after its last
  const Ended ended = lab_.attnlab({"index", "update"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("it expired on"));
}

TEST_F(Attacks, ARefusedIndexLeavesTheOthersAlone) {
  const Lab acme("acme"), borealis("borealis");
  for (const Lab* one : {&acme, &borealis}) {
    const std::string folder = lab_.at(one->card.lab);
    fs::create_directories(folder);
    const std::string bundle = "sharp_" + one->card.lab;
    write_file(
        folder + "/" + bundle + "-1.0.0.attnlab",
        write_bundle(made_contents(one->card.lab + "/" + bundle),
                     {{"source/CMakeLists.txt", ""}, {"manifest.json", "{}"}}, one->signer()));
    make_index(folder, one->card.lab, one->key, one->text, 90);
    lab_.must({"index", "add", folder});
  }
  write_file(lab_.at("acme/index.json"), file_text(lab_.at("acme/index.json")) + " ");
  make_index(lab_.at("borealis"), "borealis", borealis.key, borealis.text, 90);
  const Ended ended = lab_.attnlab({"index", "update"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("signature does not fit"));
  EXPECT_THAT(ended.out, HasSubstr("borealis"));
  EXPECT_THAT(lab_.must({"plugin", "search", "sharp"}).out, HasSubstr("borealis/sharp_borealis"));
}

TEST_F(Attacks, KeysAreMadeListedAndRevoked) {
  const auto keys = [&] { return lab_.must({"key", "list"}).out; };
  EXPECT_NE(lab_.attnlab({"key", "new", "acme", "--expires", "2026-01-01"}).exit_code, 0);
  EXPECT_NE(lab_.attnlab({"key", "new", "attnlab"}).exit_code, 0);
  EXPECT_THAT(keys(), HasSubstr("no key is known"));
  lab_.must({"key", "new", "acme", "--expires", "2999-01-01"});
  EXPECT_NE(lab_.attnlab({"key", "new", "acme"}).exit_code, 0);
  EXPECT_THAT(keys(), HasSubstr("expires: 2999-01-01"));
  const Lab other("other", "2998-01-01");
  lab_.write("other.pub", other.text);
  lab_.must({"key", "add", "other.pub"});
  EXPECT_THAT(keys(), HasSubstr(other.card.key.id_text()));
  lab_.must({"key", "revoke", other.card.key.id_text()});
  EXPECT_THAT(keys(), mentions("NOT TRUSTED: ", "revoked on"));

  // One's own: a revocation for others is written, and a new key can be made.
  const std::string id =
      sharing::parse_key_card(file_text(lab_.at(".config/attnlab/keys/acme.pub"))).key.id_text();
  lab_.must({"key", "revoke", id, "--out", "old.revoked"});
  EXPECT_EQ(sharing::parse_revocation(file_text(lab_.at("old.revoked"))).key_id, id);
  lab_.must({"key", "new", "acme"});
}

TEST_F(Attacks, OthersKeysAreAddedByTheirTextAndRevokedByAFile) {
  const Lab other("other");
  const std::string text = other.card.key.base64(), id = other.card.key.id_text();
  EXPECT_THAT(lab_.attnlab({"key", "add", text}).err, HasSubstr("--lab is missing"));
  lab_.must({"key", "add", text, "--lab", "other", "--expires", "2999-01-01"});
  EXPECT_THAT(lab_.must({"key", "list"}).out, AllOf(HasSubstr(id), HasSubstr("2999-01-01")));
  // A public key as the program minisign writes it says neither whose it is.
  const Lab third("third");
  lab_.write("third.pub",
             marked("untrusted comment: minisign public key\n" + third.card.key.base64() + "\n"));
  EXPECT_NE(lab_.attnlab({"key", "add", "third.pub"}).exit_code, 0);
  lab_.must({"key", "add", "third.pub", "--lab", "third"});
  EXPECT_THAT(lab_.must({"key", "list"}).out, HasSubstr(third.card.key.id_text()));

  lab_.write("other.revoked", write_revocation("other", other.key));
  EXPECT_THAT(lab_.must({"key", "revoke", "other.revoked"}).out, HasSubstr("revoked"));
  EXPECT_THAT(lab_.must({"key", "list"}).out, mentions("NOT TRUSTED: ", "revoked on"));
  EXPECT_THAT(lab_.must({"key", "revoke", "other.revoked"}).out, HasSubstr("nothing changed"));
  // Made by another key, although it names this one.
  const Lab mallory("third");
  std::string forged = write_revocation("third", mallory.key);
  const std::string theirs = mallory.card.key.id_text();
  forged.replace(forged.find(theirs), theirs.size(), third.card.key.id_text());
  lab_.write("forged.revoked", forged);
  EXPECT_NE(lab_.attnlab({"key", "revoke", "forged.revoked"}).exit_code, 0);
}

TEST_F(Attacks, ARevocationReachesThoseWhoKnowOnlyTheOldKey) {
  const LabMachine acme(prefix(), home_ / "acme");
  acme.must({"key", "new", "acme"});
  fs::create_directories(acme.at("public"));
  acme.must({"index", "make", "public", "--lab", "acme"});
  lab_.must({"index", "add", acme.at("public")});
  const std::string id =
      sharing::parse_key_card(file_text(acme.at("public/lab.pub"))).key.id_text();

  acme.must({"key", "revoke", id, "--out", "public/old.revoked"});
  EXPECT_NE(acme.attnlab({"index", "make", "public", "--lab", "acme"}).exit_code, 0);
  acme.must({"key", "new", "acme"});
  acme.must({"index", "make", "public", "--lab", "acme"});
  const Ended update = lab_.attnlab({"index", "update"});
  EXPECT_EQ(update.exit_code, 1);
  EXPECT_THAT(update.err, AllOf(HasSubstr("HAS CHANGED"), HasSubstr("was revoked on")));
  EXPECT_THAT(lab_.must({"key", "list"}).out, mentions(id, "NOT TRUSTED: ", "revoked on"));
  lab_.must({"key", "add", acme.at("public/lab.pub")});
  lab_.must({"index", "update"});
}

TEST_F(Attacks, AnIndexOfAnotherKeyIsRefused) {
  const Lab mallory("acme");
  lab_.must({"key", "new", "acme"});
  const std::string folder = lab_.at("public");
  fs::create_directories(folder);
  lab_.must({"index", "make", folder, "--lab", "acme"});
  lab_.must({"index", "add", folder});
  std::string text = file_text(folder + "/index.json");
  write_file(folder + "/index.json", text + " ");
  EXPECT_THAT(lab_.attnlab({"index", "update"}).err, HasSubstr("signature does not fit"));
  write_file(folder + "/index.json", text);
  lab_.must({"index", "update"});
  write_file(folder + "/lab.pub", mallory.text);
  EXPECT_THAT(lab_.attnlab({"index", "update"}).err, HasSubstr("REFUSED"));
}

}  // namespace
}  // namespace attnlab::testing::attacks_test
