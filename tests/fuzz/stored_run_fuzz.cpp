// Fuzzes the reader of stored results, which labs send each other: a finished run that is stored
// again as the same, or a DataError that names the file.
//
// Code: framework/runs/stored_run.cpp framework/runs/metric_infos.cpp
#include "framework/runs/stored_run.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

StoredRun made() {
  StoredRun run;
  run.experiment = "e";
  run.attention = "quest";
  run.identity = {"a", {{"model", {"m", "1"}}, {"task", {"t", "2"}}}, "f", "b", {}};
  run.numbers = 1;
  run.plugins = {{"model", {"lab/m", "1.0.0"}}};
  run.judges = {{"task lab/t", "1.0.0"}};
  run.entries = {{"fog", {{"task lab/u", "1.0.0"}}}};
  run.config = "name: e\nseeds: [0]\n";
  run.status.state = RunState::done;
  run.status.step = run.status.steps = 4;
  run.status.metrics = {{"accuracy", 0.5}, {"nll", 1e308}};
  run.environment = R"({"machine":{"cpu":"x"},"resumed":[{"step":2}]})";
  EvaluationRecord fog;
  fog.entry = "fog";
  fog.hash = "0123456789abcdef";
  fog.split = "test";
  fog.done = true;
  fog.metrics = {{"accuracy", 0.25}};
  fog.infos = {{"accuracy", Better::higher, "share"}};
  run.evaluations = {fog};
  return run;
}

/// Without its check, as earlier versions wrote it: changes reach what comes after that.
std::string unchecked(std::string text) {
  const std::size_t begin = text.find(R"("check")");
  return text.erase(begin, text.find('\n', begin) + 1 - begin);
}

}  // namespace

Target target() {
  Target target;
  const std::string whole = stored_json(made());
  target.seeds = {unchecked(whole), whole, whole.substr(0, whole.size() / 2), "{}", "[", ""};
  target.words = {"\"schema\": 1",
                  "\"plugins\": {",
                  "\"evaluations\": {",
                  "\"metrics\": {",
                  "\"infos\": [",
                  "\"judges\": {",
                  "\"version\": \"\"",
                  "\"numbers\": ",
                  "\"state\": \"done\"",
                  "null",
                  "1e999",
                  "-1",
                  "[]",
                  "{}",
                  "\\u001b",
                  "../x"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string path = folder.write("in.json", {reinterpret_cast<const char*>(data), size});
  try {
    const StoredRun run = read_stored(path);
    const std::string text = stored_json(run);
    if (stored_json(read_stored(folder.write("again.json", text))) != text) {
      fuzz::fail("a stored run that is read otherwise: " + text);
    }
    return run.status.finished() ? 0 : -1;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
