// Datasets and models in Python files: their numbers beside their twins in C++, threads, errors,
// and the examples of docs/python.md.
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "tests/integration/workspace.h"

namespace attnlab::testing::python_data_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A safetensors file of float32 with made-up numbers.
std::string weights_file(const std::map<std::string, std::vector<std::size_t>>& shapes) {
  json header = json::object();
  std::string data;
  float phase = 0;
  for (const auto& [name, shape] : shapes) {
    std::size_t count = 1;
    for (const std::size_t size : shape) count *= size;
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < count; ++i) {
      const float number = 0.4F * std::sin(phase += 0.7F);
      data.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
}

class PythonParts : public Workspace {
 protected:
  void SetUp() override {
    if (!fs::exists(build_tree() + "/lib/attnlab/attnlab_python.so")) {
      GTEST_SKIP() << "attnlab was built without Python (python3-torch, python3-dev, pybind11-dev)";
    }
    const std::string samples = std::string(ATTNLAB_TEST_SAMPLE) + "/../python_plugins";
    for (const char* name : {"twin.py", "learned.py", "scales.py", "gratings.py", "toy.py"}) {
      folder_.write(name, file_text(samples + "/" + name));
    }
    folder_.write("toy.yaml", R"(schema: 1
model: {use: toy_transformer, hidden: 8}
attention: {use: standard}
task: {use: sequence_classification}
dataset: {use: spurious_retrieval, tokens: 6, key_dim: 4, classes: 4, train: 64, test: 32, data_seed: 0}
init: {from: start.safetensors}
train:
  epochs: 2
  batch_size: 16
  log_every: 1
  threads: 1
  optimizer: {use: adamw, lr: 1.0e-3, weight_decay: 0}
  schedule: {shape: constant}
)");
    constexpr std::size_t kDim = 8, kHidden = 8;
    folder_.write("start.safetensors", weights_file({{"class_token", {1, kDim}},
                                                     {"positions", {7, kDim}},
                                                     {"attention.qkv.weight", {3 * kDim, kDim}},
                                                     {"attention.qkv.bias", {3 * kDim}},
                                                     {"attention.output.weight", {kDim, kDim}},
                                                     {"attention.output.bias", {kDim}},
                                                     {"mlp_in.weight", {kHidden, kDim}},
                                                     {"mlp_in.bias", {kHidden}},
                                                     {"mlp_out.weight", {kDim, kHidden}},
                                                     {"mlp_out.bias", {kDim}},
                                                     {"norm1.weight", {kDim}},
                                                     {"norm1.bias", {kDim}},
                                                     {"norm2.weight", {kDim}},
                                                     {"norm2.bias", {kDim}},
                                                     {"head.weight", {4, kDim}},
                                                     {"head.bias", {4}}}));
  }

  static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                          double tolerance) {
    ASSERT_EQ(wanted.size(), 8U);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], tolerance) << "step " << i;
    }
  }
  /// A dataset with these lines at the end of its __getitem__, the first of which is line 8;
  /// `index` and an image `x` are there.
  void write_data(const std::string& lines) const {
    folder_.write("data.py",
                  "import numpy\n"
                  "class Data:\n"
                  "    fields = ['image', 'class']\n"
                  "    def __init__(self, split): self.count, self.classes = 32, 10\n"
                  "    def __len__(self): return self.count\n"
                  "    def __getitem__(self, index):\n"
                  "        x = numpy.full((1, 28, 28), index / 32, 'float32')\n" +
                      lines);
  }
  /// A model with these lines in its forward, the first of which is line 9.
  void write_net(const std::string& lines) const {
    folder_.write("net.py",
                  "import torch\n"
                  "class Net(torch.nn.Module):\n"
                  "    gives = ['logits']\n"
                  "    def __init__(self, attention, classes):\n"
                  "        super().__init__()\n"
                  "        self.one = attention(heads=1, head_dim=28)\n"
                  "        self.map = torch.nn.Linear(28, classes)\n"
                  "    def forward(self, image):\n" +
                      lines);
  }
  /// The first block of Python below a heading of docs/python.md.
  static std::string example_of_page(const std::string& heading) {
    const std::string page = file_text(std::string(ATTNLAB_TEST_CONFIGS) + "/../docs/python.md");
    const std::string fence = "```python\n";
    const std::size_t section = page.find("\n## " + heading + "\n");
    EXPECT_NE(section, std::string::npos) << heading;
    const std::size_t begin = page.find(fence, section) + fence.size();
    return page.substr(begin, page.find("```", begin) - begin);
  }
};

// ---- datasets

TEST_F(PythonParts, DataTrainAsTheirTwinInCppDo) {
  must({"run", "tiny.yaml", "name=cpp"});
  must({"run", "tiny.yaml", "name=python", "dataset=gratings.py"});
  expect_near(losses(run_folder("python/standard")), losses(run_folder("cpp/standard")), 1e-5);
}

TEST_F(PythonParts, DataAreTheSameWithSeveralThreads) {
  for (const char* workers : {"0", "1", "3"}) {
    must({"run", "tiny.yaml", std::string("name=of") + workers, "dataset=gratings.py",
          std::string("train.workers=") + workers});
  }
  const std::vector<double> wanted = losses(run_folder("of0/standard"));
  ASSERT_EQ(wanted.size(), 8U);
  EXPECT_EQ(losses(run_folder("of1/standard")), wanted);
  EXPECT_EQ(losses(run_folder("of3/standard")), wanted);
}

TEST_F(PythonParts, PassTheKit) {
  for (const char* file : {"gratings.py", "toy.py"}) {
    const Ended ended = attnlab({"plugin", "test", file, "--json"});
    for (const json& check : json::parse(ended.out).at("checks")) {
      EXPECT_NE(check.at("outcome"), "failed") << file << ": " << check.dump(2);
    }
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
}

TEST_F(PythonParts, DataThatAreWrongEndARunWithFileClassAndIndex) {
  const std::vector<std::pair<std::string, Words>> wrong = {
      {"        return {'image': x}\n",
       {"data.py:6:", "Data: example 0", "train split", "`fields` says image, class"}},
      {"        return x, 0\n", {"data.py:6:", "expected a dictionary"}},
      {"        return {'image': [1], 'class': 0}\n", {"data.py:6:", "field 'image' is list"}},
      {"        return {'image': x[:, index:], 'class': 0}\n",
       {"data.py:6:", "Data: example", "field 'image'", "expected [1, 28, 28] float32"}},
      {"        return {'image': x, 'class': float(index) if index > 3 else 0}\n",
       {"data.py:6:", "field 'class'", "[] float32", "expected [] int64"}},
      {"        raise KeyError('lost')\n", {"data.py:8: KeyError", "in example 0"}},
      {"        self.count += 1\n        return {'image': x, 'class': 0}\n",
       {"data.py:6:", "examples now"}},
      {"        x += numpy.random.rand()\n        return {'image': x, 'class': 0}\n",
       {"data.py:6:", "another when it is asked"}},
      {"        numpy.random.rand()\n        return {'image': x, 'class': 0}\n",
       {"data.py:6:", "numpy's random numbers"}},
  };
  for (const auto& [lines, messages] : wrong) {
    write_data(lines);
    const std::string said = complaint({"run", "tiny.yaml", "dataset=data.py", "--out", "wrong"});
    for (const std::string& message : messages) EXPECT_THAT(said, HasSubstr(message)) << lines;
    fs::remove_all(at("wrong"));
  }
}

TEST_F(PythonParts, DataAreRefusedBeforeARunWhereTheFileSaysSo) {
  const std::string head = "class Data:\n";
  const std::string methods =
      "    def __len__(self): return 1\n    def __getitem__(self, index): return {}\n";
  const std::string init = "    def __init__(self, split): pass\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"import numpy\n", "data.py: no class is a dataset"},
      {head + methods, "takes `split`"},
      {head + methods + init, "say what an example holds"},
      {head + "    fields = {'image': ([28], 'float')}\n" + methods + init, "dtypes are float64"},
      {head + "    fields = ['an image']\n" + methods + init, "'an image' is not a name"},
      {head + "    fields = ['tokens']\n" + methods + init, "takes 'image', which nothing"},
      {head + "    fields = ['image']\n" + methods + init + "class Other(Data):\n    pass\n",
       "datasets: Data, Other"},
  };
  for (const auto& [text, message] : wrong) {
    folder_.write("data.py", text);
    EXPECT_THAT(complaint({"validate", "tiny.yaml", "dataset=data.py"}), HasSubstr(message))
        << text;
  }
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "task=gratings.py"}),
              HasSubstr("attentions can"));
  EXPECT_THAT(
      complaint({"validate", "tiny.yaml", "dataset={use: gratings.py, options: {tran: 8}}"}),
      HasSubstr("did you mean 'train'?"));
}

TEST_F(PythonParts, DataAreAnotherRunWhereTheyChange) {
  const Words words = {"run", "tiny.yaml", "dataset=data.py", "train.epochs=1"};
  const auto runs = [&] {
    return std::distance(fs::directory_iterator(at("runs/tiny/standard")),
                         fs::directory_iterator());
  };
  const std::string rows = "        return {'image': x, 'class': index % 10}\n";
  const std::string prints = "    def fingerprint(self): return open('version.txt').read()\n";
  folder_.write("version.txt", "1");
  write_data(rows + prints);
  must(words);
  must(words);
  EXPECT_EQ(runs(), 1);
  folder_.write("version.txt", "2");
  must(words);
  EXPECT_EQ(runs(), 2);
  write_data(rows + prints + "# changed\n");
  must(words);
  EXPECT_EQ(runs(), 3);
}

TEST_F(PythonParts, DataAndModelAreKeptInTheRunsFolder) {
  const Words files = {"model=toy.py", "dataset=series.py"};
  folder_.write("series.py", example_of_page("A dataset in Python"));
  must({"run", "toy.yaml", "init=null", files[0], files[1], "train.epochs=1"});
  const std::string folder = run_folder("toy/standard");
  const std::vector<double> before = losses(folder);
  fs::remove(at("toy.py"));
  fs::remove(at("series.py"));
  must({"run", folder + "/config.yaml", "--out", "again"});
  const auto all = files_like("metrics.jsonl");
  ASSERT_EQ(all.size(), 2U);
  for (const std::string& file : all) {
    EXPECT_EQ(losses(fs::path(file).parent_path().string()), before) << file;
  }
  EXPECT_THAT(must({"status", "runs"}).out, Not(HasSubstr("stale")));
}

// ---- models

TEST_F(PythonParts, ModelsTrainAsTheirTwinInCppDo) {
  const Words trace = {"trace.every=1", "trace.record=[entropy]"};
  for (const char* attention : {"standard", "quest", "twin.py"}) {
    const std::string use = std::string("attention=") + attention;
    const std::string cpp = attention == std::string("twin.py") ? "attention=standard" : use;
    must({"run", "toy.yaml", "name=cpp", cpp, trace[0], trace[1], "--out", "cpp"});
    must(
        {"run", "toy.yaml", "name=python", "model=toy.py", use, trace[0], trace[1], "--out", "py"});
    const auto run_in = [&](const std::string& out) {
      for (const std::string& file : files_like("config.yaml")) {
        if (file.find("/" + out + "/") != std::string::npos) {
          return fs::path(file).parent_path().string();
        }
      }
      return std::string();
    };
    const std::string wanted = run_in("cpp"), found = run_in("py");
    expect_near(losses(found), losses(wanted), 1e-4);
    EXPECT_NEAR(metric_lines(found, "trace").at(0).at("entropy").get<double>(),
                metric_lines(wanted, "trace").at(0).at("entropy").get<double>(), 1e-5);
    std::set<std::string> names, same;
    for (const auto& [name, bytes] : model_tensors(wanted)) names.insert(name);
    for (const auto& [name, bytes] : model_tensors(found)) same.insert(name);
    EXPECT_EQ(same, names) << attention;
    fs::remove_all(at("cpp"));
    fs::remove_all(at("py"));
  }
}

TEST_F(PythonParts, ModelsResumeToTheLastBit) {
  const auto command = [](const std::string& name) -> Words {
    return {"run",
            "toy.yaml",
            "init=null",
            "model=toy.py",
            "attention=learned.py",
            "name=" + name,
            "train.epochs=60",
            "train.checkpoint_seconds=0",
            "--resume"};
  };
  must(command("whole"));
  {
    Process process(invocation(command("parted")));
    ASSERT_TRUE(wait_for([&] {
      for (const std::string& file : files_like("metrics.jsonl")) {
        if (file.find("/parted/") != std::string::npos && !file_text(file).empty()) return true;
      }
      return false;
    }));
    process.send(SIGINT);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
  }
  EXPECT_THAT(must(command("parted")).out, HasSubstr("resumes at step"));
  const std::string whole = run_folder("whole/learned"), parted = run_folder("parted/learned");
  EXPECT_EQ(losses(whole), losses(parted));
  const auto tensors = model_tensors(whole);
  EXPECT_EQ(tensors, model_tensors(parted));
  bool scale = false;  // of the attention in the model
  for (const auto& [name, bytes] : tensors)
    scale = scale || name.ends_with("attention.attention.scale");
  EXPECT_TRUE(scale);
}

TEST_F(PythonParts, ModelsThatAreWrongEndARunWithFileAndLine) {
  const std::string sees = "        x = self.one(image, image, image)[:, 0, 0]\n";
  const std::vector<std::pair<std::string, Words>> wrong = {
      {"        return [image]\n", {"net.py:8:", "forward of Net returned list"}},
      {sees + "        return {'features': x}\n", {"net.py:8:", "`gives` says logits"}},
      {"        return self.one(image, image[0], image)\n", {"net.py:9:", "attention input"}},
      {"        raise ValueError('too deep')\n", {"net.py:9: ValueError: too deep"}},
  };
  for (const auto& [lines, messages] : wrong) {
    write_net(lines);
    const std::string said = complaint({"run", "tiny.yaml", "model=net.py", "--out", "wrong"});
    for (const std::string& message : messages) EXPECT_THAT(said, HasSubstr(message)) << lines;
    fs::remove_all(at("wrong"));
  }
  write_net(sees + "        return self.map(x)\n");
  must({"run", "tiny.yaml", "model=net.py", "train.epochs=1"});
  folder_.write("net.py",
                "import torch\n"
                "class Net(torch.nn.Module):\n"
                "    gives = ['logits']\n"
                "    def __init__(self, attention):\n"
                "        super().__init__()\n"
                "        self.all = [attention(1, 28)]\n"
                "    def forward(self, image):\n"
                "        return image\n");
  EXPECT_THAT(complaint({"run", "tiny.yaml", "model=net.py"}),
              AllOf(HasSubstr("net.py:2:1"), HasSubstr("ModuleList")));
}

TEST_F(PythonParts, ModelsAskWhatTheirAttentionTakes) {
  const auto write = [&](const std::string& at_construction, const std::string& asks) {
    folder_.write(
        "net.py",
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    gives = ['logits']\n"
        "    def __init__(self, attention, classes):\n"
        "        super().__init__()\n"
        "        self.one = attention(1, 28, query_width=28, key_width=28, value_width=28)\n"
        "        self.map = torch.nn.Linear(28, classes)\n"
        "        " +
            at_construction +
            "\n"
            "    def forward(self, image):\n"
            "        x = image[:, 0]\n"
            "        given = dict(query_source=x, key_source=x, value_source=x)\n"
            "        if not " +
            asks +
            ": given = {}\n"
            "        return self.map(self.one(image, image, image, **given)[:, 0, 0])\n");
  };
  write("pass", "self.one.traits['sources']");
  for (const char* attention : {"standard", "gated"}) {
    must({"run", "tiny.yaml", "model=net.py", std::string("attention=") + attention,
          "train.epochs=1"});
  }
  const Words run = {"run", "tiny.yaml", "model=net.py", "attention=gated", "--out", "wrong"};
  write("pass", "self.one.traits['relative_positions'] is None");
  EXPECT_THAT(complaint(run), HasSubstr("query_source"));
  write("self.one.traits", "True");
  EXPECT_THAT(complaint(run), AllOf(HasSubstr("net.py:8:"), HasSubstr("constructor")));
}

TEST_F(PythonParts, ModelsAreCheckedBeforeARun) {
  const json manifest = json::parse(must({"describe", "toy.py", "--json"}).out);
  EXPECT_EQ(manifest.at("kind"), "model");
  EXPECT_EQ(manifest.at("takes"), json::array({"series"}));
  EXPECT_EQ(manifest.at("gives"), json::array({"logits"}));
  EXPECT_EQ(manifest.at("needs"), json::array({"different_lengths"}));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "model=toy.py"}),
              HasSubstr("takes 'series', which nothing"));
  const std::string text = file_text(at("toy.py"));
  const auto with = [&](const std::string& needs) {
    std::string changed = text;
    changed.replace(changed.find("different_lengths"), std::strlen("different_lengths"), needs);
    folder_.write("other.py", changed);
  };
  with("colour");
  EXPECT_THAT(complaint({"validate", "toy.yaml", "model=other.py"}),
              HasSubstr("needs: 'colour' is not a trait"));
  with("linear_cost");
  EXPECT_THAT(complaint({"validate", "toy.yaml", "model=other.py"}),
              mentions("'linear_cost'", "model 'other'"));
}

TEST_F(PythonParts, AreThoseOfThePage) {
  folder_.write("series.py", example_of_page("A dataset in Python"));
  folder_.write("net.py", example_of_page("A model in Python"));
  std::string fresh = file_text(at("toy.yaml"));
  const std::string init = "init: {from: start.safetensors}\n";
  fresh.erase(fresh.find(init), init.size());
  folder_.write("fresh.yaml", fresh);
  must({"sweep", "fresh.yaml", "attention=standard,quest,twin.py", "model=net.py",
        "dataset=series.py", "train.epochs=1", "--seeds", "0,1", "--out", "swept"});
  EXPECT_THAT(must({"compare", "swept"}).out,
              AllOf(HasSubstr("standard"), HasSubstr("quest"), HasSubstr("twin")));
  for (const char* file : {"series.py", "net.py"}) must({"describe", file});
}

TEST_F(PythonParts, BeginWithNew) {
  must({"new", "dataset", "waves", "--python"});
  must({"new", "model", "reader", "--python"});
  must({"run", "toy.yaml", "dataset=waves.py", "model=reader.py", "init=null", "train.epochs=1"});
  EXPECT_EQ(status_of(run_folder("toy/standard")).at("state"), "done");
}

}  // namespace
}  // namespace attnlab::testing::python_data_test
