// Names of files and words of plugins, logs and suites that would move a terminal's cursor, through
// every command that reads them.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"
#include "tests/support/made_library.h"

namespace attnlab::testing::hostile_text_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Clears the screen (by C0 and by C1), turns the order of characters.
const std::string kHostile =
    "x\x1b[2J\xc2\x9b"
    "2J\xe2\x80\xae"
    "y\xe2\x81\xa6z\xd8\x9c\xe2\x80\x8f";

/// What of a text a terminal would obey; found byte by byte, not with the functions under test.
std::string obeyed(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = [&](std::size_t k) {
      return static_cast<unsigned char>(i + k < text.size() ? text[i + k] : 'x');
    };
    const bool ends_line = at(0) == '\n' || (at(0) == '\r' && at(1) == '\n');
    const bool c0 = at(0) < 0x20 && !ends_line && at(0) != '\t';
    const bool c1 = at(0) == 0xc2 && at(1) >= 0x80 && at(1) <= 0x9f;
    const bool turn = at(0) == 0xe2 && ((at(1) == 0x80 && at(2) >= 0xa8 && at(2) <= 0xae) ||
                                        (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9));
    const bool mark = (at(0) == 0xd8 && at(1) == 0x9c) ||
                      (at(0) == 0xe2 && at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f));
    if (c0 || c1 || turn || mark || at(0) == 0x7f) return text.substr(i < 40 ? 0 : i - 40, 80);
  }
  return "";
}

class HostileText : public Workspace {
 protected:
  HostileText() {
    folder_.write(place() + "/tiny.yaml", "name: tiny\n" + file_text(at("tiny.yaml")));
    const std::string plugin = file_text(broken_plugins() + "/hangs_in_forward.so");
    folder_.write(plugins() + "/sound.so", plugin);
    json manifest = {{"id", "lab/trait"}, {"kind", "attention"}, {"version", "1"}, {"summary", "s"},
                     {"citation", "c"},   {"licence", "l"},      {"takes", {}},    {"gives", {}},
                     {"needs", {}},       {"options", {}},       {"stamp", {}}};
    for (const char* list : {"takes", "gives", "needs", "options"}) manifest[list] = json::array();
    manifest["traits"] = {{kHostile + "\nforged trait", true}};
    folder_.write(plugins() + "/trait.so", library(manifest));
    manifest["traits"] = {{"causal", true}};
    manifest["stamp"] = {{"contract", kHostile + "\nforged stamp"}};
    folder_.write(plugins() + "/stamp.so", library(manifest));
  }
  static std::string library(const json& manifest) {
    return library_with_section(".attnlab.manifest", manifest.dump());
  }
  static std::string place() { return "at" + kHostile; }
  static std::string plugins() { return "plugins" + kHostile; }

  /// Runs it; whatever it says, a terminal obeys none of it.
  Ended harmless(const Words& words) const {
    const Ended ended = attnlab(words, {{"ATTNLAB_PLUGIN_PATH", at(plugins())}});
    std::string command = "attnlab";
    for (const std::string& word : words) command += " " + word;
    EXPECT_EQ(ended.signal, 0) << ended.story();
    EXPECT_EQ(obeyed(ended.out), "") << command;
    EXPECT_EQ(obeyed(ended.err), "") << command;
    EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("\nforged"))) << command;
    return ended;
  }
  Ended harmless_and_done(const Words& words) const {
    const Ended ended = harmless(words);
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return ended;
  }
};

TEST_F(HostileText, OfPluginsMovesNoCursor) {
  EXPECT_THAT(harmless_and_done({"list", "--explain"}).out,
              AllOf(HasSubstr("plugins" + std::string("x\\x1b[2J\\u009b2J\\u202ey\\u2066z")),
                    HasSubstr("cannot be a name"), HasSubstr("another host")));
  harmless_and_done({"list"});
  const json listed = json::parse(harmless_and_done({"list", "--json"}).out);
  EXPECT_EQ(listed.at("refused").size(), 2U);
  EXPECT_THAT(listed.at("refused").at(0).at("path").get<std::string>(), HasSubstr(kHostile))
      << "JSON means what it meant";
  EXPECT_THAT(harmless_and_done({"describe", "hangs_in_forward"}).out, HasSubstr("\\x1b[2J"));
  const json described =
      json::parse(harmless_and_done({"describe", "hangs_in_forward", "--json"}).out);
  EXPECT_THAT(described.at("path").get<std::string>(), HasSubstr(kHostile));
  EXPECT_EQ(harmless({"describe", kHostile}).exit_code, 2);
  EXPECT_EQ(harmless({"plugin", "test", plugins() + "/trait.so"}).exit_code, 2);
  EXPECT_EQ(harmless({kHostile}).exit_code, 2);
}

TEST_F(HostileText, NamesThatAreNoUtf8KeepNothingFromBeingWritten) {
  const std::string folder = "odd\xff";
  fs::create_directory(at(folder));
  fs::create_symlink(build_tree() + "/lib/attnlab/plugins/attention/quest.so",
                     at(folder + "/quest.so"));
  const Environment odd = {{"ATTNLAB_PLUGIN_PATH", at(folder)}};
  const std::string shown = "odd\xef\xbf\xbd/quest.so";
  const Ended listed = must({"list", "--json"}, odd);
  EXPECT_THAT(listed.out, HasSubstr(shown));
  EXPECT_TRUE(json::accept(listed.out));
  const json described = json::parse(must({"describe", "quest", "--json"}, odd).out);
  EXPECT_THAT(described.at("path").get<std::string>(), HasSubstr(shown));
  EXPECT_THAT(must({"describe", "quest"}, odd).out, HasSubstr("odd\\xff/quest.so"));
  must({"run", "tiny.yaml", "train.epochs=1", "attention=quest"}, odd);
  EXPECT_THAT(file_text(run_folder("tiny/quest") + "/environment.json"), HasSubstr(shown));
  must({"report", "runs"}, odd);
}

TEST_F(HostileText, OfConfigurationsMovesNoCursor) {
  const std::string file = place() + "/tiny.yaml", suite = place() + "/suite.yaml";
  folder_.write(suite,
                "schema: 1\nname: s\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0]\n"
                "warning: \"w\\x1b[2J\\x9b\\u202e\\nforged\"\n");
  folder_.write(place() + "/named.yaml", "schema: 1\nname: \"n\\x1b[2J\\x9b\\u202e\"\n");
  folder_.write(place() + "/wrong.yaml",
                "schema: 1\nextends: tiny.yaml\ntrain: {\"e\\x1b[2J\\x9b\\u202e\": 3}\n");
  harmless_and_done({"validate", file, suite});
  harmless_and_done({"config", "show", file});
  harmless_and_done({"config", "show", file, "--origins"});
  harmless_and_done({"config", "explain", file});
  harmless_and_done({"config", "explain", file, "--json"});
  harmless_and_done({"config", "diff", file, file, "train.epochs=3"});
  harmless_and_done({"config", "diff", file, file, "train.epochs=3", "--json"});
  folder_.write(place() + "/lines.yaml",
                "extends: tiny.yaml\n\"k\\nforged\": \"${name}\\nforged\"\n");
  EXPECT_THAT(harmless_and_done({"config", "explain", place() + "/lines.yaml"}).out,
              HasSubstr("k forged = "));
  folder_.write(place() + "/other.yaml", "extends: suite.yaml\n\"k\\nforged\": 1\n");
  EXPECT_THAT(harmless_and_done({"config", "diff", suite, place() + "/other.yaml"}).out,
              HasSubstr("k forged\n"));
  harmless_and_done({"suite", suite, "--dry-run"});
  harmless_and_done({"suite", suite, "--out", "suites"});
  const std::string table = file_text(at("suites/s/table.md"));
  EXPECT_THAT(table, HasSubstr("w\\x1b[2J"));
  EXPECT_THAT(table, Not(HasSubstr("\nforged")));
  EXPECT_EQ(obeyed(table), "") << "for those who show the file on a terminal";
  harmless_and_done({"sweep", file, "train.epochs=1,2", "--dry-run"});
  EXPECT_EQ(harmless({"validate", place() + "/named.yaml"}).exit_code, 2);
  EXPECT_EQ(harmless({"validate", place() + "/wrong.yaml"}).exit_code, 2);
  EXPECT_EQ(harmless({"validate", kHostile}).exit_code, 2);
  EXPECT_EQ(harmless({"validate", "a\nforged: valid"}).exit_code, 2);
  harmless({"config", "explain", place() + "/wrong.yaml"});
  EXPECT_EQ(harmless({"sweep", file, "--name", kHostile, "--dry-run"}).exit_code, 2);
}

TEST_F(HostileText, OfRunsMovesNoCursor) {
  const std::string file = place() + "/tiny.yaml", out = "runs" + kHostile;
  for (const char* attention : {"standard", "quest"}) {
    harmless_and_done(
        {"run", file, "train.epochs=1", std::string("attention=") + attention, "--out", out});
  }
  harmless_and_done({"run", file, "train.epochs=1", "--out", out, "--progress", "json"});
  harmless_and_done({"compare", out});
  harmless_and_done({"compare", out, "--json"});
  harmless_and_done({"compare", out, "--format", "md"});
  for (const char* format : {"html", "md", "latex", "csv", "json"}) {
    harmless_and_done({"report", out, "--format", format, "--output", "-"});
  }
  harmless_and_done({"report", out});
  harmless({"page", out});
  harmless({"cite", out});
  harmless({"card", "quest", "--runs", out, "--no-test"});
  harmless_and_done({"card", "quest", "--runs", out, "--no-test", "--output", "card.md"});
  EXPECT_THAT(file_text(at("card.md")), HasSubstr("## Results (runsx\\x1b[2J"));
  EXPECT_EQ(obeyed(file_text(at("card.md"))), "");
  harmless_and_done({"runs", "store", out, "--to", "stored" + kHostile});
  const std::string run = fs::directory_iterator(at(out + "/tiny/quest"))->path();
  harmless_and_done({"eval", run});
  harmless({"show", run, "--examples", "1"});
  harmless({"config", "explain", run});
  EXPECT_EQ(harmless({"sample", run}).exit_code, 2);
  EXPECT_EQ(harmless({"detect", run, "--image", kHostile}).exit_code, 2);
  // Its status and log, by another hand; a status of an earlier version has no check.
  json status = status_of(run);
  for (const char* key : {"check", "files", "lines"}) status.erase(key);
  status["state"] = "failed";
  status["reason"] = kHostile + "\nforged reason";
  write_file(run + "/status.json", status.dump());
  write_file(run + "/log.txt", "first\n" + kHostile + std::string(100'000, 'l') + "\n");
  const Ended told = harmless_and_done({"status", out});
  EXPECT_THAT(told.out, AllOf(HasSubstr("      | x\\x1b[2J"), HasSubstr("forged reason")));
  EXPECT_LT(told.out.size(), 20'000U) << "a line is cut";
  const json runs = json::parse(harmless_and_done({"status", out, "--json"}).out).at("runs");
  EXPECT_THAT(runs.dump(), HasSubstr(kHostile.substr(0, 1) + "\\u001b[2J"));
  harmless({"compare", out, "--allow-differences"});
  harmless({"report", out});
  harmless_and_done({"report", out, "--format", "md", "--output", "report.md"});
  EXPECT_THAT(file_text(at("report.md")), HasSubstr("x\\x1b[2J"));
  EXPECT_EQ(obeyed(file_text(at("report.md"))), "");
  write_file(run + "/status.json", kHostile);
  EXPECT_THAT(harmless({"status", out}).exit_code, AnyOf(0, 2));
  harmless({"compare", out});
  harmless({"runs", "store", out, "--to", "stored" + kHostile});
}

}  // namespace
}  // namespace attnlab::testing::hostile_text_test
