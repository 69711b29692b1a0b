// The conformance kit for datasets: does one keep the contract of framework/contracts/dataset.h?
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/conformance/conformance.h"
#include "framework/contracts/dataset.h"
#include "framework/host/registry.h"

namespace attnlab::conformance {

/// The dataset that is checked, and ways to open it anew.
struct DatasetSubject {
  static constexpr std::uint64_t kSeed = 1;

  /// With the random streams of a seed.
  std::function<std::shared_ptr<const Dataset>(std::uint64_t seed)> open;
  /// With files from another folder; empty where it reads none.
  std::function<std::shared_ptr<const Dataset>(const std::string& folder)> open_folder{};
  std::string root{};  ///< the option root: the data's folder or one above it; empty: not given
  /// One option changed: what was changed, and the way to open it.
  struct Variant {
    std::string name;  ///< "noise=0.75"
    std::function<std::shared_ptr<const Dataset>()> open;
  };
  std::vector<Variant> variants{};
  /// The fields that its plugin's manifest promises; empty: not compared.
  std::vector<std::string> gives{};
  /// Told what is tried next, so that a crash can be placed; may be empty.
  std::function<void(const std::string&)> trying{};
};

/// The subject of a plugin. Its folder of files is the option `root`.
/// @param registry  must outlive the subject
DatasetSubject subject_of(Registry& registry, const Part& part,
                          std::function<void(const std::string&)> trying = {});

/// As for attentions. @throws ConfigError when there is no check of that name.
CheckResult run_check(std::string_view check, const DatasetSubject& subject);

/// Every check of `kDatasetChecks`.
std::vector<CheckResult> run_checks(const DatasetSubject& subject);

}  // namespace attnlab::conformance
