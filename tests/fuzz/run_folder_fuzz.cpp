// Fuzzes what is read of a run's folder by itself, by `status`, and to store the run. Whatever the
// bytes, the answer is a result or an error that names the file; what is shown moves no cursor;
// what is written again is read as the same.
//
// Code: framework/runs/run_folder.cpp framework/runs/run_result.cpp framework/runs/run_status.cpp
// Code: framework/runs/run_status_text.cpp framework/runs/evaluations.cpp
// Code: framework/runs/run_lock.cpp framework/runs/lock_file.cpp framework/runs/metric_infos.cpp
// Code: framework/runs/stored_run.cpp framework/experiment/identity.cpp
// Code: framework/config/origins.cpp
#include "framework/base/files.h"
#include "framework/config/origins.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/run_records.h"
#include "framework/runs/run_status.h"
#include "framework/runs/stored_run.h"
#include "tests/fuzz/run_files.h"

namespace attnlab::fuzz {
namespace {

/// What is written again, outside of the folder that is searched for runs.
const MemoryFolder& again() {
  static const MemoryFolder made;
  return made;
}

void show_status() {
  static const Catalogue none({}, {});
  const StatusReport report = status_of(runs().folder.path(), none);
  check_shown(status_text(report));
  status_json(report);
  check_shown(status_text(status_of(runs().folder.path(), none, {{runs().run, "running on x"}})));
}

/// What is stored is read again as the same.
void store() {
  const std::string text = stored_json(stored_of(runs().run));
  const std::string file = again().write("stored", text);
  if (stored_json(read_stored(file)) != text) fail("a stored run that is read otherwise: " + text);
}

void check_identity() {
  static const Identity sound{"a", {{"attention", {"quest", "2"}}}, "f", "c", {}};
  const auto now = read_identity(runs().run);
  if (!now) return;
  if (!changes_between(*now, *now).empty()) fail("an identity that differs from itself");
  Identity accepted = sound;
  accepted.accepted = {now->framework};
  if (!framework_change(accepted, *now).empty()) fail("an accepted revision differs");
  if (changes_between(sound, *now).empty() && now->configuration != sound.configuration) {
    fail("another configuration is no change");
  }
  again().write("identity.json", identity_json(*now));
  accept_revision(again().path(), "one more");
  const auto read = read_identity(again().path());
  if (read->hash() != now->hash()) fail("an identity that is read otherwise");
  if (framework_change(*read, sound).empty() != framework_change(*now, sound).empty()) {
    fail("an identity that lost what was accepted");
  }
}

/// An origin's lines, in their order, are the file's.
void check_origins() {
  const std::string path = runs().run + "/origins.txt";
  if (!std::filesystem::exists(path)) return;
  std::string text = read_text(path), lines;
  try {
    for (const RecordedOrigin& origin : read_origins(text)) {
      lines += origin.place + ": " + origin.key + " = " + origin.value + "\n";
      for (std::size_t i = origin.steps.size() - 1; i > 0; --i) {
        lines += "    before, " + origin.steps[i - 1] + "\n";
      }
    }
  } catch (const DataError& error) {
    return check_names("origins.txt: ", error);
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (lines != text) fail("origins that are read otherwise: " + lines);
}

void check_evaluations() {
  const Evaluations all = read_evaluations(runs().run);
  if (all.records.empty()) return;
  EvaluationRecord record = all.records.front();
  if (record.written != written_of(runs().run + "/evaluations/fog-0.json")) {
    fail("a result that was written twice");
  }
  std::filesystem::remove_all(again().path() + "/evaluations");
  try {
    write_evaluation(again().path(), record);
  } catch (const ConfigError&) {  // no entry of a file
    return;
  } catch (const FileError& error) {  // a name that is too long
    return check_names(again().path(), error);
  }
  const Evaluations read = read_evaluations(again().path());
  if (read.records.size() != 1) fail("a result that cannot be read again");
  const EvaluationRecord& one = read.records.front();
  if (one.changes != record.changes || one.set != record.set || one.done != record.done ||
      one.seconds != record.seconds || one.metrics.size() != record.metrics.size()) {
    fail("a result that is read otherwise: " + one.entry);
  }
}

void check_start() {
  const RunStart start = RunFolder(runs().run).start();
  if (start.second != "e/quest/0-0") fail("a run of another place: " + start.second);
  constexpr std::int64_t kYear0 = -62'167'219'200, kYear10000 = 253'402'300'862;
  if (start.first < kYear0 || start.first > kYear10000) {
    fail("a run begun at no time: " + std::to_string(start.first));
  }
}

}  // namespace

Target target() { return target_of_runs(); }

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const fuzz::Runs& runs = fuzz::runs();
  runs.write({reinterpret_cast<const char*>(data), size});
  fuzz::is_read(fuzz::check_identity);
  fuzz::check_origins();
  fuzz::check_evaluations();
  fuzz::check_start();
  fuzz::is_read([&] { locked_parts(runs.run); });
  fuzz::is_read(fuzz::show_status);
  fuzz::is_read(fuzz::store);
  return fuzz::is_read([&] { read_result(runs.run); }) ? 0 : -1;
}
