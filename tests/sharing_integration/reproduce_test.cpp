// attnlab suite pack and reproduce through the program: plugins that make place and come back, what
// is missing, and how it ends.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_folder.h"
#include "framework/sharing/bundle.h"
#include "tests/sharing_integration/two_labs.h"

namespace attnlab::testing::reproduce_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using sharing::ArchiveFile;
using sharing::Bundle;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kVersion = "1.7.3";  // stands nowhere else in a library

constexpr const char* kExperiment = R"(schema: 1
name: small
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: sharper}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 64, test: 32}
train: {epochs: 1, batch_size: 16, log_every: 1, threads: 1}
evaluate:
  noisy: {set: {dataset: {noise: 3}}}
  blunt: {set: {attention: blunter}}
)";

/// Another text of the same length wherever one stands: a library is still one.
void replace_all(std::string& bytes, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size()) {
    bytes.replace(at, from.size(), to);
  }
}

/// A bundle like another, of another version or name. (Each that is built takes a minute.)
std::string bundle_like(Bundle bundle, const std::string& version, const std::string& name) {
  for (ArchiveFile& file : bundle.files) {
    for (std::string* text : {&file.path, &file.bytes}) {
      replace_all(*text, kVersion, version);
      replace_all(*text, "sharper", name);
    }
  }
  for (sharing::Binary& binary : bundle.contents.binaries) {
    replace_all(binary.path, "sharper", name);
  }
  bundle.contents.version = version;
  bundle.contents.id.name = name;
  replace_all(bundle.contents.citation, "sharper", name);
  return write_bundle(bundle.contents, bundle.files, std::nullopt);
}

/// One installation; bundles of acme/sharper; what borealis measured with it and packed.
class Reproduce : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    const Ended ended =
        run({{ATTNLAB_TEST_CMAKE, "--install", build_tree(), "--prefix", *folder_ / "prefix"}});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
    const LabMachine acme = lab("acme");
    acme.must({"new", "attention", "sharper", "--lab", "acme"});
    std::string source = file_text(acme.at("sharper/sharper.cpp"));
    replace_all(source, "\"0.1.0\"", "\"" + std::string(kVersion) + "\"");
    acme.write("sharper/sharper.cpp", source);
    acme.must({"plugin", "pack", "sharper", "--binary", "--unsigned", "--no-kit", "--time-limit",
               "1800", "--jobs", "2"});
    const LabMachine borealis = lab("borealis");
    install(borealis, kVersion);
    install(borealis, kVersion, "blunter");
    borealis.write("small.yaml", kExperiment);
    borealis.must({"run", "small.yaml"});
    borealis.must({"suite", "pack", "runs", "--lab", "borealis", "--name", "small"});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  /// A lab that lets in what is unsigned, and knows nobody.
  static LabMachine lab(const std::string& name) {
    LabMachine made(*folder_ / "prefix", *folder_ / name);
    made.write(".config/attnlab/policy.yaml", "unsigned: allow\nfirst_use: allow\n");
    return made;
  }
  static Bundle packed_plugin() {
    return sharing::read_bundle(*folder_ / "acme/sharper-1.7.3.attnlab");
  }
  static void install(const LabMachine& lab, const std::string& version,
                      const std::string& name = "sharper") {
    install_bytes(lab, bundle_like(packed_plugin(), version, name));
  }
  static void install_bytes(const LabMachine& lab, const std::string& bytes) {
    lab.write("given.attnlab", bytes);
    const Ended ended = lab.must({"plugin", "install", "given.attnlab", "--no-kit"});
    EXPECT_THAT(ended.out, HasSubstr("its binary"));
  }
  static Bundle result() { return sharing::read_bundle(*folder_ / "borealis/small-1.0.0.attnlab"); }
  /// Gives a lab the result, with some of it changed. (Its runs are what a machine with other
  /// numbers, data or plugins would have packed.)
  static void give(
      const LabMachine& lab, const std::string& name,
      const std::function<void(Bundle&)>& change = [](Bundle&) {}) {
    Bundle bundle = result();
    change(bundle);
    lab.write(name, write_bundle(bundle.contents, bundle.files, std::nullopt));
  }
  static Words words(const std::string& file, Words more = {}) {
    for (const char* word : {"--no-kit", "--time-limit", "1800"}) more.emplace_back(word);
    more.insert(more.begin(), {"reproduce", file});
    return more;
  }
  static Ended reproduce(const LabMachine& lab, const std::string& file, Words more = {}) {
    return lab.attnlab(words(file, std::move(more)));
  }
  /// Folders of the run of small.attnlab, as it was repeated; several where plugins differed.
  static Words repeated(const LabMachine& lab) {
    Words runs;
    std::error_code none_yet;
    const std::string below = lab.at("reproduced/small/runs/run-00001/small/sharper");
    for (const auto& run : fs::directory_iterator(below, none_yet)) runs.push_back(run.path());
    return runs;
  }
  static std::string& file(Bundle& bundle, const std::string& path) {
    for (ArchiveFile& one : bundle.files) {
      if (one.path == path) return one.bytes;
    }
    throw Error("no " + path);
  }
  static void change_lock(Bundle& bundle, const std::function<void(json&)>& change) {
    std::string& text = file(bundle, "runs/run-00001/lock.json");
    json lock = json::parse(text);
    change(lock);
    text = lock.dump();
  }
  /// Changes a packed run, whose status is then as the program writes it, with its checks.
  static void change_run(Bundle& bundle,
                         const std::function<void(const RunFolder&, RunStatus&)>& change) {
    const TempFolder there;
    const std::string run = "runs/run-00001/";
    const std::vector<std::string> names = {"status.json", "metrics.jsonl", "config.yaml",
                                            "identity.json", "environment.json"};
    for (const std::string& name : names) there.write(name, file(bundle, run + name));
    const RunFolder folder(there.path());
    RunStatus status = folder.status();
    change(folder, status);
    folder.write_status(status);
    for (const std::string& name : names) file(bundle, run + name) = file_text(there / name);
  }
  static void drop_plugins(Bundle& bundle) {
    std::erase_if(bundle.files,
                  [](const ArchiveFile& one) { return one.path.starts_with("plugins/"); });
  }
  static std::string installed(const LabMachine& lab) {
    return lab.must({"list", "--installed"}).out;
  }

 private:
  inline static TempFolder* folder_ = nullptr;
};

TEST_F(Reproduce, PacksAndCitesWhatOnlyAnEvaluationUsed) {
  std::vector<std::string> paths;
  for (const ArchiveFile& one : result().files) paths.push_back(one.path);
  EXPECT_THAT(paths, Contains(StartsWith("plugins/blunter-")));
  EXPECT_THAT(paths, Contains(StartsWith("plugins/sharper-")));
  Bundle bundle = result();
  const json lock = json::parse(file(bundle, "runs/run-00001/lock.json"));
  EXPECT_EQ(lock.at("evaluations").at("blunt").at("parts").at(0).at("id"), "acme/blunter");
  EXPECT_FALSE(lock.at("evaluations").at("noisy").at("data").get<std::string>().empty());
  EXPECT_NE(lock.at("evaluations").at("noisy").at("data"), lock.at("data").at(0));
  EXPECT_THAT(lab("borealis").must({"cite", "runs"}).out,
              AllOf(HasSubstr("acme: sharper"), HasSubstr("acme: blunter")));

  // Who has neither gets both, and the same numbers.
  const LabMachine fresh = lab("fresh");
  give(fresh, "small.attnlab");
  const Ended ended = reproduce(fresh, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, AllOf(HasSubstr("noisy/accuracy"), HasSubstr("blunt/accuracy"),
                               HasSubstr("identical"), Not(HasSubstr("DIFFERS"))));
  EXPECT_THAT(file_text(fresh.at("reproduced/small/reproduction.txt")), HasSubstr("train_loss"));
  EXPECT_THAT(installed(fresh), AllOf(HasSubstr("acme/sharper"), HasSubstr("acme/blunter")));
}

TEST_F(Reproduce, BringsTheUsersOwnVersionBack) {
  const LabMachine own = lab("own");
  install(own, "1.6.3");
  install(own, "1.8.3");
  give(own, "small.attnlab");
  const Ended refused = reproduce(own, "small.attnlab");
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
  EXPECT_THAT(refused.err, HasSubstr("1.8.3 was installed here"));
  EXPECT_THAT(installed(own), HasSubstr("1.8.3"));

  const Ended swapped = reproduce(own, "small.attnlab", {"--allow-downgrade"});
  EXPECT_EQ(swapped.exit_code, 0) << swapped.story();
  EXPECT_THAT(swapped.err,
              mentions("the place of acme/sharper 1.8.3", "acme/sharper 1.8.3 is in use again"));
  EXPECT_THAT(swapped.out, HasSubstr("identical"));
  EXPECT_THAT(installed(own), AllOf(HasSubstr("1.8.3"), Not(HasSubstr("acme/sharper 1.7.3"))));
  EXPECT_THAT(own.must({"plugin", "rollback", "sharper"}).out,
              mentions("1.6.3 is in use", "instead of 1.8.3"));
}

TEST_F(Reproduce, EndsWhatAKilledCallLeftInUse) {
  const LabMachine own = lab("killed");
  install(own, "1.6.3");
  install(own, "1.8.3");
  const fs::path entry = fs::canonical(own.plugins() + "/attention/sharper.so").parent_path();
  json record = json::parse(file_text((entry / "record.json").string()));
  record["for_now"] = true;  // another result's, in the place of 1.6.3
  write_file((entry / "record.json").string(), record.dump());
  EXPECT_THAT(installed(own), HasSubstr("attnlab plugin rollback acme/sharper"));
  give(own, "small.attnlab");
  {
    const FileLock running((entry / "for_now.lock").string());
    const Ended refused = reproduce(own, "small.attnlab", {"--allow-downgrade"});
    EXPECT_EQ(refused.exit_code, 2) << refused.story();
    EXPECT_THAT(refused.err, mentions("acme/sharper 1.8.3 is in use", "another attnlab reproduce"));
  }
  EXPECT_THAT(installed(own), HasSubstr("1.8.3"));

  const Ended ended = reproduce(own, "small.attnlab", {"--allow-downgrade"});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.err,
              mentions("acme/sharper 1.8.3 was left", "killed call",
                       "the place of acme/sharper 1.6.3", "acme/sharper 1.6.3 is in use again"));
  EXPECT_THAT(installed(own), AllOf(HasSubstr("1.6.3"), Not(HasSubstr("plugin rollback"))));
}

TEST_F(Reproduce, GoesOnWithARunThatWasInterrupted) {
  const LabMachine again = lab("again");
  give(again, "small.attnlab");
  const Ended first = reproduce(again, "small.attnlab");
  EXPECT_EQ(first.exit_code, 0) << first.story();
  const std::string run = repeated(again).at(0);
  call_interrupted(run);
  const Ended ended = reproduce(again, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, AllOf(HasSubstr("identical"), Not(HasSubstr("could be run"))));
  EXPECT_EQ(status_of(run).at("state"), "done");
}

TEST_F(Reproduce, RepeatsAnEvaluationThatFailedOrWasKilled) {
  const LabMachine again = lab("again_evaluated");
  give(again, "small.attnlab");
  const Ended first = reproduce(again, "small.attnlab");
  EXPECT_EQ(first.exit_code, 0) << first.story();
  const std::string run = repeated(again).at(0);
  for (EvaluationRecord& record : read_evaluations(run).records) {
    if (record.entry != "noisy") continue;
    record.done = false;  // as a process leaves it that is killed in the middle
    record.reason = "the process ended during this evaluation";
    record.metrics.clear();
    write_evaluation(run, record);
  }
  const Ended ended = reproduce(again, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.err, mentions("small/sharper/0: evaluating again", "failed before"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("noisy/accuracy"), Not(HasSubstr("DIFFERS"))));
}

TEST_F(Reproduce, TakesTheRunOfThePluginsInUseWhereTwoAreThere) {
  const LabMachine two = lab("two");
  install(two, "1.8.3");
  give(two, "small.attnlab");
  const Ended own = reproduce(two, "small.attnlab", {"--allow-other-bundles"});
  EXPECT_EQ(own.exit_code, 0) << own.story();
  ASSERT_EQ(repeated(two).size(), 1U);
  const RunFolder of_own(repeated(two).at(0));
  RunStatus status = of_own.status();
  status.metrics.at("accuracy") += 0.25;
  of_own.write_status(status);

  const Ended swapped = reproduce(two, "small.attnlab", {"--allow-downgrade"});
  EXPECT_EQ(swapped.exit_code, 0) << swapped.story();
  EXPECT_THAT(swapped.out, AllOf(HasSubstr("identical"), Not(HasSubstr("DIFFERS"))));
  EXPECT_EQ(repeated(two).size(), 2U);
  // Not the newest one: that is of the plugin that is not in use now.
  const Ended again = reproduce(two, "small.attnlab", {"--allow-other-bundles"});
  EXPECT_EQ(again.exit_code, 1) << again.story();
  EXPECT_THAT(again.out, HasSubstr("DIFFERS"));
  EXPECT_EQ(repeated(two).size(), 2U);
}

TEST_F(Reproduce, BeginsAnewWhereACallWasKilledBeforeItsFirstFile) {
  const LabMachine empty = lab("begun");
  give(empty, "small.attnlab");
  fs::create_directories(empty.at("reproduced/small/runs/run-00001/small/sharper/0-00000000"));
  const Ended ended = reproduce(empty, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
}

TEST_F(Reproduce, LeavesAPluginToACallThatIsJustPuttingItIntoUse) {
  const LabMachine own = lab("turns");
  install(own, "1.6.3");
  install(own, "1.8.3");
  give(own, "small.attnlab");
  // Another call, for another result: it has put 1.8.3 into use, and has not locked it yet.
  const fs::path entry = fs::canonical(own.plugins() + "/attention/sharper.so").parent_path();
  json record = json::parse(file_text((entry / "record.json").string()));
  record["for_now"] = true;
  write_file((entry / "record.json").string(), record.dump());
  std::optional<FileLock> turn(own.plugins() + "/installed/for_now.lock");
  ASSERT_EQ(turn->state(), FileLock::State::held);

  Invocation second = own.invocation(words("small.attnlab", {"--allow-downgrade"}));
  const Words shell = {"bash", "-c", "exec \"$@\" 2>told.txt", "shell"};
  second.words.insert(second.words.begin(), shell.begin(), shell.end());
  Process process(second);
  const auto told = [&] { return file_text(own.at("told.txt")); };
  ASSERT_TRUE(wait_for([&] {
    return !process.running() || told().find("into use; waiting for it") != std::string::npos;
  }));
  EXPECT_THAT(installed(own), HasSubstr("1.8.3"));
  const FileLock running((entry / "for_now.lock").string());
  turn.reset();
  EXPECT_EQ(process.wait().exit_code, 2) << told();
  EXPECT_THAT(told(), mentions("waiting", "1.8.3 is in use", "another attnlab reproduce"));
  EXPECT_THAT(installed(own), HasSubstr("1.8.3"));
}

TEST_F(Reproduce, EndsWithItsOwnCodeWhereItIsInterrupted) {
  const LabMachine busy = lab("busy");
  install(busy, "1.8.3");
  give(busy, "small.attnlab", [](Bundle& bundle) {
    change_run(bundle, [](const RunFolder& run, RunStatus&) {
      const std::string path = run.file("config.yaml");
      std::string text = file_text(path);
      replace_all(text, "\n  epochs: 1\n", "\n  epochs: 1000000\n");
      write_file(path, text);
    });
  });
  Process process(busy.invocation(words("small.attnlab", {"--allow-downgrade"})));
  const auto trains = [&] {
    const Words runs = repeated(busy);
    return std::any_of(runs.begin(), runs.end(), [](const std::string& run) {
      return !file_text(run + "/metrics.jsonl").empty();
    });
  };
  ASSERT_TRUE(wait_for([&] { return !process.running() || trains(); }));
  process.send(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_THAT(ended.err, mentions("interrupted", "the same command goes on",
                                  "acme/sharper 1.8.3 is in use again"));
  EXPECT_EQ(status_of(repeated(busy).at(0)).at("state"), "interrupted");
}

TEST_F(Reproduce, ShowsForeignNamesOnOneLine) {
  const LabMachine odd = lab("odd");
  give(odd, "small.attnlab", [](Bundle& bundle) {
    change_run(bundle, [](const RunFolder& run, RunStatus&) {
      const std::string path = run.file("config.yaml");
      std::string text = file_text(path);
      replace_all(text, "\nname: small\n", "\nname: \"s\\x1b[2J\\n# forged\"\n");
      write_file(path, text);
    });
  });
  const Ended ended = reproduce(odd, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("running s\\x1b[2J # forged/sharper/0\n"));
  const std::string report = file_text(odd.at("reproduced/small/reproduction.txt"));
  for (const std::string& text : {ended.err, ended.out, report}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\n# forged"))));
  }
}

TEST_F(Reproduce, SaysBeforeAllWorkThatARunBeginsWithAnother) {
  const LabMachine tuned = lab("tuned");
  give(tuned, "small.attnlab", [](Bundle& bundle) {
    change_run(bundle, [](const RunFolder& run, RunStatus&) {
      const std::string path = run.file("config.yaml");
      write_file(path, file_text(path) + "init: {experiment: pretraining}\n");
    });
  });
  const Ended ended = reproduce(tuned, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err, mentions("finished run of 'pretraining'", "init.experiment",
                                  "small/original/runs/run-00001/config.yaml --out DIR"));
  EXPECT_THAT(installed(tuned), HasSubstr("no plugin is installed"));
}

TEST_F(Reproduce, TakesAnotherBundleOfTheVersionOnlyWhereAskedTo) {
  const LabMachine other = lab("other");
  Bundle bundle = packed_plugin();
  file(bundle, "source/README.md") += "\nAnother one.\n";
  const std::string bytes = write_bundle(bundle.contents, bundle.files, std::nullopt);
  install_bytes(other, bytes);
  const std::string sha256 = sharing::parse_bundle(bytes).sha256;
  give(other, "small.attnlab");
  const Ended refused = reproduce(other, "small.attnlab");
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
  EXPECT_THAT(refused.err, HasSubstr("another bundle"));

  const Ended own = reproduce(other, "small.attnlab", {"--allow-other-bundles"});
  EXPECT_EQ(own.exit_code, 0) << own.story();
  EXPECT_THAT(own.err, Not(HasSubstr("the place of acme/sharper")));
  EXPECT_THAT(own.out, mentions("note: attention acme/sharper 1.7.3: ", "runs used bundle",
                                "here is bundle " + sha256.substr(0, 12)));

  const Ended swapped = reproduce(other, "small.attnlab", {"--allow-downgrade"});
  EXPECT_EQ(swapped.exit_code, 0) << swapped.story();
  EXPECT_THAT(swapped.err, HasSubstr("the place of acme/sharper"));
  EXPECT_THAT(other.must({"list", "--installed", "--json"}).out, HasSubstr(sha256));

  // Where the file does not hold it, the lock holds all the same.
  give(other, "bare.attnlab", drop_plugins);
  const Ended bare = reproduce(other, "bare.attnlab", {"--out", "bare"});
  EXPECT_EQ(bare.exit_code, 2) << bare.story();
  EXPECT_THAT(bare.err, HasSubstr("--allow-other-bundles"));
}

TEST_F(Reproduce, NamesAPluginThatIsNeitherHereNorInTheFile) {
  const LabMachine empty = lab("empty");
  give(empty, "small.attnlab", [](Bundle& bundle) {
    drop_plugins(bundle);
    change_lock(bundle, [](json& lock) {
      for (json& part : lock.at("parts")) part.erase("bundle");
    });
  });
  const Ended ended = reproduce(empty, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err, mentions("not installed", "not in the file"));
  EXPECT_FALSE(fs::exists(empty.at("reproduced/small/runs")));
}

TEST_F(Reproduce, EndsWithOneWhereNumbersOrDataAreOthers) {
  const LabMachine strict = lab("strict");
  give(strict, "numbers.attnlab", [](Bundle& bundle) {
    change_run(bundle,
               [](const RunFolder&, RunStatus& status) { status.metrics.at("accuracy") += 0.25; });
  });
  const Ended numbers = reproduce(strict, "numbers.attnlab", {"--out", "numbers"});
  EXPECT_EQ(numbers.exit_code, 1) << numbers.story();
  EXPECT_THAT(numbers.out, AllOf(HasSubstr("DIFFERS"), HasSubstr("no spread")));

  give(strict, "data.attnlab",
       [](Bundle& bundle) { change_lock(bundle, [](json& lock) { lock["data"] = {"another"}; }); });
  const Ended data = reproduce(strict, "data.attnlab", {"--out", "data"});
  EXPECT_EQ(data.exit_code, 1) << data.story();
  EXPECT_THAT(data.err, HasSubstr("its data differ"));
  EXPECT_THAT(data.out, AllOf(HasSubstr("OTHER DATA"), HasSubstr("by the numbers: identical")));

  give(strict, "asked.attnlab", [](Bundle& bundle) {
    change_lock(bundle, [](json& lock) { lock["evaluations"]["noisy"]["data"] = "another"; });
  });
  const Ended asked = reproduce(strict, "asked.attnlab", {"--out", "asked"});
  EXPECT_EQ(asked.exit_code, 1) << asked.story();
  EXPECT_THAT(asked.err, HasSubstr("data of evaluation noisy differ"));
}

TEST_F(Reproduce, ReadsDataFromTheReceiversFolder) {
  const LabMachine sender = lab("sender"), receiver = lab("receiver");
  std::string table = "species,a,b,c\n";
  for (int i = 0; i < 20; ++i) table += i % 2 == 0 ? "x,1,2,3\n" : "y,3,2,1\n";
  sender.write("data/measured.csv", table);
  sender.write("measured.yaml",
               "schema: 1\nmodel: {use: timeseries_transformer, dim: 8, depth: 1, heads: 2}\n"
               "attention: standard\ntask: sequence_classification\n"
               "dataset: {use: table, file: " +
                   sender.at("data/measured.csv") +
                   ", label: species}\n"
                   "train: {epochs: 1, batch_size: 8, threads: 1}\n"
                   "evaluate: {other: {set: {dataset: {file: " +
                   sender.at("data/measured.csv") + "}}}}\n");
  sender.must({"run", "measured.yaml"});
  const Ended packed = sender.must({"suite", "pack", "runs", "--lab", "sender", "--unsigned"});
  EXPECT_THAT(packed.err, AllOf(HasSubstr(sender.at("data/measured.csv")), HasSubstr("--data")));
  receiver.write("runs-1.0.0.attnlab", file_text(sender.at("runs-1.0.0.attnlab")));
  fs::rename(sender.at("data"), receiver.at("mine"));

  const Ended asked = reproduce(receiver, "runs-1.0.0.attnlab", {"--out", "asked"});
  EXPECT_EQ(asked.exit_code, 3) << asked.story();
  EXPECT_THAT(asked.err, HasSubstr("--data " + sender.at("data/measured.csv") + "=YOURS"));
  for (const char* wrong : {"mine", "=mine", "/data=", "/data=not-here"}) {
    const Ended refused = reproduce(receiver, "runs-1.0.0.attnlab", {"--data", wrong});
    EXPECT_EQ(refused.exit_code, 2) << refused.story();
    EXPECT_THAT(refused.err, HasSubstr("--data " + std::string(wrong)));
  }
  const Ended ended = reproduce(receiver, "runs-1.0.0.attnlab",
                                {"--data", sender.at("data") + "/=mine", "--data", "/other=."});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, AllOf(HasSubstr("identical"), Not(HasSubstr("OTHER DATA")),
                               Not(HasSubstr("other settings"))));
}

TEST_F(Reproduce, EndsWithThreeWhereNothingCouldBeRun) {
  const LabMachine broken = lab("broken");
  give(broken, "small.attnlab", [](Bundle& bundle) {
    change_run(bundle, [](const RunFolder& run, RunStatus&) {
      const std::string path = run.file("config.yaml");
      write_file(path, file_text(path) + "unheard_of: 1\n");
    });
  });
  const Ended ended = reproduce(broken, "small.attnlab");
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.err, mentions("unknown key 'unheard_of'", "1 of 1 runs", "the log: "));
  EXPECT_THAT(ended.out, HasSubstr("none could be run"));
}

}  // namespace
}  // namespace attnlab::testing::reproduce_test
