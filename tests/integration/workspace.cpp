#include "tests/integration/workspace.h"

#include <cstring>
#include <filesystem>
#include <sstream>

#include "framework/base/files.h"
#include "framework/manifest/discovery.h"

namespace attnlab::testing {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string& build_tree() {
  static const std::string root = Installation::of_this_program().root;
  return root;
}

std::string broken_plugins() { return build_tree() + "/broken_plugins"; }

std::map<std::string, std::string> checkpoint_tensors(const std::string& run_folder) {
  const std::string path = run_folder + "/checkpoint.safetensors";
  const std::string bytes = file_text(path);
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) throw std::runtime_error(path + ": no checkpoint");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const std::size_t data = sizeof header_size + header_size;
  const json header = json::parse(bytes.substr(sizeof header_size, header_size));
  std::map<std::string, std::string> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    tensors[name] = entry.at("dtype").dump() + entry.at("shape").dump() +
                    bytes.substr(data + begin, end - begin);
  }
  return tensors;
}

std::map<std::string, std::string> model_tensors(const std::string& run_folder) {
  std::map<std::string, std::string> tensors = checkpoint_tensors(run_folder);
  std::erase_if(tensors, [](const auto& item) { return item.first.rfind("model.", 0) != 0; });
  return tensors;
}

json status_of(const std::string& run_folder) {
  return json::parse(file_text(run_folder + "/status.json"));
}

void call_interrupted(const std::string& run_folder) {
  nlohmann::json status = status_of(run_folder);
  status["state"] = "interrupted";
  status.erase("check");
  write_file(run_folder + "/status.json", status.dump());
}

json timeless_metrics(const std::string& run_folder) {
  const json all = status_of(run_folder).at("metrics");
  json metrics = json::object();
  for (const auto& [name, value] : all.items()) {
    const bool timed =
        name == "host_share" || name == "peak_memory" || name.ends_with("_per_second");
    if (!timed) metrics[name] = value;
  }
  return metrics;
}

std::vector<json> metric_lines(const std::string& run_folder, const std::string& split) {
  std::istringstream text(file_text(run_folder + "/metrics.jsonl"));
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) {
    json parsed = json::parse(line);
    if (split.empty() || parsed.at("split") == split) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<double> losses(const std::string& run_folder) {
  std::vector<double> all;
  for (const nlohmann::json& line : metric_lines(run_folder, "train")) {
    all.push_back(line.at("loss"));
  }
  return all;
}

Workspace::Workspace() {
  folder_.write("tiny.yaml", R"(schema: 1
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: standard}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 64, test: 32}
train: {epochs: 2, batch_size: 16, log_every: 1, threads: 1}
)");
}

Invocation Workspace::invocation(Words words, Environment environment) const {
  words.insert(words.begin(), build_tree() + "/bin/attnlab");
  return {
      .words = std::move(words), .folder = folder_.path(), .environment = std::move(environment)};
}

Ended Workspace::attnlab(Words words, Environment environment) const {
  return run(invocation(std::move(words), std::move(environment)));
}

Ended Workspace::must(Words words, Environment environment) const {
  const Ended ended = attnlab(std::move(words), std::move(environment));
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  return ended;
}

std::string Workspace::refusal(Words words, Environment environment) const {
  const Ended ended = attnlab(std::move(words), std::move(environment));
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  return ended.err;
}

std::string Workspace::complaint(const Words& words) const {
  const Ended ended = attnlab(words);
  EXPECT_NE(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(ended.signal, 0) << ended.story();
  return ended.err;
}

std::string Workspace::run_folder(const std::string& below, int seed) const {
  const std::string prefix = std::to_string(seed) + "-";
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(at("runs/" + below), error)) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) found.push_back(entry.path());
  }
  EXPECT_EQ(found.size(), 1U) << "runs of seed " << seed << " in runs/" << below;
  return found.empty() ? at("runs/" + below + "/none") : found.front();
}

bool Workspace::exists(const std::string& name) const { return fs::exists(at(name)); }

std::vector<std::string> Workspace::files_like(const std::string& part) const {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    if (name.find(part) != std::string::npos) found.push_back(entry.path());
  }
  return found;
}

}  // namespace attnlab::testing
