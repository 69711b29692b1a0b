// Fuzzes what is read of a run's folder by itself, by `status`, and to store the run. Whatever the
// bytes, the answer is a result or an error that names the file; what is shown moves no cursor.
//
// Code: framework/runs/run_folder.cpp framework/runs/run_result.cpp framework/runs/run_status.cpp
// Code: framework/runs/run_status_text.cpp framework/runs/evaluations.cpp
// Code: framework/runs/run_lock.cpp framework/runs/lock_file.cpp framework/runs/metric_infos.cpp
// Code: framework/runs/stored_run.cpp framework/experiment/identity.cpp
// Code: framework/config/origins.cpp
#include "framework/runs/lock_file.h"
#include "framework/runs/run_records.h"
#include "framework/runs/run_status.h"
#include "framework/runs/stored_run.h"
#include "tests/fuzz/run_files.h"

namespace attnlab::fuzz {
namespace {

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
  const std::string file = runs().folder.write("stored", text);
  if (stored_json(read_stored(file)) != text) fail("a stored run that is read otherwise: " + text);
}

}  // namespace

Target target() { return target_of_runs(); }

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const fuzz::Runs& runs = fuzz::runs();
  runs.write({reinterpret_cast<const char*>(data), size});
  fuzz::is_read([&] { read_identity(runs.run); });
  fuzz::is_read([&] { locked_parts(runs.run); });
  fuzz::is_read(fuzz::show_status);
  fuzz::is_read(fuzz::store);
  return fuzz::is_read([&] { read_result(runs.run); }) ? 0 : -1;
}
