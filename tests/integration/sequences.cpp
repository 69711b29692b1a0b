#include "tests/integration/sequences.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Everything about a run that is the same each time.
std::string run_text(const std::string& folder) {
  if (!fs::exists(folder + "/status.json")) return "pending";
  std::string text = status_of(folder).at("state").get<std::string>() + "\n" +
                     timeless_metrics(folder).dump() + "\n" + file_text(folder + "/metrics.jsonl");
  if (!fs::exists(folder + "/checkpoint.safetensors")) return text + "no checkpoint";
  for (const auto& [name, bytes] : checkpoint_tensors(folder)) {
    text += name + " " + hex(fingerprint(bytes)) + "\n";
  }
  return text;
}

std::string evaluation_text(const std::string& file) {
  json record = json::parse(file_text(file));
  record.erase("seconds");
  return record.dump();
}

}  // namespace

std::vector<Sequence> sequences() {
  const Words run = {"run", "tiny.yaml", "--resume"};
  const Words again = {"--rerun", "failed"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {{"run", {}, run},
          {"suite", {}, with({"suite", "pair.yaml"}, again)},
          {"sweep", {}, with({"sweep", "tiny.yaml", "lr=1e-3,1e-2"}, again)},
          {"eval", {{"run", "asked.yaml"}}, {"eval", "RUN", "--again"}},
          {"report", {run}, {"report", "runs", "--output", "page.html"}}};
}

Outcome outcome_of(const std::string& folder) {
  Outcome outcome;
  if (!fs::exists(folder)) return outcome;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path& path = entry.path();
    const std::string name = fs::relative(path, folder).string();
    if (path.filename() == "config.yaml") {
      outcome[name] = run_text(path.parent_path().string());
    } else if (path.parent_path().filename() == "evaluations") {
      outcome[name] = evaluation_text(path.string());
    } else if (path.filename() == "table.json") {
      outcome[name] = json::parse(file_text(path.string())).at("complete").dump();
    } else if (path.filename() == "page.html") {
      outcome[name] =
          file_text(path.string()).find("</html>") != std::string::npos ? "whole" : "cut";
    }
  }
  return outcome;
}

Sequences::Sequences() {
  const std::string tiny = file_text(at("tiny.yaml"));
  folder_.write("tiny.yaml", tiny.substr(0, tiny.find("dataset:")) +
                                 "dataset: {use: synthetic_images, train: 32, test: 16}\n"
                                 "train: {epochs: 2, batch_size: 16, log_every: 1, threads: 1,\n"
                                 "  checkpoint_seconds: 0}\n");
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [standard, quest]\nbaseline: standard\n"
                "experiments: [tiny.yaml]\nseeds: [0]\n");
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nname: tiny\nevaluate:\n"
                "  noisy: {set: {dataset: {noise: 3}}}\n  fog: {over: {dataset.shift: [0, 8]}}\n");
}

std::string Sequences::prepared(const Sequence& sequence, const std::string& name) {
  const std::string kept = at(std::string("prepared-") + sequence.name), folder = at(name);
  if (!fs::exists(kept)) {
    fs::create_directory(kept);
    for (const char* file : {"tiny.yaml", "pair.yaml", "asked.yaml"}) {
      fs::copy(at(file), kept + "/" + file);
    }
    for (const Words& words : sequence.before) {
      const Ended ended = run(in(kept, words));
      EXPECT_EQ(ended.exit_code, 0) << ended.story();
    }
  }
  fs::remove_all(folder);
  fs::copy(kept, folder, fs::copy_options::recursive);
  return folder;
}

Invocation Sequences::in(const std::string& folder, const Words& words,
                         Environment environment) const {
  Invocation call = invocation(words, std::move(environment));
  call.folder = folder;
  for (std::string& word : call.words) {
    if (word != "RUN") continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().filename() == "config.yaml") word = entry.path().parent_path().string();
    }
  }
  return call;
}

void Sequences::finish(const Sequence& sequence, const std::string& folder) const {
  Ended ended;
  const bool done = wait_for([&] {
    ended = run(in(folder, sequence.command));
    const bool busy = (ended.out + ended.err).find("is being run by") != std::string::npos;
    if (ended.exit_code != 0 && busy) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return ended.exit_code == 0 || !busy;
  });
  EXPECT_TRUE(done && ended.exit_code == 0) << ended.story();
}

void Sequences::expect_outcome(const std::string& folder, const Outcome& expected) {
  const Outcome found = outcome_of(folder);
  for (const auto& [name, text] : expected) {
    const auto there = found.find(name);
    EXPECT_TRUE(there != found.end() && there->second == text)
        << name << (there == found.end() ? " is missing" : " differs: " + there->second);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

}  // namespace attnlab::testing
