// A folder to work in, and the program with everything that its tests look at.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/base/json.h"
#include "tests/support/message_of.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

/// The build tree that the tests belong to.
const std::string& build_tree();
std::string broken_plugins();

using Environment = std::map<std::string, std::string>;

/// A text that holds each of these words: for tables of a test.
inline auto mentions(const Words& words) {
  std::vector<::testing::Matcher<const std::string&>> each;
  for (const std::string& word : words) each.push_back(::testing::HasSubstr(word));
  return ::testing::AllOfArray(each);
}

/// What stands in a run's checkpoint: each tensor's dtype, shape and bytes by name
/// ("model.head.bias", "optimizer...."), without the metadata.
std::map<std::string, std::string> checkpoint_tensors(const std::string& run_folder);
/// Those that belong to the model.
std::map<std::string, std::string> model_tensors(const std::string& run_folder);

/// A run's status.json.
nlohmann::json status_of(const std::string& run_folder);
/// Has a run's status say that the run was interrupted, as a program of an earlier version wrote
/// it.
void call_interrupted(const std::string& run_folder);
/// Its metrics without those that measure time.
nlohmann::json timeless_metrics(const std::string& run_folder);
/// The lines of metrics.jsonl; those of one split where it is given.
std::vector<nlohmann::json> metric_lines(const std::string& run_folder,
                                         const std::string& split = "");

/// The losses of its lines of training.
std::vector<double> losses(const std::string& run_folder);

/// Tests in a fresh folder that holds `tiny.yaml`: a ViT of 6 000 parameters on made-up images, two
/// epochs of four steps.
class Workspace : public ::testing::Test {
 protected:
  Workspace();

  /// The program with these words, in this folder.
  Invocation invocation(Words words, Environment environment = {}) const;
  Ended attnlab(Words words, Environment environment = {}) const;
  /// The program must end with 0. @returns its end.
  Ended must(Words words, Environment environment = {}) const;
  /// The program must refuse, with 2. @returns what it says.
  std::string refusal(Words words, Environment environment = {}) const;
  /// The program must fail by itself, with any code. @returns what it says.
  std::string complaint(const Words& words) const;

  /// The one run below runs/<experiment>/<attention>/ whose name starts with the seed.
  std::string run_folder(const std::string& below, int seed = 0) const;
  std::string at(const std::string& name) const { return folder_ / name; }
  bool exists(const std::string& name) const;
  /// Every file below a folder whose name holds `part`.
  std::vector<std::string> files_like(const std::string& part) const;

  TempFolder folder_;
};

}  // namespace attnlab::testing
