// Results in one file: what is packed, and what its locks say.
#include "framework/sharing/result_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "framework/base/files.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_folder.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/result_locks.h"
#include "tests/support/compositions.h"
#include "tests/support/made_runs.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"
#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::result_bundle_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(ResultFiles, OfAStoredResultKeepTheMarkAndHaveNoLock) {
  const TempFolder temp;
  temp.write("runs/small/quest/0-12345678/config.yaml",
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: quest}\n");
  temp.write("runs/small/quest/0-12345678/stored.json",
             R"({"from": "kept/0.json", "identity": {"plugins": {}}})");
  RunFolder(temp / "runs/small/quest/0-12345678")
      .write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  const sharing::ResultFiles packed = sharing::result_files(temp / "runs", none, false);
  std::vector<std::string> names;
  for (const auto& file : packed.files) {
    names.push_back(file.path.substr(file.path.rfind('/') + 1));
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("config.yaml", "status.json", "stored.json"));
  EXPECT_THAT(packed.notes, ::testing::Contains(mentions("no lock", "stored result")));
}

TEST(ResultFiles, HoldRunsOfAnyNameUnderNumbers) {
  const TempFolder folder;
  const std::string label = "quest [dim = 8] ~ für 3";
  const RunFolder run(folder / ("runs/small/" + label + "/0-0123456789abcdef"));
  fs::create_directories(run.path() + "/evaluations");
  write_file(run.file("config.yaml"),
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: quest, as: '" + label + "'}\n");
  write_file(run.file("identity.json"), "{}");
  write_file(run.file("evaluations/swap~0.01-00.json"), "{}");
  write_environment(run);
  RunStatus status;
  status.state = RunState::done;
  status.metrics = {{"accuracy", 0.5}};
  run.write_status(status);
  const auto packed =
      sharing::result_files(folder / "runs", sharing::Store({folder / "c", folder / "s"}), false);
  const std::string bytes = sharing::write_archive(packed.files);
  std::map<std::string, std::string> files;
  sharing::read_archive(bytes, [&](sharing::ArchiveFile file) { files[file.path] = file.bytes; });
  EXPECT_EQ(files.count("runs/run-00001/identity.json"), 1U);
  EXPECT_EQ(files.count("runs/run-00001/evaluations/00001.json"), 1U);
  EXPECT_THAT(files.at("runs/run-00001/config.yaml"), HasSubstr(label));
}

/// A finished run below a folder "runs". @param more  of its configuration. @returns its folder
RunFolder write_run(const TempFolder& temp, std::int64_t seed = 0, const std::string& more = "") {
  const RunFolder run(temp / ("runs/small/quest/" + std::to_string(seed) + "-0123456789abcdef"));
  fs::create_directories(run.path());
  write_file(run.file("config.yaml"), "schema: 1\nname: small\nseeds: [" + std::to_string(seed) +
                                          "]\nattention: {use: quest}\n" + more);
  write_environment(run);
  run.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  return run;
}

std::vector<std::string> paths_of(const sharing::ResultFiles& packed) {
  std::vector<std::string> paths;
  for (const sharing::ArchiveFile& file : packed.files) paths.push_back(file.path);
  return paths;
}

TEST(ResultFiles, HoldTablesAndCheckpointsOnlyWhereAskedFor) {
  const TempFolder temp;
  const RunFolder run = write_run(temp);
  write_file(run.file("checkpoint.safetensors"), "parameters");
  write_file(run.file("best.safetensors"), "those of the best epoch");
  for (const char* name : {"table.md", "comparison.md", "comparison.json", "lock.json", "notes"}) {
    temp.write(std::string("runs/") + name, "of the suite");
  }
  temp.write("runs/table.json", "{}");
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  const auto without = paths_of(sharing::result_files(temp / "runs", none, false));
  EXPECT_THAT(without, IsSupersetOf({"tables/table.md", "tables/table.json", "tables/lock.json",
                                     "tables/comparison.md", "tables/comparison.json",
                                     "runs/run-00001/environment.json"}));
  EXPECT_THAT(without, Not(::testing::Contains(HasSubstr("safetensors"))));
  EXPECT_THAT(without, Not(::testing::Contains(HasSubstr("notes"))));
  const sharing::ResultFiles with = sharing::result_files(temp / "runs", none, true);
  std::map<std::string, std::string> bytes;
  for (const sharing::ArchiveFile& file : with.files) bytes[file.path] = file.bytes;
  EXPECT_EQ(bytes["runs/run-00001/checkpoint.safetensors"], "parameters");
  EXPECT_EQ(bytes["runs/run-00001/best.safetensors"], "those of the best epoch");
  EXPECT_EQ(bytes["tables/table.md"], "of the suite");
  EXPECT_EQ(with.files.size(), without.size() + 2);
}

TEST(ResultFiles, HoldNothingThatALinkLeadsTo) {
  const TempFolder temp;
  const RunFolder run = write_run(temp);
  const std::string secret = temp.write("secret", "of nobody else");
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  fs::create_symlink(secret, temp / "runs/table.md");
  EXPECT_THAT(message_of<DataError>([&] { sharing::result_files(temp / "runs", none, false); }),
              AllOf(StartsWith(temp / "runs/table.md"), mentions("cannot be packed", "is a link")));
  fs::remove(temp / "runs/table.md");
  const std::string evaluations = run.path() + "/evaluations";
  fs::create_directories(temp / "others");
  fs::create_directory_symlink(temp / "others", evaluations);
  EXPECT_THAT(message_of<DataError>([&] { sharing::result_files(temp / "runs", none, false); }),
              AllOf(StartsWith(evaluations), mentions("cannot be packed", "is a link")));
}

sharing::ResultFiles packed_with_checkpoints(const TempFolder& temp) {
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  return sharing::result_files(temp / "runs", none, true);
}

TEST(ResultFiles, SayWhichParametersAreNotThere) {
  const TempFolder temp;
  const RunFolder run = write_run(temp);
  const auto missing = ::testing::Contains(HasSubstr("is not there"));
  const auto names = [&](const std::string& file) {
    return ::testing::Contains(HasSubstr(run.file(file) + " is not there"));
  };
  EXPECT_THAT(packed_with_checkpoints(temp).notes, names("checkpoint.safetensors"));
  write_file(run.file("checkpoint.safetensors"), "parameters");
  EXPECT_THAT(packed_with_checkpoints(temp).notes, Not(missing));
  // Then its numbers are those of the best epoch.
  write_run(temp, 0, "train: {protocol: sound}\n");
  EXPECT_THAT(packed_with_checkpoints(temp).notes, names("best.safetensors"));
  write_file(run.file("best.safetensors"), "those of the best epoch");
  EXPECT_THAT(packed_with_checkpoints(temp).notes, Not(missing));
  run.write_status({RunState::diverged, 1, 1, 1, 2, {}, "the loss is nan"});
  fs::remove(run.file("best.safetensors"));
  EXPECT_THAT(packed_with_checkpoints(temp).notes, Not(missing)) << "it has no numbers";
}

TEST(ResultFiles, SayWhichEvaluationsHaveNoResult) {
  const TempFolder temp;
  const RunFolder run = write_run(temp, 0, "evaluate: {clean: {}, fog: {}, snow: {}, hail: {}}\n");
  EvaluationRecord record;
  record.hash = "0123456789abcdef";
  record.split = "test";
  for (const char* entry : {"snow", "hail"}) {
    record.entry = entry;
    record.done = record.entry == "snow";  // the other failed
    write_evaluation(run.path(), record);
  }
  EXPECT_THAT(packed_with_checkpoints(temp).notes,
              ::testing::Contains(mentions("no result: fog, hail", "attnlab eval", run.path())));
}

TEST(ResultFiles, SayThatRecordsOfOtherSuitesAreNotAmongThem) {
  const TempFolder temp;
  write_run(temp);
  const std::string suite = R"({"suite": "s", "baseline": "quest", )"
                            R"("runs": [{"folder": "small/quest/0-0123456789abcdef"}]})";
  temp.write("runs/suite.json", suite);
  const auto told = ::testing::Contains(mentions("not in the file", "attnlab suite pack"));
  EXPECT_THAT(packed_with_checkpoints(temp).notes, Not(told)) << "it is the suite's own folder";
  temp.write("runs/small/suite.json", suite);
  EXPECT_THAT(
      packed_with_checkpoints(temp).notes,
      ::testing::Contains(mentions(fs::canonical(temp / "runs/small").string(), "the record")));
}

/// A result, and the folder that it was unpacked in.
class UnpackedResult : public ::testing::Test {
 protected:
  UnpackedResult() {
    result_.sha256 = "abc";
    result_.files = {{"runs/run-00001/config.yaml", "name: small\n"},
                     {"runs/run-00001/status.json", "{}"},
                     {"tables/table.md", "| x |"}};
    unpack_result(result_, to_);
  }
  /// What is said where it is unpacked once more; empty: it is as it was.
  std::string refusal() const {
    try {
      unpack_result(result_, to_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  TempFolder folder_;
  sharing::Bundle result_;
  const std::string to_ = folder_ / "original";
};

TEST_F(UnpackedResult, IsTakenAgainWhereItIsAsItWas) {
  EXPECT_EQ(file_text(to_ + "/tables/table.md"), "| x |");
  EXPECT_EQ(refusal(), "");
  result_.sha256 = "def";
  EXPECT_THAT(refusal(), mentions("something else", "--out"));
}

TEST_F(UnpackedResult, IsRefusedWhereAFileWasAltered) {
  const std::string remedy = "remove " + to_ + " and repeat the command";
  for (const sharing::ArchiveFile& file : result_.files) {
    const std::string path = to_ + "/" + file.path;
    write_file(path, file.bytes + " ");
    EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr(path), HasSubstr(remedy)));
    fs::remove(path);
    EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr(path), HasSubstr(remedy)));
    write_file(path, file.bytes);
    EXPECT_EQ(refusal(), "");
  }
}

TEST_F(UnpackedResult, IsRefusedWhereARunGotMore) {
  fs::create_directories(to_ + "/runs/run-00001/evaluations");
  EXPECT_EQ(refusal(), "");
  const std::string more = to_ + "/runs/run-00001/evaluations/fog-00.json";
  write_file(more, "{}");
  EXPECT_THAT(refusal(), mentions(more, "not as it was unpacked"));
  fs::remove(more);
  write_file(to_ + "/runs/comparison.md", "of a reader");
  EXPECT_EQ(refusal(), "") << "it is not part of a run";
}

TEST_F(UnpackedResult, IsRefusedWhereAConfigurationNamesAFileOrTheEnvironment) {
  result_.sha256 = "def";
  result_.files.front().bytes = "name: small\nextends: /etc/hostname\n";
  result_.files.push_back({"runs/run-00002/config.yaml", "name: ${env:HOME}\n"});
  const std::string fresh = folder_ / "fresh";
  EXPECT_THAT(message_of<ConfigError>([&] { unpack_result(result_, fresh); }),
              ::testing::AllOf(HasSubstr("runs/run-00001/config.yaml:2:1: extends: "),
                               HasSubstr("runs/run-00002/config.yaml:1:7: ${env:HOME}: ")));
  EXPECT_FALSE(fs::exists(fresh));
}

TEST(ResultFiles, LeaveNoRunOutThatCannotBeRead) {
  const TempFolder temp;
  write_run(temp, 0);
  const RunFolder damaged = write_run(temp, 1);
  write_file(damaged.file("status.json"), "{");
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  EXPECT_THAT(
      message_of<DataError>([&] { sharing::result_files(temp / "runs", none, false); }),
      ::testing::AllOf(HasSubstr(damaged.path() + ": cannot be packed: "), HasSubstr("repair it")));
}

TEST(ResultFiles, LeaveNoEvaluationsOutThatCannotBeRead) {
  const TempFolder temp;
  const std::string closed = write_run(temp).file("evaluations");
  temp.write("runs/small/quest/0-0123456789abcdef/evaluations/fog-00.json", "{}");
  fs::permissions(closed, fs::perms::none);
  const Unprivileged user(temp.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  EXPECT_THAT(message_of<FileError>([&] { sharing::result_files(temp / "runs", none, false); }),
              mentions(closed, "Permission denied", "permissions"));
}

TEST(ResultFiles, HoldEvaluationsInTheOrderInWhichTheyWereWritten) {
  const TempFolder temp;
  const RunFolder run = write_run(temp);
  EvaluationRecord record;
  record.entry = "fog";
  record.split = "test";
  record.done = true;
  const std::vector<std::string> oldest_first = {"2222222222222222", "0000000000000000",
                                                 "1111111111111111"};
  const auto now = fs::file_time_type::clock::now();
  for (std::size_t i = 0; i < oldest_first.size(); ++i) {
    record.hash = oldest_first[i];
    record.written = 1'700'000'000'000'000 + static_cast<std::int64_t>(i);
    write_evaluation(run.path(), record);
    // A copy's files have other times.
    fs::last_write_time(run.file(evaluation_file("fog", record.hash)), now - std::chrono::hours(i));
  }
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  std::vector<std::string> packed;
  for (const auto& file : sharing::result_files(temp / "runs", none, false).files) {
    if (file.path.find("evaluations/") == std::string::npos) continue;
    packed.push_back(nlohmann::json::parse(file.bytes).at("hash").get<std::string>());
  }
  EXPECT_EQ(packed, oldest_first);
}

class PackedPlugins : public InstallTest {
 protected:
  /// What a pack holds of a run whose lock names a bundle for its evaluation fog.
  sharing::ResultFiles packed(const std::string& sha256) const {
    const RunFolder run = write_run(folder_);
    write_file(run.file("lock.json"),
               R"({"framework":{"revision":"r"},"parts":[],"data":[],"evaluations":{"fog":)"
               R"({"parts":[{"kind":"attention","id":"acme/sharp","version":"1.0.0",)"
               R"("bundle":{"sha256":")" +
                   sha256 + R"("}}]}}})");
    return sharing::result_files(folder_ / "runs", store(), false);
  }
};

TEST_F(PackedPlugins, AreThoseOfEvaluationsToo) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  const std::string sha256 = install(bytes).bundle;
  EXPECT_THAT(paths_of(packed(sha256)),
              ::testing::Contains("plugins/sharp-" + sha256.substr(0, 12) + ".attnlab"));
  EXPECT_THROW(packed("another"), PluginError) << "it is installed no more";
}

TEST_F(PackedPlugins, AreRefusedWhereTheirBundleWasAltered) {
  const sharing::Installed one = install(bundle_of("1.0.0", {"here"}));
  write_file(one.bundle_file(), read_text(one.bundle_file()) + "x");
  EXPECT_THAT(message_of<sharing::TrustError>([&] { packed(one.bundle); }),
              ::testing::AllOf(HasSubstr(one.bundle_file()),
                               HasSubstr("attnlab plugin remove acme/sharp")));
}

TEST_F(PackedPlugins, AreSaidToBeUnknownWhereAnEarlierAttnlabEvaluated) {
  const std::string sha256 = install(bundle_of("1.0.0", {"here"})).bundle;
  EvaluationRecord record;
  record.hash = "0123456789abcdef";
  record.split = "test";
  record.done = true;
  for (const char* entry : {"fog", "snow", "hail", "hail/1"}) {
    record.entry = entry;
    write_evaluation(write_run(folder_).path(), record);
  }
  const auto notes = packed(sha256).notes;
  EXPECT_THAT(notes, ::testing::ElementsAre(HasSubstr("evaluation hail/1 used"),
                                            HasSubstr("evaluation snow used")));
}

std::string lock_naming(const std::string& sha256) {
  return R"({"format":1,"framework":{"version":"0.1.0","revision":"abc"},"data":["d1"],"parts":[
    {"kind":"attention","id":"acme/sharp","version":"1.0.0","bundle":{"sha256":")" +
         sha256 + R"("}},{"kind":"model","id":"attnlab/vit","version":"1.0.0"}]})";
}

TEST(ResultLocks, SayWhichBundlesTheRunsUsed) {
  sharing::ResultLocks locks;
  locks.add(lock_naming("abc"));
  locks.add(lock_naming("abc"));
  EXPECT_EQ(locks.parts.size(), 2U);
  EXPECT_TRUE(locks.names_bundle("abc"));
  EXPECT_FALSE(locks.names_bundle("def"));
  EXPECT_EQ(locks.data, std::set<std::string>{"d1"});
  EXPECT_THROW(locks.add("{}"), sharing::BundleError);
  EXPECT_THROW(locks.add("{"), sharing::BundleError);
  EXPECT_THROW(locks.add(std::string(100'000, '[')), sharing::BundleError);
}

TEST(ResultLocks, SayWhatEvaluationsUsed) {
  std::string text = lock_naming("abc");
  text.insert(text.rfind('}'),
              R"(,"evaluations":{"fog":{"data":"d2","parts":[{"kind":"task","id":"acme/knn",)"
              R"("version":"2.0.0","bundle":{"sha256":"def"}}]},"later":{"parts":[]}})");
  sharing::ResultLocks locks;
  locks.add(text);
  EXPECT_TRUE(locks.names_bundle("def"));
  EXPECT_EQ(locks.data, std::set<std::string>{"d1"}) << "the run's own are apart";
  EXPECT_EQ(locks.evaluations, (std::map<std::string, std::string>{{"fog", "d2"}, {"later", ""}}));
  text.replace(text.find(R"({"parts":[]})"), 12, "[]");
  EXPECT_THROW(locks.add(text), sharing::BundleError);
}

TEST(ResultLocks, RefusePluginsThatNoRunUsed) {
  const Lab acme("acme");
  sharing::Bundle result;
  result.contents = made_contents("borealis/two");
  result.files = {{"plugins/sharp.attnlab", signed_bundle(acme)}, {"runs/run-00001/x", ""}};
  sharing::ResultLocks locks;
  locks.add(lock_naming(sharing::sha256(result.files[0].bytes)));
  EXPECT_NO_THROW(refuse_plugins_without_lock(result, locks));
  result.files.push_back({"plugins/other.attnlab", signed_bundle(acme, "1.0.1")});
  EXPECT_THROW(refuse_plugins_without_lock(result, locks), sharing::TrustError);
}

}  // namespace
}  // namespace attnlab::testing::result_bundle_test
