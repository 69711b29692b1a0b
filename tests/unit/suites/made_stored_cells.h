// A suite of made-up parts, and stored runs in the place of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/runs/lock_file.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/suites/stored_cells.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::testing {

/// The made parts' plugins, and a task that only evaluations use.
inline Catalogue with_counting(const MadeParts& parts) {
  nlohmann::json task = made_manifest(Kind::task, "counting");
  task["takes"] = {"logits"};
  write_plugin(parts.folder(), "plugins/counting.so", task);
  return catalogue_of(parts.folder() / "plugins");
}

class StoredCells : public ::testing::Test {
 protected:
  StoredCells() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: quest\ntask: sorting\n"
                "dataset: {use: pictures}\nevaluate:\n  fog: {set: {dataset: {use: pictures, root: "
                "foggy}}}\n");
  }

  /// A suite of two attentions, its cells identified below a folder. @param more  of the suite
  Suite suite(const std::string& runs = "runs", const std::string& more = "",
              const std::string& data = "d1") const {
    const std::string file = temp_.write(
        "s.yaml",
        "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\nseeds: [0]\n"
        "stored: [kept]\n" +
            more);
    Suite suite = load_suite(file, {}, catalogue_, temp_ / runs);
    identify(suite.cells, suite.folder, [&](const Experiment&) { return data; });
    decide(suite.cells, {});
    return suite;
  }

  /// A finished run of a cell, with its evaluation.
  void finish(const Cell& cell, double accuracy, bool evaluated = true) const {
    cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
    cell.folder.write_status({RunState::done, 5, 5, 1, 2.5, {{"accuracy", accuracy}}, ""});
    write_environment(cell.folder, {{"machine", {{"cpu", "a processor"}, {"host", "secret"}}},
                                    {"data", {{"fingerprint", "d1"}, {"source", "/home/me"}}},
                                    {"framework", {{"numbers", kNumbersVersion}}},
                                    {"model", {{"hash", "m"}}}});
    if (!evaluated) return;
    lock_entries(cell.folder.path(), evaluations_of(cell.experiment, catalogue_));
    EvaluationRecord fog;
    fog.entry = "fog";
    fog.hash = "0123456789abcdef";
    fog.split = "test";
    fog.done = true;
    fog.metrics = {{"accuracy", accuracy / 2}};
    fog.infos = {kMadeMetrics.front()};
    fog.set = R"({"dataset": {"root": "foggy", "use": "pictures"}})";  // JSON sorts its keys
    write_evaluation(cell.folder.path(), fog);
  }

  /// Runs the suite elsewhere and keeps what came of it.
  void keep_all(bool evaluated = true) const {
    double accuracy = 0.5;
    for (const Cell& cell : suite("elsewhere").cells) {
      finish(cell, accuracy += 0.1, evaluated);
      keep(stored_of(cell.folder.path()));
    }
  }

  void keep(const StoredRun& run) const { temp_.write("kept/" + run.name(), stored_json(run)); }

  std::vector<std::string> kept_files() const {
    std::vector<std::string> unreadable;
    const std::vector<std::string> files = stored_files(temp_ / "kept", unreadable);
    EXPECT_THAT(unreadable, IsEmpty());
    return files;
  }

  StoredUse found(const Suite& suite, bool accept_revision = false) const {
    return find_stored(suite, catalogue_, accept_revision);
  }
  StoredUse found() const { return found(suite()); }
  void use_found(Suite& suite) const { use_stored(found(suite), suite); }

  /// The suite, with what is kept in the place of its runs.
  Suite restored() const {
    Suite here = suite();
    use_found(here);
    return here;
  }

  std::string refusal(const Suite& suite, bool accept_revision = false) const {
    const StoredUse use = found(suite, accept_revision);
    EXPECT_THAT(use.matches, IsEmpty());
    return use.refused.empty() ? "" : use.refused.front();
  }

  /// Changes every kept file.
  void edit(const std::function<void(nlohmann::json&)>& change) const {
    for (const std::string& file : kept_files()) {
      nlohmann::json in = nlohmann::json::parse(read_text(file));
      change(in);
      in.erase("check");  // as files of earlier versions have none
      write_file(file, in.dump(1));
    }
  }

  /// Changes what a suite restored here.
  void edit_restored(const Suite& here, const std::function<void(nlohmann::json&)>& change) const {
    for (const Cell& cell : here.cells) {
      const std::string file = cell.folder.file("stored.json");
      nlohmann::json in = nlohmann::json::parse(read_text(file));
      change(in);
      write_file(file, in.dump(1));
    }
  }

  /// The model as it is in another release, of the same version. @param options  its own, JSON
  void change_model(const std::string& options) {
    nlohmann::json model = made_manifest(Kind::model, "vit");
    model["takes"] = {"image"};
    model["gives"] = {"logits"};
    model["options"] = nlohmann::json::parse(options);
    write_plugin(parts_.folder(), "plugins/vit.so", model);
    catalogue_ = catalogue_of(parts_.folder() / "plugins");
  }

  const MadeParts parts_;
  Catalogue catalogue_ = with_counting(parts_);
  const TempFolder temp_;
};

}  // namespace attnlab::testing
