#include "tests/integration/sequences.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <sstream>
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
  if (fs::exists(folder + "/best.safetensors")) {
    text += "best " + hex(fingerprint(file_text(folder + "/best.safetensors"))) + "\n";
  }
  if (!fs::exists(folder + "/checkpoint.safetensors")) return text + "no checkpoint";
  for (const auto& [name, bytes] : checkpoint_tensors(folder)) {
    text += name + " " + hex(fingerprint(bytes)) + "\n";
  }
  return text;
}

std::string evaluation_text(const std::string& file) {
  json record = json::parse(file_text(file));
  record.erase("seconds");  // and the check, which is of them too
  record.erase("written");
  record.erase("check");
  return record.dump();
}

/// Whether a run is what it was expected to be.
bool same_run(const std::string& found, const std::string& expected, double tolerance) {
  if (tolerance == 0 || found == expected) return found == expected;
  std::istringstream a(found), b(expected);
  std::string state, expected_state, metrics, expected_metrics;
  std::getline(std::getline(a, state), metrics);
  std::getline(std::getline(b, expected_state), expected_metrics);
  if (state != expected_state || metrics.empty()) return false;
  const json numbers = json::parse(metrics), wanted_numbers = json::parse(expected_metrics);
  for (const auto& [name, value] : wanted_numbers.items()) {
    const double wanted = value, allowed = tolerance * (1 + std::abs(wanted));
    if (!numbers.contains(name) || !(std::abs(numbers.at(name).get<double>() - wanted) < allowed)) {
      return false;
    }
  }
  return true;
}

bool is_run(const std::string& name) { return fs::path(name).filename() == "config.yaml"; }

bool is_evaluation(const std::string& name) {
  const fs::path path(name);  // others there are being written
  return path.parent_path().filename() == "evaluations" && path.extension() == ".json";
}

/// Whether a command's table has numbers of an evaluation.
bool reports_numbers(const std::string& output, const std::string& entry) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(entry + "  ", 0) != 0) continue;  // "noisy failed: ..." is none
    if (line.find_first_of("0123456789", entry.size()) != std::string::npos) return true;
  }
  return false;
}

/// Whether a command says that it made a file which is not a run.
bool reports_file(const std::string& output, const std::string& name, const std::string& text) {
  if (is_evaluation(name)) return reports_numbers(output, json::parse(text).at("entry"));
  const fs::path file = fs::path(name).filename();
  return (file.extension() == ".html" || file.extension() == ".attnlab") &&
         output.find(file.string()) != std::string::npos;
}

}  // namespace

std::vector<Sequence> sequences() {
  const Words run = {"run", "tiny.yaml", "--resume"};
  const Words again = {"--rerun", "failed"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::vector<Sequence> all = {
      {"run", {}, run},
      {"resume", {}, run, /*begun=*/true},
      {"suite", {}, with({"suite", "pair.yaml"}, again)},
      {"sweep", {}, with({"sweep", "tiny.yaml", "lr=1e-3,1e-2"}, again)},
      {"ensemble", {}, {"run", "toy.yaml", "--ensemble", "--resume"}, false, /*tolerance=*/1e-3},
      {"eval", {{"run", "asked.yaml"}}, {"eval", "RUN", "--again"}},
      {"report", {run}, {"report", "runs", "--output", "page.html"}}};
#ifdef ATTNLAB_TEST_SHARING
  all.push_back({"pack", {run}, {"suite", "pack", "runs", "--lab", "acme", "--unsigned"}});
#endif
  return all;
}

std::vector<std::string> reported_done(const std::string& output) {
  static const std::regex pattern(R"((\S+/\S+/\d+): done[ ,])");
  std::vector<std::string> labels;
  for (std::sregex_iterator at(output.begin(), output.end(), pattern), end; at != end; ++at) {
    labels.push_back((*at)[1]);
  }
  return labels;
}

Outcome outcome_of(const std::string& folder) {
  Outcome outcome;
  if (!fs::exists(folder)) return outcome;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path& path = entry.path();
    const std::string name = fs::relative(path, folder).string();
    if (path.filename() == "config.yaml") {
      outcome[name] = run_text(path.parent_path().string());
    } else if (is_evaluation(name)) {
      outcome[name] = evaluation_text(path.string());
    } else if (path.filename() == "table.json") {
      outcome[name] = json::parse(file_text(path.string())).at("complete").dump();
    } else if (path.extension() == ".attnlab") {
      outcome[name] = hex(fingerprint(file_text(path.string())));
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
                                 "  checkpoint_seconds: 0, protocol: published}\n");
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [standard, quest]\nbaseline: standard\n"
                "experiments: [tiny.yaml]\nseeds: [0]\n");
  folder_.write("toy.yaml", R"(schema: 1
model: toy_transformer
attention: qknorm
task: sequence_classification
dataset: {use: spurious_retrieval, train: 32, test: 16, tokens: 4, key_dim: 3, classes: 3, data_seed: 0}
train: {epochs: 4, batch_size: 16, threads: 1, log_every: 1, checkpoint_seconds: 0}
seeds: [0, 1]
)");
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nname: tiny\nevaluate:\n"
                "  noisy: {set: {dataset: {noise: 3}}}\n  fog: {over: {dataset.shift: [0, 8]}}\n");
}

std::string Sequences::prepared(const Sequence& sequence, const std::string& name) {
  const std::string kept = at(std::string("prepared-") + sequence.name), folder = at(name);
  if (!fs::exists(kept)) {
    fs::create_directory(kept);
    for (const char* file : {"tiny.yaml", "pair.yaml", "asked.yaml", "toy.yaml"}) {
      fs::copy(at(file), kept + "/" + file);
    }
    for (const Words& words : sequence.before) {
      const Ended ended = run(in(kept, words));
      EXPECT_EQ(ended.exit_code, 0) << ended.story();
    }
    if (sequence.begun) begin(sequence, kept);
  }
  fs::remove_all(folder);
  fs::copy(kept, folder, fs::copy_options::recursive);
  return folder;
}

/// Leaves the command undone: the disk is full after three quarters of what it writes.
void Sequences::begin(const Sequence& sequence, const std::string& folder) {
  const std::string whole = at("whole");
  fs::copy(folder, whole, fs::copy_options::recursive);
  run(in(whole, sequence.command, with_fault(whole, "enospc:0")));
  const std::string fault = "enospc:" + std::to_string(calls() * 3 / 4) + "+";
  const Ended ended = run(in(folder, sequence.command, with_fault(folder, fault)));
  EXPECT_NE(ended.exit_code, 0) << ended.story();
  EXPECT_FALSE(files_like("checkpoint.safetensors").empty()) << "it was not begun";
}

Environment Sequences::with_fault(const std::string& folder, const std::string& fault) const {
  fs::remove(calls_);
  return {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
          {"ATTNLAB_FAULT", fault},
          {"ATTNLAB_FAULT_BELOW", folder},
          {"ATTNLAB_FAULT_CALLS", calls_}};
}

std::int64_t Sequences::calls() const {
  const std::string bytes = file_text(calls_);
  std::int64_t count = 0;
  if (bytes.size() == sizeof count) std::memcpy(&count, bytes.data(), sizeof count);
  return count;
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

std::size_t Sequences::expect_reported(const Ended& ended, const std::string& folder,
                                       const Outcome& expected, double tolerance) {
  std::size_t reported = 0;
  for (const std::string& label : reported_done(ended.out)) {
    const auto there = std::find_if(expected.begin(), expected.end(), [&](const auto& one) {
      return is_run(one.first) && one.first.find("/" + label + "-") != std::string::npos;
    });
    EXPECT_TRUE(there != expected.end()) << label << " was reported, which is not one of the runs";
    if (there == expected.end()) continue;
    ++reported;
    const std::string run = fs::path(folder + "/" + there->first).parent_path().string();
    EXPECT_TRUE(same_run(run_text(run), there->second, tolerance))
        << label << " was reported as done, and is lost: " << run_text(run);
  }
  const Outcome found = outcome_of(folder);
  for (const auto& [name, text] : expected) {
    if (is_run(name) || !reports_file(ended.out, name, text)) continue;
    const auto there = found.find(name);
    EXPECT_TRUE(there != found.end() && there->second == text)
        << name << " was reported, and is " << (there == found.end() ? "lost" : there->second)
        << "\n"
        << ended.story();
    ++reported;
  }
  return reported;
}

void Sequences::expect_outcome(const std::string& folder, const Outcome& expected,
                               double tolerance) {
  const Outcome found = outcome_of(folder);
  for (const auto& [name, text] : expected) {
    const auto there = found.find(name);
    EXPECT_TRUE(there != found.end() && same_run(there->second, text, is_run(name) ? tolerance : 0))
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
