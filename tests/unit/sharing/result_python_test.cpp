// Python files in results: what is packed of them, and what of them a stranger may hand over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/files.h"
#include "framework/manifest/python_file.h"
#include "framework/runs/kept_python.h"
#include "framework/runs/run_folder.h"
#include "framework/sharing/errors.h"
#include "framework/sharing/result_bundle.h"
#include "framework/sharing/result_locks.h"
#include "tests/support/compositions.h"
#include "tests/support/made_runs.h"
#include "tests/support/python.h"

namespace attnlab::testing::result_python_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using ::testing::UnorderedElementsAre;

/// A finished run with Python files. @param kept  what its configuration calls the attention's
RunFolder write_run(const TempFolder& temp, const std::string& kept, const std::string& more = "") {
  const RunFolder run(temp / "runs/small/mine/0-0123456789abcdef");
  fs::create_directories(run.path());
  write_file(run.file("config.yaml"),
             "schema: 1\nname: small\nseeds: [0]\nattention: {use: python, file: " + kept +
                 ", class: '', options: {temperature: 2}}\n" + more);
  write_environment(run);
  run.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
  return run;
}

std::vector<std::string> python_paths(const sharing::ResultFiles& packed) {
  std::vector<std::string> paths;
  for (const sharing::ArchiveFile& file : packed.files) {
    if (file.path.ends_with(".py")) paths.push_back(file.path);
  }
  return paths;
}

TEST(ResultPython, HoldsWhatRunsKeepAndNothingElse) {
  const TempFolder temp;
  const RunFolder run = write_run(temp, "python/0123456789abcdef/mine.py");
  write_file(run.file("lock.json"),
             R"({"format":1,"framework":{"version":"0.1.0","revision":"abc"},"data":[],"parts":[
    {"kind":"attention","id":"python/mine","version":"1.0.0"},
    {"kind":"dataset","id":"python/gone","version":"1.0.0"}]})");
  const std::string folder = run.path() + "/python/0123456789abcdef/";
  fs::create_directories(folder + "inner/__pycache__");
  write_file(folder + "mine.py", "import inner.deep\n");
  write_file(folder + "inner/deep.py", "x = 1\n");
  write_file(folder + "inner/__pycache__/deep.cpython-311.pyc", "bytes");
  const sharing::Store none(sharing::Places{temp / "config", temp / "share"});
  const sharing::ResultFiles packed = sharing::result_files(temp / "runs", none, false);
  EXPECT_THAT(python_paths(packed),
              UnorderedElementsAre("runs/run-00001/python/0123456789abcdef/mine.py",
                                   "runs/run-00001/python/0123456789abcdef/inner/deep.py"));
  EXPECT_THAT(packed.notes, ElementsAre(mentions("dataset python/gone:", "not installed")));
  fs::create_symlink(temp.write("secret.py", "key = 1\n"), folder + "secret.py");
  EXPECT_THAT(message_of<DataError>(
                  [&] { static_cast<void>(sharing::result_files(temp / "runs", none, false)); }),
              mentions("secret.py:", "cannot be packed", "is a link", "put a copy"));
}

/// A run that was unpacked.
class SharedPython : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!python_is_there()) GTEST_SKIP() << "needs python3";
    const PythonFile& file = python_file({temp_.write("lab/mine.py", text_), ""});
    kept_ = file.kept_name();
    folder_ = write_run(temp_, kept_).path();
    temp_.write("runs/small/mine/0-0123456789abcdef/" + kept_, text_);
  }
  std::string refusal() const {
    return message_of<sharing::TrustError>([&] { sharing::shared_classes(folder_); });
  }
  TempFolder temp_;
  const std::string text_ = packable_attention();
  std::string kept_, folder_;
};

TEST_F(SharedPython, IsWhatTheConfigurationNamesWithItsOptions) {
  const std::set<sharing::SharedClass> all = sharing::shared_classes(folder_);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.begin()->name, kept_);
  EXPECT_EQ(all.begin()->path, fs::canonical(folder_ + "/" + kept_).string());
  EXPECT_THAT(all.begin()->options, ElementsAre("options.temperature=2"));
}

TEST_F(SharedPython, IsRefusedOnceAltered) {
  write_file(folder_ + "/" + kept_, text_ + "# another\n");
  EXPECT_THAT(refusal(), mentions("mine.py:", "REFUSED", "the file that the run used"));
}

TEST_F(SharedPython, HasNoFilesBesideThatNobodyNames) {
  const fs::path mine = folder_ + "/" + kept_;
  const std::string other = fs::path(mine).replace_filename("other.py").string();
  write_file(other, "x = 1\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("other.py: REFUSED"), HasSubstr("nor imported by one")));
  fs::remove(other);
  // One that takes the place of a package would be imported.
  write_file(fs::path(mine).replace_filename("torch.py").string(), "x = 1\n");
  EXPECT_THAT(refusal(), mentions(".py:", "REFUSED", "not a Python file"));
}

TEST_F(SharedPython, NamesNoFileOfTheMachineThatRepeatsIt) {
  const std::string mine = temp_.write("home/private.py", text_);
  for (const std::string& name : {mine, std::string("../../../../home/private.py")}) {
    write_run(temp_, name);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("config.yaml: REFUSED"), HasSubstr("private.py"),
                                 HasSubstr("not kept with the run")))
        << name;
  }
}

TEST_F(SharedPython, IsThatOfEvaluationsToo) {
  write_run(temp_, kept_,
            "evaluate: {other: {set: {dataset: {use: python, file: python/gone/data.py}}}}\n");
  EXPECT_THAT(refusal(), mentions("'python/gone/data.py'", "not kept"));
  const auto named = classes_in(parse_yaml(
      "attention: {use: quest, layers: {first: a.py, last: {use: b.py:B, options: {x: 1}}}}\n"
      "model: net.py\ntask: t\ndataset: {use: python, file: d.py, class: D}\n"
      "evaluate: {o: {set: {attention: e.py}}, p: {over: {dataset.noise: [1]}}}\n",
      "f.yaml"));
  std::vector<std::string> names;
  for (const NamedClass& one : named) names.push_back(one.name.text());
  EXPECT_THAT(names, UnorderedElementsAre("a.py", "b.py:B", "net.py", "d.py:D", "e.py"));
}

}  // namespace
}  // namespace attnlab::testing::result_python_test
