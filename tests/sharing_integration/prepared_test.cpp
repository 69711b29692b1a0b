// Bundles with a prepared binary, through the program: installed in a moment, so that a full disk
// can be tried at every call; and one whose library wants to do harm once the kit loads it.
#include <cstring>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/manifest/manifest.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/confine.h"
#include "tests/sharing_integration/two_labs.h"
#include "tests/support/made_library.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::prepared_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Prepared : public OneInstallation {
 protected:
  /// The manifest of a library that this installation takes.
  static json manifest(const std::string& version) {
    json out = {
        {"id", "acme/ready"},           {"kind", "attention"},
        {"version", version},           {"summary", "made up"},
        {"citation", "nobody"},         {"licence", "MIT"},
        {"traits", {{"causal", true}}}, {"stamp", read_stamp(prefix() + "/lib/libattnlab.so")}};
    for (const char* list : {"takes", "gives", "needs", "options"}) out[list] = json::array();
    return out;
  }
  /// A bundle of acme with this library in it.
  std::string bundle(const std::string& version, const std::string& library) const {
    sharing::Contents contents = made_contents("acme/ready", version);
    contents.summary = "made up";
    contents.citation = "nobody";
    contents.licence = "MIT";
    contents.binaries = {{"binaries/0/ready.so", read_stamp(prefix() + "/lib/libattnlab.so")}};
    std::vector<sharing::ArchiveFile> files = made_files();
    files.push_back({"manifest.json", manifest(version).dump()});
    files.push_back({"binaries/0/ready.so", library});
    return home_.write("ready-" + version + ".attnlab",
                       write_bundle(contents, files, acme_.signer()));
  }
  /// The same, of a library without code.
  std::string bundle(const std::string& version) const {
    return bundle(version, library_with_section(kManifestSection, manifest(version).dump()));
  }

  const Lab acme_{"acme"};
};

TEST_F(Prepared, IsInstalledFromItsFileAndTheVersionBeforeComesBack) {
  const auto version = [&] {
    const json all = json::parse(lab_.must({"list", "--installed", "--json"}).out);
    return all.size() == 1 ? all[0].at("version").get<std::string>() : "";
  };
  const Ended first = lab_.must({"plugin", "install", bundle("1.0.0"), "--no-kit"});
  EXPECT_THAT(first.out,
              mentions("installed attention acme/ready 1.0.0", "its binary", "signed by"));
  lab_.must({"plugin", "install", bundle("1.1.0"), "--no-kit"});
  EXPECT_EQ(version(), "1.1.0");
  EXPECT_THAT(lab_.must({"plugin", "rollback", "ready"}).out,
              mentions("acme/ready: 1.0.0 is in use", "instead of 1.1.0"));
  EXPECT_EQ(version(), "1.0.0");
  lab_.must({"plugin", "verify", "ready"});
  EXPECT_THAT(lab_.attnlab({"plugin", "rollback", "ready"}).err, HasSubstr("no earlier version"));
  EXPECT_THAT(lab_.attnlab({"plugin", "install", home_ / "none.attnlab"}).err,
              HasSubstr("none.attnlab"));
  EXPECT_EQ(version(), "1.0.0");
}

TEST_F(Prepared, IsInstalledBesideAFileUnderDevelopmentWhichIsUsedWhileItIsNamed) {
  const std::string own = home_.write(
      "developed/ready.so", library_with_section(kManifestSection, manifest("2.0.0").dump()));
  const Environment developing = {{"ATTNLAB_PLUGIN_PATH", home_ / "developed"}};
  const auto used = [&](const Environment& environment) {
    const Ended ended = lab_.attnlab({"describe", "ready", "--json"}, environment);
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return json::parse(ended.out);
  };
  const Ended installed =
      lab_.attnlab({"plugin", "install", bundle("1.0.0"), "--no-kit"}, developing);
  EXPECT_EQ(installed.exit_code, 0) << installed.story();
  EXPECT_THAT(installed.out, mentions("installed attention acme/ready 1.0.0", "its binary"));
  const json developed = used(developing), afterwards = used({});
  EXPECT_EQ(developed.at("version"), "2.0.0");
  EXPECT_EQ(developed.at("path"), own);
  EXPECT_EQ(afterwards.at("version"), "1.0.0");
  EXPECT_THAT(afterwards.at("path").get<std::string>(), StartsWith(lab_.plugins() + "/"));
  EXPECT_THAT(lab_.attnlab({"list", "attention"}, developing).err,
              mentions(own, "instead of " + lab_.plugins()));
}

TEST_F(Prepared, IsRefusedOnceItsKeyIsRevokedThoughThatIsNotKnown) {
  const std::string file = bundle("1.0.0"), known = lab_.at(".config/attnlab/keys/known.json");
  lab_.write("acme.revoked", write_revocation("acme", acme_.key));
  const auto revoke = [&] { return lab_.must({"key", "revoke", "acme.revoked"}).out; };
  EXPECT_THAT(lab_.must({"plugin", "verify", file}).out, HasSubstr("not known here"));
  EXPECT_THAT(revoke(), HasSubstr("will not be trusted"));
  const Ended verified = lab_.attnlab({"plugin", "verify", file});
  EXPECT_EQ(verified.exit_code, 1) << verified.story();
  EXPECT_THAT(verified.out, HasSubstr("revoked on"));

  // Installed, and then the record of known keys is lost.
  const std::string kept = file_text(known);
  fs::remove(known);
  lab_.must({"plugin", "install", file, "--no-kit"});
  write_file(known, kept);
  const Ended sound = lab_.attnlab({"plugin", "verify"});
  EXPECT_EQ(sound.exit_code, 1) << sound.story();
  EXPECT_THAT(sound.out,
              mentions("not known here", "revoked on", "attnlab plugin remove acme/ready"));
  EXPECT_THAT(revoke(), HasSubstr("revoked\n"));
  lab_.write("small.yaml", R"(schema: 1
name: small
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: ready}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 64, test: 32}
)");
  EXPECT_THAT(lab_.attnlab({"run", "small.yaml"}).err,
              AllOf(HasSubstr("was revoked on"), HasSubstr("it is not loaded")));
}

TEST_F(Prepared, NamesTheStepThatFails) {
  const std::string file = bundle("1.0.0");
  write_file(file, file_text(file) + "x");
  const Ended damaged = lab_.attnlab({"plugin", "install", file});
  EXPECT_EQ(damaged.exit_code, 2) << damaged.story();
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("step 'verify' failed"), HasSubstr("is damaged"),
                                 HasSubstr("nothing was installed")));
  // A library without code has no entry: the kit cannot load it. No key is pinned, nothing noted.
  EXPECT_THAT(lab_.attnlab({"plugin", "install", bundle("1.0.0")}).err,
              AllOf(HasSubstr("step 'kit' failed"), HasSubstr("the log: ")));
  EXPECT_THAT(lab_.must({"key", "list"}).out, HasSubstr("no key is known"));
  EXPECT_FALSE(fs::exists(lab_.at(".config/attnlab/keys/known.json")));
}

/// A disk that is full from one call on, at every call.
class PreparedOnAFullDisk : public Prepared {
 protected:
  /// Installs a bundle in a copy of a home.
  Ended install(const std::string& from, const std::string& file, std::int64_t full_at) {
    fs::remove_all(here_.home());
    fs::copy(from, here_.home(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove(calls_);
    return here_.attnlab({"plugin", "install", file, "--no-kit"},
                         {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                          {"ATTNLAB_FAULT", "enospc:" + std::to_string(full_at) + "+"},
                          {"ATTNLAB_FAULT_BELOW", here_.home()},
                          {"ATTNLAB_FAULT_CALLS", calls_}});
  }
  std::int64_t calls() const {
    const std::string bytes = file_text(calls_);
    std::int64_t count = 0;
    if (bytes.size() == sizeof count) std::memcpy(&count, bytes.data(), sizeof count);
    return count;
  }
  std::string in_use() const {
    const json all = json::parse(here_.must({"list", "--installed", "--json"}).out);
    if (all.empty()) return "";
    here_.must({"plugin", "verify"});
    return all.size() == 1 ? all[0].at("version").get<std::string>() : "several";
  }
  /// What lies in the store beside its lock, at any depth but for an entry's own files.
  std::size_t entries() const {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& one :
         fs::recursive_directory_iterator(here_.plugins() + "/installed", error)) {
      count += one.path().filename() == "record.json" ? 1 : 0;
      EXPECT_THAT(one.path().filename().string(), Not(HasSubstr(".staging")));
    }
    return count;
  }

  const LabMachine here_{prefix(), home_ / "here"};
  const std::string calls_ = home_ / "calls";
};

TEST_F(PreparedOnAFullDisk, LeavesNothingOfAFirstInstallation) {
  constexpr std::int64_t kNever = 1'000'000;
  const std::string file = bundle("1.0.0");
  ASSERT_EQ(install(lab_.home(), file, kNever).exit_code, 0);
  const std::int64_t all = calls();
  ASSERT_GT(all, 10);
  std::string said;
  for (std::int64_t at = 1; at <= all; ++at) {
    SCOPED_TRACE(at);
    const Ended ended = install(lab_.home(), file, at);
    said += ended.err;
    const bool done = ended.exit_code == 0;
    EXPECT_EQ(ended.signal, 0) << ended.story();
    EXPECT_EQ(in_use(), done ? "1.0.0" : "") << ended.story();
    EXPECT_EQ(entries(), done ? 1U : 0U);
    EXPECT_EQ(fs::exists(here_.at(".config/attnlab/keys/known.json")), done) << ended.story();
  }
  for (const char* step : {"unpack", "binary", "record", "activate"}) {
    EXPECT_THAT(said, HasSubstr("step '" + std::string(step) + "' failed"));
  }
  EXPECT_THAT(said, AllOf(HasSubstr("No space left on device"), HasSubstr("known.json")));
}

TEST_F(PreparedOnAFullDisk, LeavesTheVersionBefore) {
  constexpr std::int64_t kNever = 1'000'000;
  lab_.must({"plugin", "install", bundle("1.0.0"), "--no-kit"});
  const std::string file = bundle("1.1.0");
  ASSERT_EQ(install(lab_.home(), file, kNever).exit_code, 0);
  const std::int64_t all = calls();
  for (std::int64_t at = 1; at <= all; ++at) {
    SCOPED_TRACE(at);
    const Ended ended = install(lab_.home(), file, at);
    EXPECT_EQ(in_use(), ended.exit_code == 0 ? "1.1.0" : "1.0.0") << ended.story();
  }
  // With room it goes on from where it was.
  here_.must({"plugin", "install", file, "--no-kit"});
  EXPECT_EQ(in_use(), "1.1.0");
}

/// A plugin whose library acts as soon as it is loaded: in C, since this takes no time to compile.
constexpr const char* kHarm = R"(
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((section(".attnlab.manifest"), used)) static const char manifest[SIZE] = MANIFEST;
static const char* answer(int file) { return file < 0 ? strerror(errno) : "DONE"; }
__attribute__((constructor)) static void act(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  fprintf(stderr, "write: %s, ", answer(open(HOME "/outside", O_CREAT | O_WRONLY, 0600)));
  fprintf(stderr, "read: %s, ", answer(open(HOME "/secret", O_RDONLY)));
  fprintf(stderr, "cut: %s, ", answer(truncate(HOME "/secret", 0)));
  int line = socket(AF_INET, SOCK_STREAM, 0);
  fprintf(stderr, "network: %s\n",
          line < 0 ? strerror(errno) : answer(connect(line, (struct sockaddr*)&to, sizeof to)));
  _exit(9);  // so that the kit tells what it said
}
)";

TEST_F(Prepared, ALibraryInTheKitReachesNothing) {
  const sharing::Walls sandbox = sharing::possible_walls();
  if (!sandbox.landlock || !sandbox.network()) GTEST_SKIP() << sandbox.text();
  const WebServer server(home_.path(), home_.path());
  lab_.write("secret", "years of work");
  const std::string said = manifest("1.0.0").dump();
  const std::string source = home_.write("harm.c", kHarm), library = home_ / "harm.so";
  const Ended made = run(
      {{"cc", "-shared", "-fPIC", "-o", library, source, "-DSIZE=" + std::to_string(said.size()),
        "-DMANIFEST=" + json(said).dump(), "-DHOME=\"" + lab_.home() + "\"",
        "-DPORT=" + server.url().substr(server.url().rfind(':') + 1)}});
  ASSERT_EQ(made.exit_code, 0) << made.story();
  const Ended ended = lab_.attnlab({"plugin", "install", bundle("1.0.0", file_text(library))});
  EXPECT_NE(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("step 'kit' failed"), HasSubstr("ended with exit code 9")));
  for (const char* act : {"write: ", "read: ", "cut: ", "network: "}) {
    EXPECT_THAT(ended.err, AllOf(HasSubstr(act), Not(HasSubstr(std::string(act) + "DONE"))));
  }
  EXPECT_FALSE(fs::exists(lab_.at("outside")));
  EXPECT_EQ(file_text(lab_.at("secret")), "years of work");
  EXPECT_FALSE(fs::exists(lab_.plugins() + "/attention"));
}

}  // namespace
}  // namespace attnlab::testing::prepared_test
