// Attentions in Python files: their numbers, options, errors, records, what a run keeps of them.
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "tests/integration/workspace.h"

namespace attnlab::testing::python_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PythonFiles : public Workspace {
 protected:
  void SetUp() override {
    if (!fs::exists(build_tree() + "/lib/attnlab/attnlab_python.so")) {
      GTEST_SKIP() << "attnlab was built without Python (python3-torch, python3-dev, pybind11-dev)";
    }
    const std::string samples = std::string(ATTNLAB_TEST_SAMPLE) + "/../python_plugins";
    for (const char* name : {"twin.py", "learned.py", "scales.py", "rules.py"}) {
      folder_.write(name, file_text(samples + "/" + name));
    }
  }

  /// An attention with these lines in its forward, in mine.py; the first is line 4.
  void write_mine(const std::string& lines) const {
    folder_.write("mine.py",
                  "import torch\n"
                  "class Mine(torch.nn.Module):\n"
                  "    def forward(self, q, k, v):\n" +
                      lines);
  }
  /// Whether a run below a folder has recorded a step.
  bool has_begun(const std::string& below) const {
    std::error_code error;
    for (const auto& run : fs::directory_iterator(at(below), error)) {
      if (file_text(run.path().string() + "/metrics.jsonl").find('\n') != std::string::npos) {
        return true;
      }
    }
    return false;
  }
};

// ---- files of tensors, without the module under test

struct Values {
  std::vector<std::size_t> shape;
  std::vector<double> numbers;
};

std::string tensor_file(const std::map<std::string, Values>& tensors) {
  json header = json::object();
  std::string data;
  for (const auto& [name, values] : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.numbers.data()), values.numbers.size() * 8);
    header[name] = {
        {"dtype", "F64"}, {"shape", values.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
}

std::vector<double> numbers_in(const std::string& file, const std::string& name) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  const json entry = json::parse(file.substr(8, size)).at(name);
  EXPECT_EQ(entry.at("dtype"), "F64");
  const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
  std::vector<double> numbers((end - begin) / 8);
  std::memcpy(numbers.data(), file.data() + 8 + size + begin, end - begin);
  return numbers;
}

/// softmax(q k / sqrt(D)) v of one head, one number at a time.
std::vector<double> attended(const Values& q, const Values& k, const Values& v) {
  const std::size_t queries = q.shape[0], keys = k.shape[0], dim = q.shape[1], width = v.shape[1];
  std::vector<double> out;
  for (std::size_t i = 0; i < queries; ++i) {
    std::vector<double> row(width, 0.0);
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      double logit = 0;
      for (std::size_t c = 0; c < dim; ++c) {
        logit += q.numbers[i * dim + c] * k.numbers[j * dim + c];
      }
      const double weight = std::exp(logit / std::sqrt(static_cast<double>(dim)));
      sum += weight;
      for (std::size_t c = 0; c < width; ++c) row[c] += weight * v.numbers[j * width + c];
    }
    for (const double number : row) out.push_back(number / sum);
  }
  return out;
}

// ---- numbers

TEST_F(PythonFiles, GiveTheNumbersOfTheirFormula) {
  const std::map<std::string, Values> tensors = {
      {"q", {{2, 3}, {0.5, -1, 2, 1.5, 0.25, -0.75}}},
      {"k", {{3, 3}, {1, 0, -1, 0.5, 2, 0.125, -2, 1, 1}}},
      {"v", {{3, 2}, {1, -1, 0.5, 3, -2, 0.25}}}};
  folder_.write("in.safetensors", tensor_file(tensors));
  must({"attention", "apply", "--use", "twin.py", "--in", "in.safetensors", "--out",
        "out.safetensors"});
  const auto found = numbers_in(file_text(at("out.safetensors")), "out");
  const auto wanted = attended(tensors.at("q"), tensors.at("k"), tensors.at("v"));
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << i;
}

TEST_F(PythonFiles, TrainAsTheirTwinInCppDoes) {
  const Environment plain = {{"ATTNLAB_ATTENTION_KERNEL", "explicit"}};
  const Words trace = {"trace.every=1", "trace.record=[logit_max,query_norm,entropy]"};
  must({"run", "tiny.yaml", trace[0], trace[1]}, plain);
  must({"run", "tiny.yaml", "attention=twin.py", trace[0], trace[1]}, plain);
  const std::string cpp = run_folder("tiny/standard"), python = run_folder("tiny/twin");
  const std::vector<double> wanted = losses(cpp), found = losses(python);
  ASSERT_EQ(wanted.size(), 8U);
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_NEAR(found[0], wanted[0], 1e-6);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-4) << i;
  const auto traced = metric_lines(cpp, "trace"), ours = metric_lines(python, "trace");
  ASSERT_EQ(ours.size(), traced.size());
  for (const char* field : {"logit_max", "query_norm_mean", "entropy"}) {
    EXPECT_NEAR(ours[0].at(field).get<double>(), traced[0].at(field).get<double>(), 1e-5) << field;
  }
}

TEST_F(PythonFiles, PassTheKit) {
  for (const char* file : {"learned.py", "rules.py"}) {
    const Ended ended = attnlab({"plugin", "test", file, "--json"});
    const json report = json::parse(ended.out);
    for (const json& check : report.at("checks")) {
      EXPECT_NE(check.at("outcome"), "failed") << file << ": " << check.dump(2);
    }
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
}

TEST_F(PythonFiles, BeginWithNew) {
  EXPECT_THAT(must({"new", "attention", "sharp_idea", "--python"}).out,
              HasSubstr("attnlab plugin test sharp_idea.py"));
  const json report = json::parse(must({"plugin", "test", "sharp_idea.py", "--json"}).out);
  EXPECT_EQ(report.at("plugin"), "python/sharp_idea");
  EXPECT_EQ(report.at("counts").at("failed"), 0) << report.dump(2);
  EXPECT_THAT(complaint({"new", "attention", "sharp_idea", "--python"}), HasSubstr("--out"));
  EXPECT_THAT(complaint({"new", "task", "idea", "--python"}), HasSubstr("attentions can"));
}

// ---- what the program reads without running it

TEST_F(PythonFiles, AreDescribedWithoutBeingRun) {
  folder_.write("loud.py", "print('I ran')\n" + file_text(at("learned.py")));
  const Ended described = must({"describe", "loud.py", "--json"});
  EXPECT_THAT(described.out + described.err, Not(HasSubstr("I ran")));
  const json manifest = json::parse(described.out);
  EXPECT_EQ(manifest.at("id"), "python/loud");
  EXPECT_THAT(manifest.at("summary").get<std::string>(), HasSubstr("a learned scale"));
  EXPECT_EQ(manifest.at("traits").at("bias"), true);
  EXPECT_EQ(manifest.at("traits").at("relative_positions"), false);
  const json& options = manifest.at("options").at(2).at("options");
  EXPECT_EQ(options.at(0).at("name"), "temperature");
  EXPECT_EQ(options.at(0).at("high"), 10);
  EXPECT_EQ(options.at(0).at("default"), 1.0);
  EXPECT_THAT(options.at(0).at("help"), HasSubstr("logits are divided"));
  EXPECT_EQ(options.at(1).at("choices"), json::array({"values", "nothing"}));
  EXPECT_THAT(must({"describe", "learned.py"}).out, HasSubstr("temperature (float in [0.1, 10]"));
  EXPECT_THAT(must({"validate", "tiny.yaml", "attention=loud.py"}).out,
              AllOf(HasSubstr("attention loud"), Not(HasSubstr("I ran"))));
}

TEST_F(PythonFiles, AreFoundFromTheCompositionThatNamesThem) {
  folder_.write("lab/ideas/warm.py", file_text(at("twin.py")));
  folder_.write("lab/warm.yaml",
                "extends: ../tiny.yaml\nattention: {use: ideas/warm.py, as: hot}\n");
  EXPECT_THAT(must({"validate", "lab/warm.yaml"}).out, HasSubstr("attention warm"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention=ideas/warm.py"}),
              mentions("ideas/warm.py: ", "no such file"));
}

TEST_F(PythonFiles, HaveTheirOptionsCheckedOnBothSides) {
  const auto refused = [&](const std::string& option) {
    return complaint(
        {"validate", "tiny.yaml", "attention=learned.py", "attention.options." + option});
  };
  EXPECT_THAT(refused("temperature=11"),
              AllOf(HasSubstr("attention.options.temperature"), HasSubstr("learned.py:19:")));
  EXPECT_THAT(refused("temperature=warm"),
              AllOf(HasSubstr("expected a number"), HasSubstr("learned.py:19:")));
  EXPECT_THAT(refused("temprature=2"), HasSubstr("did you mean 'temperature'?"));
  EXPECT_THAT(refused("mix=value"), HasSubstr("did you mean 'values'?"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention=twin.py", "attention.options.a=1"}),
              HasSubstr("unknown key 'options'"));
  must({"validate", "tiny.yaml", "attention={use: learned.py, options: {temperature: 2}}"});
}

TEST_F(PythonFiles, AreRefusedWhereTheyAreWrong) {
  const std::string head = "import torch\nclass Mine(torch.nn.Module):\n";
  const std::string forward = "    def forward(self, q, k, v):\n        return v\n";
  const std::vector<std::pair<std::string, Words>> wrong = {
      {"x = 1\ndef (:\n", {"mine.py:2:5: ", "syntax error"}},
      {"import torch\n", {"mine.py: ", "no class", "method forward"}},
      {head + forward + "class Other(torch.nn.Module):\n" + forward,
       {"mine.py:5:1: ", "attentions: Mine, Other", "name one with `class`"}},
      {head + "    def forward(self, q, k, v, masks):\n        return v\n",
       {"mine.py:3:32: forward: ", "'masks'"}},
      {head + "    def forward(self, q, k, v, **more):\n        return v\n",
       {"mine.py:3:34: forward: ", "'more'"}},
      {head + "    def __init__(self, width):\n        pass\n" + forward,
       {"mine.py:3:24: width: ", "needs a type"}},
      {head + "    def __init__(self, width: float = None):\n        pass\n" + forward,
       {"width: ", "None is not a float"}},
      {head + "    ordered = True\n" + forward, {"ordered"}},
  };
  for (const auto& [text, said] : wrong) {
    folder_.write("mine.py", text);
    EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention=mine.py"}), mentions(said)) << text;
  }
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention=mine.py:Nothing"}),
              HasSubstr("there is no class 'Nothing'"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention={use: python}"}),
              HasSubstr("expected a file"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention={use: twin.py, file: mine.py}"}),
              mentions("attention.file: ", "'twin.py'", "already"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "task=twin.py"}), HasSubstr("attentions can"));
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "model=twin.py"}),
              mentions("twin.py: ", "no class is a model"));
  // What forward does not take is refused before a run.
  write_mine("        return v\n");
  EXPECT_THAT(complaint({"validate", "language_synthetic", "attention=mine.py"}),
              HasSubstr("'causal'"));
}

TEST_F(PythonFiles, ChooseOneClassOfSeveral) {
  folder_.write("two.py", file_text(at("twin.py")) + "\n\nclass Cold(Twin):\n    pass\n");
  EXPECT_THAT(complaint({"validate", "tiny.yaml", "attention=two.py"}), HasSubstr("Twin, Cold"));
  must({"run", "tiny.yaml", "attention=two.py:Cold", "train.epochs=1"});
  EXPECT_EQ(status_of(run_folder("tiny/Cold")).at("state"), "done");
}

// ---- what is wrong while it runs

TEST_F(PythonFiles, EndARunWithFileAndLine) {
  const std::vector<std::pair<std::string, Words>> wrong = {
      {"        raise ValueError('too hot')\n", {"mine.py:4: ValueError: too hot"}},
      {"        raise SystemExit(0)\n", {"mine.py:4: ends the program"}},
      {"        return v.double()\n", {"mine.py:3: forward of Mine", "returned", "float64"}},
      {"        return v[:, :1]\n", {"mine.py:3:", "[B, H, Lq, Dv]"}},
      {"        return [v]\n", {"mine.py:3:", "returned list"}},
      {"        self.more = torch.nn.Parameter(torch.zeros(1))\n        return v\n",
       {"mine.py:3:", "make them in __init__"}},
      {"        self.last = v * 2\n        return v\n",
       {"mine.py:3:", "keeps a tensor in self.last"}},
      {"        import random\n        random.random()\n        return v\n",
       {"mine.py:3:", "Python's random numbers"}},
      {"        torch.manual_seed(1)\n        return v\n", {"mine.py:3:", "torch's seed"}},
      {"        import no_such_package.deep\n",
       {"mine.py:4:", "install", "package 'no_such_package'"}},
  };
  for (const auto& [lines, messages] : wrong) {
    write_mine(lines);
    const std::string said = complaint({"run", "tiny.yaml", "attention=mine.py", "--out", "wrong"});
    for (const std::string& message : messages) EXPECT_THAT(said, HasSubstr(message)) << lines;
    fs::remove_all(at("wrong"));
  }
  folder_.write("mine.py", "import no_such_package\n" + file_text(at("twin.py")));
  EXPECT_THAT(complaint({"run", "tiny.yaml", "attention=mine.py"}),
              mentions("mine.py:1:", "install", "package 'no_such_package'"));
  folder_.write("mine.py", "class Mine:\n    def forward(self, q, k, v):\n        return v\n");
  EXPECT_THAT(complaint({"run", "tiny.yaml", "attention=mine.py"}),
              mentions("mine.py:1:1: Mine", "not a torch.nn.Module"));
}

TEST_F(PythonFiles, NameThePlaceOfWhatABackwardPassRaises) {
  folder_.write("mine.py", R"(import torch
class Same(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        raise KeyError("no way back")
class Mine(torch.nn.Module):
    def forward(self, q, k, v):
        return Same.apply(v)
)");
  EXPECT_THAT(complaint({"run", "tiny.yaml", "attention=mine.py"}),
              AllOf(HasSubstr("mine.py:8:"), HasSubstr("no way back")));
}

TEST_F(PythonFiles, MayGiveTheirInputBackAndPrint) {
  write_mine("        print('seen', v.shape)\n        return v\n");
  const Ended ended = must({"run", "tiny.yaml", "attention=mine.py", "train.epochs=1"});
  EXPECT_THAT(ended.err, HasSubstr("seen torch.Size"));
  EXPECT_THAT(ended.out, Not(HasSubstr("seen torch.Size")));
}

TEST_F(PythonFiles, AreNotTrainedAsAnEnsemble) {
  EXPECT_THAT(complaint({"run", "quest_toy", "attention=twin.py", "seeds=[0,1]", "--ensemble"}),
              mentions("attention 'twin'", "class in Python"));
}

// ---- what a run keeps

TEST_F(PythonFiles, ResumeToTheLastBit) {
  const auto command = [](const std::string& name) -> Words {
    return {"run",
            "tiny.yaml",
            "attention={use: learned.py, options: {temperature: 2}}",
            "name=" + name,
            "model.depth=2",
            "model.attention_dropout=0.2",
            "train.epochs=20",
            "train.checkpoint_seconds=0",
            "--resume"};
  };
  must(command("whole"));
  {
    Process process(invocation(command("parted")));
    ASSERT_TRUE(wait_for([&] { return has_begun("runs/parted/learned"); }));
    process.send(SIGINT);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
  }
  EXPECT_THAT(must(command("parted")).out, HasSubstr("resumes at step"));
  const std::string whole = run_folder("whole/learned"), parted = run_folder("parted/learned");
  EXPECT_EQ(losses(whole), losses(parted));
  EXPECT_EQ(model_tensors(whole), model_tensors(parted));
  // Under the names of the class, and what counts in whole numbers still does.
  EXPECT_FALSE(model_tensors(whole).empty());
  bool mix = false, steps = false;
  for (const auto& [name, bytes] : model_tensors(whole)) {
    mix = mix || name.ends_with(".mix.weight");
    steps = steps || (name.ends_with(".steps") && bytes.find("I64") != std::string::npos);
  }
  EXPECT_TRUE(mix);
  EXPECT_TRUE(steps);
}

TEST_F(PythonFiles, AreKeptInTheRunsFolder) {
  must({"run", "tiny.yaml", "attention=learned.py", "train.epochs=1"});
  const std::string folder = run_folder("tiny/learned");
  const std::vector<double> before = losses(folder);
  fs::remove(at("learned.py"));
  fs::remove(at("scales.py"));
  must({"run", folder + "/config.yaml", "--out", "again"});
  const auto again = files_like("metrics.jsonl");
  ASSERT_EQ(again.size(), 2U);
  for (const std::string& file : again) {
    EXPECT_EQ(losses(fs::path(file).parent_path().string()), before) << file;
  }
  must({"describe", folder, "--summary"});
  EXPECT_THAT(must({"status", "runs"}).out, Not(HasSubstr("stale")));
}

TEST_F(PythonFiles, AreAnotherRunWhereTheyOrWhatTheyImportChange) {
  const Words words = {"run", "tiny.yaml", "attention=learned.py", "train.epochs=1"};
  const auto runs = [&] {
    return std::distance(fs::directory_iterator(at("runs/tiny/learned")), fs::directory_iterator());
  };
  must(words);
  must(words);
  EXPECT_EQ(runs(), 1);
  const std::string folder = run_folder("tiny/learned");
  const json environment = json::parse(file_text(folder + "/environment.json"));
  EXPECT_FALSE(environment.at("attention").at("versions").at("torch").get<std::string>().empty());
  EXPECT_EQ(environment.at("attention").at("id"), "python/learned");
  folder_.write("scales.py", file_text(at("scales.py")) + "\n# changed\n");
  must(words);
  EXPECT_EQ(runs(), 2);
  folder_.write("learned.py", file_text(at("learned.py")) + "\n# changed\n");
  must(words);
  EXPECT_EQ(runs(), 3);
  folder_.write("unused.py", "nothing = 0\n");
  must(words);
  EXPECT_EQ(runs(), 3);
}

TEST_F(PythonFiles, MayBeNamedByEvaluations) {
  folder_.write("asked.yaml",
                "extends: tiny.yaml\nattention: twin.py\ntrain: {epochs: 1}\nevaluate:\n"
                "  noisy: {set: {dataset: {noise: 2}}}\n"
                "  other: {set: {attention: {use: rules.py:Rules}}}\n"
                "  same: {set: {attention: twin.py}}\n");
  must({"run", "asked.yaml"});
  const std::string folder = run_folder("asked/twin");
  for (const char* name : {"twin.py", "rules.py"}) fs::remove(at(name));
  const json all = json::parse(must({"eval", folder, "--json"}).out);
  EXPECT_TRUE(all.contains("noisy/accuracy"));
  EXPECT_NEAR(all.at("other/nll").get<double>(), all.at("same/nll").get<double>(), 1e-6)
      << "the two are one formula";
  EXPECT_EQ(all.at("same/nll"), all.at("nll"));
  const std::string frozen = file_text(folder + "/config.yaml");
  EXPECT_THAT(frozen, HasSubstr("/rules.py:Rules"));
  EXPECT_EQ(files_like("rules.py").size(), 1U) << "the run keeps it";
  must({"run", folder + "/config.yaml", "--out", "again"});
  EXPECT_EQ(files_like("rules.py").size(), 2U);
  EXPECT_THAT(must({"cite", folder}).err, Not(HasSubstr("not installed here")));
}

TEST_F(PythonFiles, AddLossesOfTheirOwn) {
  folder_.write("losing.py",
                "import torch\n"
                "from attnlab.python import softmax\n"
                "class Losing(torch.nn.Module):\n"
                "    def __init__(self, heads):\n"
                "        super().__init__()\n"
                "        self.scale = torch.nn.Parameter(torch.full((heads, 1, 1), 3.0))\n"
                "        self.entropy = None\n"
                "    def forward(self, q, k, v, visible):\n"
                "        weights = softmax(self.scale * q @ k.transpose(-2, -1), visible)\n"
                "        self.entropy = (weights * weights.clamp_min(1e-30).log()).sum(-1).mean()\n"
                "        return weights @ v, weights\n"
                "    def losses(self):\n"
                "        return {'spread': self.entropy, 'size': self.scale.square().sum()}\n"
                "    def after_step(self, step, learning_rate):\n"
                "        self.scale.clamp_(max=2.5)\n");
  must({"run", "tiny.yaml", "attention=losing.py", "train.epochs=1",
        "train.attention_losses={spread: 0, size: 1}"});
  const std::vector<json> lines = metric_lines(run_folder("tiny/losing"), "train");
  ASSERT_GE(lines.size(), 2U);
  // Two heads of 3, which the first step clamps to 2.5.
  EXPECT_NEAR(lines[0].at("loss/attention/size").get<double>(), 2 * 3.0 * 3.0, 1e-5);
  EXPECT_LE(lines[1].at("loss/attention/size").get<double>(), 2 * 2.5 * 2.5 + 1e-5);
  EXPECT_LT(lines[0].at("loss/attention/spread").get<double>(), 0);
  EXPECT_THAT(complaint({"run", "tiny.yaml", "attention=losing.py",
                         "train.attention_losses={spred: 1}", "--out", "wrong"}),
              AllOf(HasSubstr("train.attention_losses.spred"), HasSubstr("spread")));
  const json report = json::parse(
      must({"plugin", "test", "losing.py", "--only", "losses", "--only", "after_step", "--json"})
          .out);
  EXPECT_EQ(report.at("counts").at("failed"), 0) << report.dump(2);
  EXPECT_EQ(report.at("checks").at(1).at("message"), "it adds size, spread");
}

TEST_F(PythonFiles, AreComparedAsOthers) {
  must({"sweep", "tiny.yaml", "attention=standard,twin.py", "train.epochs=1", "--seeds", "0,1",
        "--out", "swept"});
  EXPECT_THAT(must({"compare", "swept"}).out, AllOf(HasSubstr("standard"), HasSubstr("twin")));
}

}  // namespace
}  // namespace attnlab::testing::python_test
