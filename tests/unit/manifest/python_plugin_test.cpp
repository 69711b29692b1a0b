// Python files that are plugins by their names, and what is packed of one.
#include "framework/manifest/python_plugin.h"

#include "tests/support/compositions.h"
#include "tests/support/python.h"

namespace attnlab::python_plugin_test {
namespace {

using namespace testing;
using nlohmann::json;
namespace fs = std::filesystem;

/// The manifest of a class Mine.
json manifest_of(const std::string& name) {
  json manifest = made_manifest(Kind::attention, name);
  manifest["python_class"] = "Mine";
  manifest["stamp"] = json::object();
  return manifest;
}

void write_python(const TempFolder& folder, const std::string& path, const json& manifest) {
  folder.write(path + ".py", "class Mine: pass\n");
  folder.write(path + ".manifest.json", manifest.dump());
}

TEST(PythonPlugin, IsFoundByItsManifestWithoutPython) {
  const TempFolder folder;
  write_python(folder, "attention/mine", manifest_of("mine"));
  folder.write("attention/helper.py", "no plugin: it has no manifest\n");
  const Catalogue catalogue = catalogue_of(folder.path());
  ASSERT_THAT(catalogue.names(Kind::attention), ElementsAre("mine"));
  const Candidate& found = catalogue.find(Kind::attention, "lab/mine");
  EXPECT_EQ(found.path, fs::canonical(folder / "attention/mine.py").string() + ":Mine");
  EXPECT_EQ(plain_file(found.path), fs::canonical(folder / "attention/mine.py").string());
  EXPECT_EQ(found.manifest->python_class, "Mine");
  EXPECT_TRUE(stamp_differences({{"compiler", "GNU 99"}}, *found.manifest).empty());
}

TEST(PythonPlugin, IsFoundThroughALinkWithWhatStandsBesideIt) {
  const TempFolder folder;
  write_python(folder, "store/python/mine", manifest_of("mine"));
  fs::create_directories(folder / "plugins/attention");
  fs::create_symlink(folder / "store/python/mine.py", folder / "plugins/attention/mine.py");
  EXPECT_EQ(catalogue_of(folder / "plugins").find(Kind::attention, "mine").path,
            fs::canonical(folder / "store/python/mine.py").string() + ":Mine");
  fs::remove(folder / "store/python/mine.manifest.json");
  EXPECT_THAT(
      message_of<PluginError>(
          [&] { catalogue_of(folder / "plugins").find(Kind::attention, "mine"); }),
      AllOf(HasSubstr("mine.manifest.json: invalid manifest"), HasSubstr("install it again")));
}

TEST(PythonPlugin, IsRefusedWhereItsManifestIsOfAnother) {
  const auto refusal = [](const json& manifest) {
    const TempFolder folder;
    write_python(folder, "mine", manifest);
    return catalogue_of(folder.path()).candidates().at(0).refused;
  };
  json wrong = manifest_of("other");
  EXPECT_THAT(refusal(wrong), mentions("lab/other", "mine.py"));
  wrong = manifest_of("mine");
  wrong["python_class"] = "Mine:Other";
  EXPECT_THAT(refusal(wrong), mentions("python_class", "class"));
  wrong.erase("python_class");
  EXPECT_THAT(refusal(wrong), HasSubstr("python_class"));
  wrong.erase("kind");
  EXPECT_THAT(refusal(wrong), HasSubstr("'kind'"));
}

TEST(PythonPlugin, SharesItsNameWithNoLibrary) {
  const TempFolder folder;
  write_python(folder, "attention/mine", manifest_of("mine"));
  write_plugin(folder, "attention/also.so", made_manifest(Kind::attention, "mine"));
  EXPECT_THAT(
      message_of<PluginError>([&] { catalogue_of(folder.path()).find(Kind::attention, "mine"); }),
      AllOf(HasSubstr("more than one file"), HasSubstr("also.so"), HasSubstr("mine.py")));
}

TEST(PythonPlugin, GetsNoStampFromALibraryThatCallsItselfOne) {
  const TempFolder folder;
  auto manifest = made_manifest(Kind::attention, "mine");
  manifest["python_class"] = "Mine";
  manifest["stamp"] = json::object();
  const std::string path = write_plugin(folder, "mine.so", manifest);
  EXPECT_FALSE(stamp_differences({{"compiler", "GNU 99"}}, read_manifest(path)).empty());
  EXPECT_THAT(catalogue_of(folder.path()).candidates().at(0).refused,
              HasSubstr("was built for another host"));
}

TEST(PythonPlugin, HasAHashOfAllThatItMayImport) {
  const TempFolder folder;
  const std::string file = folder.write("python/mine.py", "import helper\n");
  folder.write("python/helper.py", "x = 1\n");
  folder.write("record.json", "beside the folder");
  const std::string whole = hash_of_folder(file);
  folder.write("record.json", "no part of it");
  EXPECT_EQ(hash_of_folder(file), whole);
  folder.write("python/helper.py", "x = 2\n");
  EXPECT_NE(hash_of_folder(file), whole);
  folder.write("python/helper.py", "x = 1\n");
  EXPECT_EQ(hash_of_folder(file), whole);
  folder.write("python/__pycache__/helper.cpython-311.pyc", "which Python may take instead");
  EXPECT_NE(hash_of_folder(file), whole);
  fs::remove_all(folder / "python/__pycache__");
  fs::create_symlink("/etc/hostname", folder / "python/numpy.py");
  EXPECT_NE(hash_of_folder(file), whole);
  fs::remove(folder / "python/numpy.py");
  fs::remove(folder / "python/helper.py");
  EXPECT_NE(hash_of_folder(file), whole);
}

// ---- what is packed; Python's own parser reads it

class PackedPython : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!python_is_there()) GTEST_SKIP() << "needs python3";
  }
  const PythonFile& file(const std::string& text, const std::string& name = "mine.py") const {
    return python_file({folder_.write("lab/" + name, text), ""});
  }
  TempFolder folder_;
};

TEST_F(PackedPython, HasTheOptionsOfItsClassAsItsOwn) {
  const json packed = json::parse(packed_manifest(file(packable_attention()), "acme"));
  EXPECT_EQ(packed.at("id"), "acme/mine");
  EXPECT_EQ(packed.at("python_class"), "Mine");
  EXPECT_EQ(packed.at("version"), "1.0.0");
  EXPECT_EQ(packed.at("licence"), "Apache-2.0");
  EXPECT_EQ(packed.at("traits").at("causal"), true);
  EXPECT_EQ(packed.at("traits").at("bias"), false);
  ASSERT_EQ(packed.at("options").size(), 1U);
  const json& option = packed.at("options").at(0);
  EXPECT_EQ(option.at("name"), "temperature");
  EXPECT_EQ(option.at("high"), 10);
  EXPECT_EQ(option.at("help"), "what logits are divided by");
  EXPECT_FALSE(option.contains("place")) << "it would tell of the packer's machine";
  const Manifest read = parse_manifest(packed.dump());
  EXPECT_EQ(read.options.at(0).default_value.as_double(), 1.0);
}

TEST_F(PackedPython, TakesItsManifestOnlyWhereThatIsOfItsClass) {
  const PythonFile& whole = file(packable_attention());
  const std::string path = whole.folder + "/mine.py";
  write_file(manifest_beside(path), packed_manifest(whole, "acme"));
  EXPECT_EQ(candidate_of_python({path, ""}).manifest->id, "acme/mine");
  EXPECT_EQ(candidate_of_python({path, "Mine"}).manifest->id, "acme/mine");
  EXPECT_EQ(python_file({path, ""}).candidate.manifest->id, "python/mine");
  EXPECT_EQ(Catalogue::of_file(path).candidates().at(0).manifest->options.at(0).name,
            "temperature");
}

TEST_F(PackedPython, RefusesNamesOfOptionsThatCompositionsNeed) {
  const std::string text =
      "import torch\nclass Mine(torch.nn.Module):\n    def __init__(self, layers, use: int = 1):\n"
      "        pass\n    def forward(self, q, k, v):\n        return v\n";
  const PythonFile& whole = file(text);
  EXPECT_THAT(message_of<PluginError>([&] { packed_manifest(whole, "acme"); }),
              mentions("mine.py:", "'use'", "name of an option", "another name"));
}

TEST_F(PackedPython, KnowsWhatItWouldLeaveBehind) {
  folder_.write("up.py", "x = 1\n");
  folder_.write("lab/inner/__init__.py", "");
  folder_.write("lab/inner/deep.py", "from ... import up\nfrom .. import beside\n");
  folder_.write("lab/beside.py", "");
  const PythonFile& whole = file("import math, numpy\nimport inner.deep\n" + packable_attention());
  EXPECT_THAT(whole.sources, ::testing::UnorderedElementsAre("mine.py", "inner/__init__.py",
                                                             "inner/deep.py", "beside.py"));
  ASSERT_EQ(whole.outside.size(), 1U);
  EXPECT_THAT(whole.outside[0],
              AllOf(HasSubstr("inner/deep.py:1:1: imports "),
                    HasSubstr("/up.py, which lies outside"), HasSubstr("move it there")));
}

TEST_F(PackedPython, IsReadWithPlacesOfWhatIsWrong) {
  const auto refusal = [&](const std::string& text) {
    return message_of<PluginError>([&] { file(text); });
  };
  EXPECT_THAT(refusal("x = 1\ndef (:\n"), HasSubstr("mine.py:2:5: syntax error"));
  EXPECT_THAT(refusal(packable_attention() + "class Second(Mine):\n    pass\n"),
              mentions("several attentions", "Mine, Second", "mine.py:Mine"));
  EXPECT_THAT(refusal(packable_attention("1.0.0", "    def losses(self, q):\n        return {}\n")),
              HasSubstr("losses: expected (self)"));
  EXPECT_THAT(refusal(packable_attention("1.0.0", "    def after_step(self):\n        pass\n")),
              HasSubstr("after_step: expected (self, step, learning_rate)"));
}

}  // namespace
}  // namespace attnlab::python_plugin_test
