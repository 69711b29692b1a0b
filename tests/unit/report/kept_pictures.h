// Runs that keep a picture each, for tests of pictures on the report's page.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "framework/base/json.h"
#include "framework/runs/run_records.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

class KeptPictures : public ::testing::Test {
 protected:
  /// @param name  of the file, and of the list in it: "boxes" of boxes.json
  KeptPictures(std::string experiment, std::string name)
      : experiment_(std::move(experiment)), name_(std::move(name)) {}

  /// @param picture  null: the run keeps none
  void add_run(const std::string& attention, std::int64_t seed, const nlohmann::json& picture) {
    RunRecord run;
    run.experiment = experiment_;
    run.attention = attention;
    run.seed = seed;
    const std::string folder = attention + std::to_string(seed);
    run.folder = temp_ / folder;
    if (!picture.is_null()) {
      temp_.write(folder + "/" + name_ + ".json", nlohmann::json{{name_, {picture}}}.dump());
    }
    runs_.push_back(std::move(run));
  }

  TempFolder temp_;
  std::vector<RunRecord> runs_;
  std::vector<std::string> notes_;

 private:
  std::string experiment_, name_;
};

}  // namespace attnlab::testing
